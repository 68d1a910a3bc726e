// Encoders: the rows of a text see each other, and one step computes all of them.
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "cpu-runner/cpu_backend.h"
#include "runner/commands/checkpoint.h"
#include "runner/commands/loaded_model.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/fixtures/golden_models.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

using Texts = std::vector<std::vector<uint32_t>>;

EngineFlags flags_for(const std::string& file) {
  EngineFlags flags;
  flags.model = golden_model_path(file);
  flags.num_threads = 2;
  flags.num_kvcache_blocks = 100;
  return flags;
}

nlohmann::json golden(const std::string& name) {
  std::ifstream file(golden_model_path(name + ".json"));
  return nlohmann::json::parse(file);
}

LoadedModel loaded_with(const EngineFlags& flags) {
  Result<LoadedModel> loaded =
      load(flags, *make_cpu_backend(flags.backend_options()), [](uint64_t, uint64_t) {});
  if (!loaded.ok()) FAIL(loaded.error().message);
  return *std::move(loaded);
}

// The vectors of texts that one engine gets at once.
Logits vectors_of(Engine& engine, const Texts& texts, Pooling pooling) {
  for (uint32_t id = 1; id <= texts.size(); ++id) {
    Result<Sequence> sequence = sequence_from(
        EmbedRequest{.request_id = id, .token_ids = texts[id - 1], .pooling = pooling}, engine.limits());
    if (!sequence.ok()) FAIL(sequence.error().message);
    CHECK_FALSE(engine.add(*std::move(sequence)));
  }
  std::map<uint32_t, std::vector<float>> vectors;
  while (engine.has_work())
    for (const Embedded& embedded : engine.step().embedded) vectors[embedded.request_id] = embedded.values;
  Logits in_order;
  for (const auto& [id, vector] : vectors) in_order.push_back(vector);
  CHECK(in_order.size() == texts.size());
  return in_order;
}

// The logit of a text whose tokens from this index on are of the second type.
float logit_of(Engine& engine, const std::vector<uint32_t>& ids, uint32_t second_type_from) {
  Result<Sequence> sequence = sequence_from(
      EmbedRequest{
          .request_id = 1, .token_ids = ids, .pooling = Pooling::kRank, .second_type_from = second_type_from},
      engine.limits());
  if (!sequence.ok()) FAIL(sequence.error().message);
  CHECK_FALSE(engine.add(*std::move(sequence)));
  std::vector<float> values;
  while (engine.has_work())
    for (const Embedded& embedded : engine.step().embedded) values = embedded.values;
  REQUIRE(values.size() == 1);
  return values.front();
}

}  // namespace

TEST_CASE("an encoder has the vectors of transformers, from a file and from a folder") {
  constexpr double kMaxOfVectors = 1e-4;
  constexpr double kMinCosine = 0.9999;
  for (const std::string encoder : {"bert", "roberta", "nomic-bert"}) {
    const nlohmann::json wanted = golden(encoder);
    const Texts texts = {wanted.at("prompt").get<std::vector<uint32_t>>()};
    for (const std::string& file : {encoder + "-f32.gguf", encoder}) {
      CAPTURE(file);
      EngineFlags exact = flags_for(file);
      exact.kv_cache_type = KvType::kF32;
      const LoadedModel model = loaded_with(exact);
      CHECK(model.engine->config().max_model_len == 512);
      for (const auto& [name, pooling] : kPoolings) {
        CAPTURE(name);
        const std::vector<float> vector = vectors_of(*model.engine, texts, pooling).front();
        CHECK(difference_of(vector, wanted.at("vectors").at(name)).max < kMaxOfVectors);
      }
    }
    const LoadedModel bytes = loaded_with(flags_for(encoder + "-q8_0.gguf"));
    for (const auto& [name, pooling] : kPoolings) {
      CAPTURE(name);
      const std::vector<float> vector = vectors_of(*bytes.engine, texts, pooling).front();
      CHECK(difference_of(vector, wanted.at("vectors_q8_0").at(name)).cosine > kMinCosine);
    }
  }
}

TEST_CASE("a text has a vector of the same bits alone and beside others, however it is computed") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  // Some begin alike: what they have in common does not help, since it sees what comes behind.
  Texts texts;
  for (const uint32_t size : {1u, 2u, 33u, 64u, 64u, 200u, 511u, 512u, 512u}) {
    texts.push_back(random_ids(size, 256, random));
    if (size >= 64) std::copy_n(texts[2].begin(), 33, texts.back().begin());
  }
  for (const std::string file : {"bert-q8_0.gguf", "roberta-q8_0.gguf", "nomic-bert-q8_0.gguf"}) {
    CAPTURE(file);
    EngineFlags plain = flags_for(file);
    plain.num_threads = 1;
    const LoadedModel alone = loaded_with(plain);
    for (const auto& [name, pooling] : kPoolings) {
      CAPTURE(name);
      Logits wanted;
      for (const auto& text : texts) wanted.push_back(vectors_of(*alone.engine, {text}, pooling).front());
      for (const Kernels* kernels : usable_kernels()) {
        CAPTURE(kernels->name);
        EngineFlags flags = flags_for(file);
        flags.isa = kernels->name;
        flags.num_threads = 3;
        flags.block_size = 8;
        flags.num_kvcache_blocks = 140;
        flags.max_num_batched_tokens = 700;
        CHECK(same_bits(vectors_of(*loaded_with(flags).engine, texts, pooling), wanted));
      }
    }
    CHECK(alone.engine->scheduler().counts().num_cached_tokens == 0);
  }
}

TEST_CASE("a reranker has the logit of transformers for a pair, whose second text has its type of tokens") {
  constexpr double kMaxOfLogit = 1e-4;
  for (const std::string file : {"bert-rank", "roberta-rank", "roberta-rank-f32.gguf"}) {
    CAPTURE(file);
    const nlohmann::json wanted = golden(file.substr(0, file.find("rank") + 4));
    const auto ids = wanted.at("prompt").get<std::vector<uint32_t>>();
    const uint32_t second = wanted.at("second_type_from");
    EngineFlags exact = flags_for(file);
    exact.kv_cache_type = KvType::kF32;
    const LoadedModel model = loaded_with(exact);
    const float logit = logit_of(*model.engine, ids, second);
    CHECK(std::abs(logit - wanted.at("logit").get<double>()) < kMaxOfLogit);
    if (second != 0) CHECK(std::abs(logit - logit_of(*model.engine, ids, 0)) > 10 * kMaxOfLogit);
    EngineFlags other = exact;
    other.num_threads = 1;
    other.isa = "portable";
    const LoadedModel portable = loaded_with(other);
    CHECK(logit_of(*portable.engine, ids, second) == logit);
  }
}

TEST_CASE(
    "a model of one row of token types has it as a matrix or, from llama.cpp's quantizer, as a vector") {
  GgufWriter writer = writer_of(golden_model_path("roberta-rank-f32.gguf"));
  for (WrittenTensor& tensor : writer.tensors)
    if (tensor.dims.size() == 2 && tensor.dims[1] == 1) tensor.dims.pop_back();
  const TemporaryFile file(writer.bytes());
  EngineFlags flags = flags_for("");
  flags.model = file.path();
  flags.kv_cache_type = KvType::kF32;
  const nlohmann::json wanted = golden("roberta-rank");
  const float logit = logit_of(*loaded_with(flags).engine, wanted.at("prompt"), 0);
  CHECK(std::abs(logit - wanted.at("logit").get<double>()) < 1e-4);
}

TEST_CASE("a classification head that ranks no pairs is refused by name") {
  const auto refusal = [](const std::function<void(GgufWriter&)>& change) {
    GgufWriter writer = writer_of(golden_model_path("roberta-rank-f32.gguf"));
    change(writer);
    const TemporaryFile file(writer.bytes());
    EngineFlags flags = flags_for("");
    flags.model = file.path();
    const Result<LoadedModel> loaded =
        load(flags, *make_cpu_backend(flags.backend_options()), [](uint64_t, uint64_t) {});
    REQUIRE_FALSE(loaded.ok());
    return loaded.error().message;
  };
  CHECK(refusal([](GgufWriter& writer) {
          for (WrittenTensor& tensor : writer.tensors) {
            if (tensor.name != "cls.output.weight") continue;
            tensor.dims = {64, 2};
            tensor.data += tensor.data;
          }
        }).find("has a classification head with 2 labels; only rerankers, which have one, are supported") !=
        std::string::npos);
  // llama.cpp's converter leaves out BERT's pooler, without which its head has no meaning.
  CHECK(refusal([](GgufWriter& writer) {
          std::erase_if(writer.tensors, [](const auto& tensor) { return tensor.name.starts_with("cls.w"); });
        }).find("lacks tensor \"cls.weight\"") != std::string::npos);
}

TEST_CASE("a step has room for an encoder's context, and the context is the limit of a text") {
  EngineFlags flags = flags_for("bert-f32.gguf");
  flags.max_num_batched_tokens = 16;
  const LoadedModel model = loaded_with(flags);
  CHECK(model.engine->config().scheduler.max_num_batched_tokens == 512);
  CHECK(model.engine->config().max_model_len == 512);
  const auto refused = sequence_from(
      EmbedRequest{.request_id = 1, .token_ids = std::vector<uint32_t>(513), .pooling = Pooling::kMean},
      model.engine->limits());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("token_ids has 513 ids; the limit is 512") != std::string::npos);
}

TEST_CASE("an encoder refuses to write") {
  const LoadedModel model = loaded_with(flags_for("bert-f32.gguf"));
  const auto refused =
      sequence_from(Request{.request_id = 1, .token_ids = {1}, .max_tokens = 1}, model.engine->limits());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message ==
        "The model is an encoder, which makes vectors of texts and writes none; ask for an embedding.");
  const EngineFlags flags = flags_for("bert-f32.gguf");
  std::ostringstream out;
  const auto written =
      checkpoint(flags, *make_cpu_backend(flags.backend_options()), {.token_ids = {1}, .out = "none"}, out);
  REQUIRE_FALSE(written.ok());
  CHECK(written.error().message.find("is an encoder; checkpoint writes the steps of decoders only") !=
        std::string::npos);
}

}  // namespace runnel
