// Compares the intermediate values of GPT-2 with those of transformers, and checks that the comparison sees
// each fault that a step could have. RUNNEL_CHECKPOINT_MODEL and RUNNEL_CHECKPOINT_REFERENCE select other
// weights for the first tests, such as those of GPT-2 itself. RUNNEL_PROOF_DIR is a folder to which the tests
// write what they compared.
#include "runner/commands/checkpoint.h"

#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>

#include "cpu-runner/cpu_backend.h"
#include "runner/backend/forwarding_backend.h"
#include "test/fixtures/gpt2_checkpoints.h"

namespace runnel {
namespace {

using namespace test;

std::unique_ptr<Backend> cpu_backend() {
  return *make_cpu_backend({.num_threads = 2, .kv_type = KvType::kF32});
}

Checkpoints checkpoints_of_file(const std::string& path) {
  return checkpoints_of(path, cpu_backend(), CheckpointReference().ids());
}

// The tensors that are too far from the reference.
std::vector<std::string> too_far(const Checkpoints& found) {
  std::vector<std::string> names;
  const CheckpointReference reference;
  for (const Tolerance& tolerance : kCheckpointTolerances) {
    if (!(reference.difference(found, tolerance.name) <= tolerance.largest)) names.push_back(tolerance.name);
  }
  return names;
}

// folder: the bundle's own, which is made.
void write_bundle(const std::string& folder, const Checkpoints& found, double seconds) {
  const std::string path = folder + "/";
  std::filesystem::create_directories(path);
  const CheckpointReference reference;
  nlohmann::json metadata = found.index;
  metadata.erase("tensors");
  std::ofstream(path + "metadata.json") << metadata.dump(1) << "\n";
  // Nothing here is random: the ids are the seed.
  std::ofstream(path + "seeds.ndjson")
      << nlohmann::json{{"token_ids", reference.ids()}, {"temperature", 0}} << "\n";
  std::ofstream transcript(path + "transcript.ndjson");
  for (const Tolerance& tolerance : kCheckpointTolerances) {
    transcript << nlohmann::json{{"checkpoint", tolerance.checkpoint},
                                 {"name", tolerance.name},
                                 {"largest_difference", reference.difference(found, tolerance.name)},
                                 {"tolerance", tolerance.largest}}
               << "\n";
  }
  std::ofstream(path + "timings.json") << nlohmann::json{{"checkpoint_seconds", seconds}} << "\n";
  std::ofstream(path + "README.md")
      << "What `cpu-runner checkpoint` computed of a GPT-2, compared with transformers in single precision:\n"
         "`transcript.ndjson` has the largest difference of each tensor beside what is allowed, "
         "`metadata.json` the\n"
         "model and the arithmetic, `seeds.ndjson` the ids.\n";
}

// The folder that was asked for by RUNNEL_PROOF_DIR; empty if none was.
std::string proof_folder() {
  const std::string folder = environment("RUNNEL_PROOF_DIR", "");
  if (folder.empty()) return folder;
  const std::time_t now = std::time(nullptr);
  char run_id[32];
  std::strftime(run_id, sizeof run_id, "%Y%m%d_%H%M%S", std::gmtime(&now));
  return folder + "/checkpoints/" + environment("RUNNEL_RUN_ID", run_id);
}

TEST_CASE("GPT-2 checkpoints: every step is as near to transformers as it must be") {
  const auto start = std::chrono::steady_clock::now();
  const Checkpoints found = checkpoints_of_file(CheckpointReference::model_path());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (const std::string folder = proof_folder(); !folder.empty())
    write_bundle(folder, found, seconds.count());
  const CheckpointReference reference;
  for (const Tolerance& tolerance : kCheckpointTolerances) {
    CAPTURE(tolerance.checkpoint);
    CAPTURE(tolerance.name);
    CHECK(reference.difference(found, tolerance.name) <= tolerance.largest);
  }
}

TEST_CASE(
    "GPT-2 checkpoints: a proof bundle has a line for each tensor, and the ids that decide the result") {
  const TemporaryFolder folder;
  const Checkpoints found = checkpoints_of_file(CheckpointReference::model_path());
  write_bundle(folder.path() + "/bundle", found, 1.5);
  const auto json_of = [&](const std::string& name) {
    std::ifstream stream(folder.path() + "/bundle/" + name);
    return nlohmann::json::parse(stream);
  };
  std::ifstream transcript(folder.path() + "/bundle/transcript.ndjson");
  std::vector<std::string> names;
  for (std::string line; std::getline(transcript, line);) {
    const nlohmann::json tensor = nlohmann::json::parse(line);
    names.push_back(tensor["name"]);
    CHECK(tensor["largest_difference"] <= tensor["tolerance"]);
  }
  std::vector<std::string> wanted;
  for (const Tolerance& tolerance : kCheckpointTolerances) wanted.push_back(tolerance.name);
  CHECK(names == wanted);
  CHECK(json_of("seeds.ndjson")["token_ids"] == CheckpointReference().ids());
  CHECK(json_of("timings.json")["checkpoint_seconds"] == 1.5);
  CHECK(json_of("metadata.json")["architecture"] == "gpt2");
}

TEST_CASE("GPT-2 checkpoints: values derived from a step are exact") {
  const Checkpoints found = checkpoints_of_file(CheckpointReference::model_path());
  const auto& at = found.tensors;
  // 2: queries, keys and values are different.
  CHECK(at.at("q").values != at.at("k").values);
  CHECK(at.at("k").values != at.at("v").values);
  // 3: the cache holds the computed keys and values, and is read back whole.
  std::vector<float> computed = at.at("k").values;
  std::ranges::copy(at.at("v").values, std::back_inserter(computed));
  CHECK(at.at("cache").values == computed);
  // 4: only later positions are masked.
  const std::vector<float>& scores = at.at("scores").values;
  const std::vector<float>& masked = at.at("masked").values;
  const uint64_t num_rows = at.at("scores").shape[1];
  for (size_t i = 0; i < scores.size(); ++i)
    CHECK(masked[i] == (i % num_rows > i / num_rows % num_rows ? -HUGE_VALF : scores[i]));
  // 9, 10: the last row, and its largest logit.
  const std::vector<float>& logits = at.at("logits").values;
  const std::vector<float>& last = at.at("last_logits").values;
  CHECK(std::equal(last.begin(), last.end(), logits.end() - static_cast<ptrdiff_t>(last.size())));
  const CheckpointTensor wanted = CheckpointReference().tensor("logits");
  const auto first_of_last = wanted.values.end() - static_cast<ptrdiff_t>(last.size());
  CHECK(found.index["argmax"] == std::max_element(first_of_last, wanted.values.end()) - first_of_last);
  CHECK(found.index["greedy"][0] == found.index["argmax"]);
  // 11: the probabilities add up to 1.
  for (const char* name : {"softmax_0.5", "softmax_0.8", "softmax_1.0", "softmax_2.0"}) {
    double sum = 0.0;
    for (const float probability : at.at(name).values) sum += probability;
    CHECK(std::abs(sum - 1.0) < 1e-6);
  }
}

TEST_CASE("checkpoints: scores that the model caps are those that it attends with") {
  const Checkpoints found = checkpoints_of(golden_model_path("gemma2-f32.gguf"), cpu_backend(), {15, 213, 7});
  // Of the first head and the last row: the weights of its scores, and of the values that they belong to.
  const CheckpointTensor& masked = found.tensors.at("masked");
  const CheckpointTensor& values = found.tensors.at("v");
  const uint64_t num_rows = masked.shape[1];
  double sum = 0.0, attended = 0.0;
  for (uint64_t i = 0; i < num_rows; ++i) {
    const double weight = std::exp(double{masked.values[(num_rows - 1) * num_rows + i]});
    sum += weight;
    attended += weight * double{values.values[i * values.shape[1] * values.shape[2]]};
  }
  const CheckpointTensor& computed = found.tensors.at("attended");
  CHECK(std::abs(attended / sum - double{computed.values[(num_rows - 1) * computed.shape[1]]}) < 1e-5);
}

TEST_CASE("GPT-2 checkpoints: a hundred runs have the same bits") {
  const std::string model = golden_model_path("gpt2-f32.gguf");
  const Checkpoints first = checkpoints_of_file(model);
  for (int run = 0; run < 99; ++run) {
    const Checkpoints again = checkpoints_of_file(model);
    REQUIRE(again.index["greedy"] == first.index["greedy"]);
    for (const auto& [name, tensor] : first.tensors) {
      REQUIRE(std::memcmp(again.tensors.at(name).values.data(), tensor.values.data(),
                          tensor.values.size() * sizeof(float)) == 0);
    }
  }
}

// --- faults of weights and hyper-parameters: files that are wrong in one thing

std::vector<float> floats_of(const WrittenTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

void change(GgufWriter& writer, const std::string& name, const std::function<void(std::vector<float>&)>& fn) {
  WrittenTensor& tensor = writer.tensor(name);
  std::vector<float> values = floats_of(tensor);
  fn(values);
  std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
}

void scale(GgufWriter& writer, const std::string& name, float factor) {
  change(writer, name, [&](std::vector<float>& values) {
    for (float& value : values) value *= factor;
  });
}

std::vector<std::string> seen_of(const std::function<void(GgufWriter&)>& fault) {
  GgufWriter writer = writer_of(golden_model_path("gpt2-f32.gguf"));
  fault(writer);
  const TemporaryFile file(writer.bytes());
  return too_far(checkpoints_of_file(file.path()));
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

TEST_CASE("GPT-2 checkpoints: a file without a fault is too far from nothing") {
  CHECK(seen_of([](GgufWriter&) {}).empty());
}

TEST_CASE("GPT-2 checkpoints: a fault of a weight or a hyper-parameter is seen, first where it is") {
  const std::string block = "blk.0.";
  CHECK(has(seen_of([](GgufWriter& w) { w.f32("gpt2.attention.layer_norm_epsilon", 1e-3f); }), "norm"));
  CHECK(has(seen_of([&](GgufWriter& w) {
              std::swap(w.tensor(block + "attn_norm.weight").data, w.tensor(block + "attn_norm.bias").data);
            }),
            "norm"));
  CHECK(has(seen_of([&](GgufWriter& w) { scale(w, block + "attn_qkv.weight", 1.01f); }), "q"));
  CHECK(has(seen_of([&](GgufWriter& w) {
              // The matrix as transformers stores it, with a row for each input.
              change(w, block + "attn_qkv.weight", [](std::vector<float>& values) {
                const std::vector<float> before = values;
                const size_t columns = 64;
                const size_t rows = values.size() / columns;
                for (size_t i = 0; i < values.size(); ++i) values[i] = before[i % rows * columns + i / rows];
              });
            }),
            "q"));
  CHECK(has(seen_of([&](GgufWriter& w) { scale(w, block + "attn_qkv.bias", 0.0f); }), "k"));
  // Other numbers of heads: the shapes differ, and so do the results of attention.
  for (const uint32_t num_heads : {8u, 2u}) {
    const auto seen = seen_of([&](GgufWriter& w) { w.u32("gpt2.attention.head_count", num_heads); });
    CHECK(has(seen, "q"));
    CHECK(has(seen, "attention"));
  }
  CHECK(has(seen_of([&](GgufWriter& w) { scale(w, block + "attn_output.weight", 0.0f); }), "attention"));
  CHECK(has(seen_of([&](GgufWriter& w) { scale(w, block + "ffn_down.weight", 2.0f); }), "ffn"));
  // Positions that begin at 1.
  CHECK(has(seen_of([](GgufWriter& w) {
              change(w, "position_embd.weight", [](std::vector<float>& values) {
                std::rotate(values.begin(), values.begin() + 64, values.end());
              });
            }),
            "norm"));
  CHECK(has(seen_of([](GgufWriter& w) { scale(w, "output_norm.bias", 0.0f); }), "logits"));
}

// --- faults of the computation: backends that compute one thing differently

class FaultyGpt2 final : public ForwardingBackend {
 public:
  enum Fault { kScale, kEnd, kSilu, kInputOfFfn };

  FaultyGpt2(std::unique_ptr<Backend> backend, Fault fault)
      : ForwardingBackend(*backend), owned_(std::move(backend)), fault_(fault) {}

  void attend(const Batch& batch, const LayerSpec& layer) override {
    LayerSpec faulty = layer;
    if (fault_ == kScale) faulty.attention.scale = 1.0f;
    if (fault_ == kEnd) faulty.attention.window = 1;  // earlier positions are not read
    backend_.attend(batch, faulty);
  }
  void ffn(const Batch& batch, const FfnSpec& ffn) override {
    FfnSpec faulty = ffn;
    if (fault_ == kSilu) faulty.nonlinearity = Nonlinearity::kSilu;
    if (fault_ == kInputOfFfn) faulty.norm.kind = NormKind::kRms;
    backend_.ffn(batch, faulty);
  }

 private:
  const std::unique_ptr<Backend> owned_;
  const Fault fault_;
};

std::vector<std::string> seen_of(FaultyGpt2::Fault fault) {
  return too_far(checkpoints_of(golden_model_path("gpt2-f32.gguf"),
                                std::make_unique<FaultyGpt2>(cpu_backend(), fault),
                                CheckpointReference().ids()));
}

TEST_CASE("GPT-2 checkpoints: a fault of the computation is seen, first where it is") {
  CHECK(seen_of(FaultyGpt2::kScale).front() == "attention");
  CHECK(seen_of(FaultyGpt2::kEnd).front() == "attention");
  CHECK(seen_of(FaultyGpt2::kSilu).front() == "gated");
  CHECK(seen_of(FaultyGpt2::kInputOfFfn).front() == "ffn_norm");
}

TEST_CASE("GPT-2 checkpoints: a missing residual or a misplaced norm is detected") {
  const CheckpointReference reference;
  const Checkpoints found = checkpoints_of_file(golden_model_path("gpt2-f32.gguf"));
  const auto with_block = [&](const std::function<float(size_t)>& value) {
    Checkpoints faulty = found;
    std::vector<float>& block = faulty.tensors.at("block").values;
    for (size_t i = 0; i < block.size(); ++i) block[i] = value(i);
    return reference.difference(faulty, "block");
  };
  const std::vector<float>& block = found.tensors.at("block").values;
  const std::vector<float>& attention = found.tensors.at("attention").values;
  const std::vector<float>& ffn = found.tensors.at("ffn").values;
  CHECK(with_block([&](size_t i) { return block[i]; }) < 1e-4);
  CHECK(with_block([&](size_t i) { return ffn[i]; }) > 1e-4);
  CHECK(with_block([&](size_t i) { return block[i] - attention[i]; }) > 1e-4);
  CHECK(with_block([&](size_t i) { return found.tensors.at("ffn_norm").values[i] + ffn[i]; }) > 1e-4);
}

TEST_CASE("GPT-2 checkpoints: GELU by the error function would be seen on an input chosen for it") {
  constexpr double kInput = -2.7;
  const double by_tanh = apply(Nonlinearity::kGelu, static_cast<float>(kInput));
  const double by_erf = kInput / 2.0 * (1.0 + std::erf(kInput / std::sqrt(2.0)));
  CHECK(std::abs(by_tanh - by_erf) > 1e-4);
  const double u = std::sqrt(2.0 / 3.14159265358979323846) * (kInput + 0.044715 * kInput * kInput * kInput);
  CHECK(std::abs(by_tanh - kInput / 2.0 * (1.0 + std::tanh(u))) < 1e-6);
}

}  // namespace
}  // namespace runnel
