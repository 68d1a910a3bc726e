// The commands themselves on the fake model, and the command line up to the load of a model.
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "runner/bench/bench.h"
#include "runner/commands/generate.h"
#include "runner/commands/run_commands.h"
#include "runner/commands/score.h"
#include "test/fixtures/fake_model.h"
#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using nlohmann::json;

struct Fixture {
  FakeModel model{8, 60, 16};
  Engine engine{
      model,
      {.max_model_len = 100,
       .scheduler = {.max_num_batched_tokens = 16, .max_num_seqs = 4, .block_size = 8, .num_blocks = 60}}};
  std::ostringstream out;
};

GenerateFlags seeded_flags() {
  GenerateFlags flags;
  flags.tokens = count_from(1, 20);
  flags.max_tokens = 12;
  flags.sampling.seed = 18446744073709551615u;
  return flags;
}

Sequence sequence_for(const GenerateFlags& flags) {
  Sequence sequence = sequence_of(1, flags.tokens, flags.max_tokens);
  sequence.sampling = flags.sampling;
  return sequence;
}

int status_of(std::vector<const char*> arguments, ExitCode backend_error = ExitCode::kNoDevice) {
  arguments.insert(arguments.begin(), "cpu-runner");
  return run_commands(static_cast<int>(arguments.size()), arguments.data(),
                      {.kind = "cpu", .make = [&](const BackendOptions&) -> Result<std::unique_ptr<Backend>> {
                         return Error{backend_error, "There is no backend in this test."};
                       }});
}

int gpu_status_of(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "cuda-runner");
  return run_commands(
      static_cast<int>(arguments.size()), arguments.data(),
      {.kind = "cuda",
       .make = [](const BackendOptions&) -> Result<std::unique_ptr<Backend>> {
         return Error{ExitCode::kNoDevice, "There is no device in this test."};
       },
       .report_devices = [](std::optional<uint32_t>, bool, std::ostream&) -> Result<void> { return {}; }});
}

int cpu_status_of(std::vector<const char*> arguments) {
  return status_of(std::move(arguments));
}

}  // namespace

TEST_CASE("cuda-runner refuses float activations, instruction sets and NUMA nodes, which are cpu-runner's") {
  CHECK(gpu_status_of({"generate", "--model", "m", "--tokens", "1", "--activations", "f32"}) == 64);
  CHECK(gpu_status_of({"generate", "--model", "m", "--tokens", "1", "--activations", "i8"}) ==
        static_cast<int>(ExitCode::kNoDevice));
  CHECK(gpu_status_of({"generate", "--model", "m", "--tokens", "1", "--isa", "avx2"}) == 64);
  CHECK(gpu_status_of({"generate", "--model", "m", "--tokens", "1", "--numa", "off"}) == 64);
}

TEST_CASE("the threads of a backend are divided among the nodes that --numa says") {
  const auto nodes_with = [](std::vector<const char*> arguments) {
    std::vector<uint32_t> counts;
    const auto make = [&](const BackendOptions& options) -> Result<std::unique_ptr<Backend>> {
      for (const NodeThreads& node : options.nodes) counts.push_back(node.num_threads);
      return Error{ExitCode::kNoDevice, "There is no backend in this test."};
    };
    arguments.insert(arguments.begin(), {"cpu-runner", "generate", "--model", "m", "--tokens", "1"});
    run_commands(static_cast<int>(arguments.size()), arguments.data(), {.kind = "cpu", .make = make});
    return counts;
  };
  using Counts = std::vector<uint32_t>;
  CHECK(nodes_with({"--threads", "5", "--numa", "off"}) == Counts{5});
  CHECK(nodes_with({"--threads", "5", "--numa", "2"}) == Counts{3, 2});
  CHECK(nodes_with({"--threads", "3", "--numa", "8"}) == Counts{1, 1, 1});
  const Counts of_machine = nodes_with({"--threads", "64", "--numa", "auto"});
  CHECK(std::accumulate(of_machine.begin(), of_machine.end(), 0u) == 64);
  CHECK(nodes_with({"--threads", "64"}) == of_machine);
}

TEST_CASE("checkpoint stores keys and values as they are, unless a flag says otherwise") {
  std::vector<KvType> asked;
  const auto ask = [&](std::vector<const char*> arguments) {
    const auto make = [&](const BackendOptions& options) -> Result<std::unique_ptr<Backend>> {
      asked.push_back(options.kv_type);
      return Error{ExitCode::kNoDevice, "There is no backend in this test."};
    };
    run_commands(static_cast<int>(arguments.size()), arguments.data(), {.kind = "cpu", .make = make});
  };
  ask({"cpu-runner", "checkpoint", "--model", "m", "--tokens", "1", "--out", "folder"});
  ask({"cpu-runner", "checkpoint", "--model", "m", "--tokens", "1", "--out", "folder", "--kv-cache-type",
       "f16"});
  ask({"cpu-runner", "generate", "--model", "m", "--tokens", "1"});
  CHECK(asked == std::vector{KvType::kF32, KvType::kF16, KvType::kF16});
}

TEST_CASE("a runner accepts or refuses by name the flags of other servers") {
  const auto with = [](auto&&... more) {
    return std::vector<const char*>{"generate", "--model", "m", "--tokens", "1", more...};
  };
  const int ready = static_cast<int>(ExitCode::kNoDevice);
  for (const auto status : {cpu_status_of, gpu_status_of}) {
    CHECK(status(with("--kvcache-block-size", "64")) == ready);
    CHECK(status(with("--num-kvcache-blocks", "9")) == ready);
    CHECK(status(with("--num-kvcache-blocks", "-1")) == ready);
    CHECK(status(with("--num-kvcache-blocks", "0")) == 64);
    CHECK(status(with("--num-kvcache-blocks", "4294967296")) == 64);
    CHECK(status(with("--num-kvcache-blocks", "9", "--kv-cache-bytes", "9")) == 64);
    CHECK(status(with("--tensor-parallel-size", "1")) == ready);
    CHECK(status(with("--tensor-parallel-size", "17")) == 64);
  }
  CHECK(gpu_status_of(with("--tensor-parallel-size", "2", "--fewer-gpus")) == ready);
  CHECK(gpu_status_of(with("--tensor-parallel-size", "2", "--all-gather-backend", "nccl")) == ready);
  CHECK(gpu_status_of(with("--tensor-parallel-size", "2", "--all-gather-backend", "mpi")) == 64);
  CHECK(cpu_status_of(with("--tensor-parallel-size", "2", "--all-gather-backend", "copies")) == 64);
  CHECK(status_of({"checkpoint", "--model", "m", "--tokens", "1", "--out", "folder", "--tensor-parallel-size",
                   "2"}) == 64);
  CHECK(gpu_status_of(with("--gpu-memory-utilization", "0.9")) == ready);
  CHECK(gpu_status_of(with("--gpu-memory-utilization", "0")) == 64);
  CHECK(gpu_status_of(with("--gpu-memory-utilization", "1.1")) == 64);
  CHECK(gpu_status_of(with("--gpu-memory-utilization", "0.9", "--kv-cache-bytes", "9")) == 64);
  CHECK(gpu_status_of(with("--gpu-memory-utilization", "0.9", "--num-kvcache-blocks", "9")) == 64);
  CHECK(status_of(with("--gpu-memory-utilization", "0.9")) == 64);
  CHECK(status_of(with("--memory-bytes", "9", "--num-kvcache-blocks", "9")) == 64);
}

TEST_CASE("generate: prints an id a line, or one object") {
  Fixture fixture;
  GenerateFlags flags = seeded_flags();
  const std::vector<uint32_t> answer = fake_answer(sequence_for(flags));
  CHECK(generate(fixture.engine, flags, fixture.out).ok());
  std::istringstream lines(fixture.out.str());
  for (const uint32_t id : answer) {
    std::string line;
    CHECK(std::getline(lines, line));
    CHECK(line == std::to_string(id));
  }

  fixture.out.str("");
  flags.json = true;
  flags.logprobs = 2;
  flags.stop_ids = {answer[5]};
  CHECK(generate(fixture.engine, flags, fixture.out).ok());
  const json object = json::parse(fixture.out.str());
  const size_t num_tokens = std::ranges::find(answer, answer[5]) - answer.begin() + 1;
  CHECK(object["token_ids"] == json(std::vector(answer.begin(), answer.begin() + num_tokens)));
  CHECK(object["finish_reason"] == "stop_id");
  CHECK(object["seed"] == 18446744073709551615u);
  CHECK(object["prompt_tokens"] == 20);
  CHECK(object["logprobs"].size() == num_tokens);
  CHECK(object["logprobs"][0]["top_ids"].size() == 2);
}

TEST_CASE("generate: every sampling flag reaches the sampler") {
  Fixture fixture;
  GenerateFlags flags = seeded_flags();
  flags.sampling = {.temperature = 1.5f,
                    .top_k = 50,
                    .top_p = 0.9f,
                    .min_p = 0.01f,
                    .repetition_penalty = 1.2f,
                    .presence_penalty = 1.0f,
                    .frequency_penalty = -0.5f,
                    .logit_bias = {{3, 2.0f}, {4, -100.0f}},
                    .allowed_ids = count_from(0, 80),
                    .banned_ids = count_from(20, 30),
                    .seed = 7};
  flags.stop_ids = count_from(0, 20);
  flags.min_tokens = 6;
  flags.json = true;
  CHECK(generate(fixture.engine, flags, fixture.out).ok());
  Sequence sequence = sequence_for(flags);
  sequence.stop_ids = flags.stop_ids;
  sequence.min_tokens = flags.min_tokens;
  const std::vector<uint32_t> answer = fake_answer(sequence);
  CHECK(json::parse(fixture.out.str())["token_ids"] == json(answer));
  sequence.min_tokens = 0;
  CHECK(fake_answer(sequence) != answer);
}

TEST_CASE("generate: scores of the prompt are those that the score command prints") {
  Fixture fixture;
  GenerateFlags flags = seeded_flags();
  flags.json = true;
  flags.prompt_logprobs = 2;
  CHECK(generate(fixture.engine, flags, fixture.out).ok());
  const json generated = json::parse(fixture.out.str())["prompt_logprobs"];
  fixture.out.str("");
  CHECK(score(fixture.engine, flags.tokens, 2, fixture.out).ok());
  const json scores = json::parse(fixture.out.str());
  REQUIRE(generated.size() == 19);
  for (size_t i = 0; i < 19; ++i) {
    CHECK(generated[i]["logprob"].get<float>() == scores["next_logprob"][i].get<float>());
    CHECK(generated[i]["top_ids"] == scores["top_ids"][i]);
  }
}

TEST_CASE("generate: refuses by name what serve refuses") {
  Fixture fixture;
  GenerateFlags flags = seeded_flags();
  flags.tokens[2] = 101;
  const Result<void> refused = generate(fixture.engine, flags, fixture.out);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().exit_code == ExitCode::kUsage);
  CHECK(refused.error().message == "token_ids[2] is 101; the model's ids are below 101.");
  CHECK(fixture.out.str() == "");
}

TEST_CASE("score: has an entry for every id, with the bits that generating gives") {
  Fixture fixture;
  GenerateFlags flags = seeded_flags();
  flags.logprobs = 3;
  Sequence request = sequence_for(flags);
  request.top_logprobs = 3;
  CHECK_FALSE(fixture.engine.add(request));
  std::vector<TokenLogprobs> generated;
  std::vector<uint32_t> ids = flags.tokens;
  while (fixture.engine.has_work()) {
    for (const NewToken& token : fixture.engine.step().tokens) {
      ids.push_back(token.token_id);
      generated.push_back(*token.logprobs);
    }
  }
  CHECK(score(fixture.engine, ids, 3, fixture.out).ok());
  const json scores = json::parse(fixture.out.str());
  CHECK(scores["next_logprob"].size() == 31);
  CHECK(scores["top_ids"].size() == 32);
  CHECK(scores["top_logprob"].size() == 32);
  for (size_t i = 0; i < generated.size(); ++i) {
    CHECK(scores["next_logprob"][19 + i].get<float>() == generated[i].logprob);
    CHECK(scores["top_ids"][19 + i] == json(generated[i].top_ids));
    CHECK(scores["top_logprob"][19 + i].get<std::vector<float>>() == generated[i].top_logprobs);
  }
  CHECK(scores["top_ids"][31] == json(compute_logprobs(fake_logits(ids), 0, 3).top_ids));
}

TEST_CASE("score: a single id has no next token, and an empty list is refused") {
  Fixture fixture;
  CHECK(score(fixture.engine, {5}, 0, fixture.out).ok());
  CHECK(fixture.out.str() == "{\"next_logprob\":[],\"top_ids\":[[]],\"top_logprob\":[[]]}\n");
  CHECK(score(fixture.engine, {}, 0, fixture.out).error().message ==
        "token_ids is empty; at least one token is needed.");
  CHECK(score(fixture.engine, count_from(0, 100), 0, fixture.out).error().exit_code == ExitCode::kUsage);
}

TEST_CASE("score: an invalid file of ids is refused with its fault") {
  const std::string path = "score_tokens_test.json";
  const auto error_of = [&](const std::string& content) {
    std::ofstream(path) << content;
    const Result<std::vector<uint32_t>> ids = read_token_ids(path);
    return ids.ok() ? "" : ids.error().message;
  };
  CHECK(error_of("[1, 2, 4294967295]") == "");
  CHECK(error_of("{\"a\":1}").find("JSON array") != std::string::npos);
  CHECK(error_of("[1, 2").find("JSON array") != std::string::npos);
  CHECK(error_of("[1, -2]").find("Item 1") != std::string::npos);
  CHECK(error_of("[1, 2.5]").find("Item 1") != std::string::npos);
  CHECK(error_of("[4294967296]").find("Item 0") != std::string::npos);
  std::remove(path.c_str());
  CHECK(read_token_ids(path).error().exit_code == ExitCode::kNoFile);
}

TEST_CASE("bench: measures a prompt and each batch, and refuses what does not fit") {
  Fixture fixture;
  const BenchSubject subject{.model = "fake.gguf", .device = "fake", .num_threads = 2};
  BenchFlags flags{
      .num_prompt_tokens = 40, .num_generated = 10, .batches = {1, 4}, .num_repeats = 3, .json = true};
  CHECK(bench(fixture.engine, flags, subject, fixture.out).ok());
  const json object = json::parse(fixture.out.str());
  CHECK(object["prefill_tok_s"].get<double>() > 0);
  CHECK(object["decode_tok_s"]["1"].get<double>() > 0);
  CHECK(object["decode_tok_s"]["4"].get<double>() > 0);
  CHECK(object["spread"]["prefill_tok_s"][0].get<double>() <= object["prefill_tok_s"].get<double>());
  CHECK(object["threads"] == 2);
  CHECK(object["repeats"] == 3);

  flags.batches = {5};
  CHECK(bench(fixture.engine, flags, subject, fixture.out).error().exit_code == ExitCode::kUsage);
  flags.batches = {1};
  flags.num_generated = 99;
  CHECK(bench(fixture.engine, flags, subject, fixture.out).error().exit_code == ExitCode::kUsage);
}

TEST_CASE("command line: usage errors exit with status 64, other errors with their own") {
  CHECK(status_of({}) == 64);
  CHECK(status_of({"frobnicate"}) == 64);
  CHECK(status_of({"generate"}) == 64);
  CHECK(status_of({"generate", "--model", "m"}) == 64);
  for (const char* bad : {"", "1,x", "1,,2", ",1", "1,", ",", " 1", "1 2", "-1", "+1", "1.0"}) {
    CAPTURE(bad);
    CHECK(status_of({"generate", "--model", "m", "--tokens", bad}) == 64);
    for (const char* list : {"--stop-ids", "--allowed-ids", "--banned-ids"})
      CHECK(status_of({"generate", "--model", "m", "--tokens", "1", list, bad}) == 64);
  }
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1,2,4294967295", "--stop-ids", "3,4"}) == 69);
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1", "--seed", "18446744073709551616"}) == 64);
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1", "--seed", "18446744073709551615"}) == 69);
  CHECK(status_of({"generate", "--model", "m", "--tokens", "4294967296"}) == 64);
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1", "--max-tokens", "-1"}) == 64);
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1", "--threads", "0"}) == 64);
  for (const char* bad : {"5", "5=", "=1", "x=1", "5=x", "-1=1", "4294967296=1", "5=1=2", ""}) {
    CAPTURE(bad);
    CHECK(status_of({"generate", "--model", "m", "--tokens", "1", "--logit-bias", bad}) == 64);
  }
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1", "--logit-bias", "5=-1.5", "--logit-bias",
                   "6=100"}) == 69);
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1", "--kv-cache-type", "F16"}) == 64);
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1", "--kv-cache-type", "q8_0"}) == 69);
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1", "--activations", "i4"}) == 64);
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1", "--activations", "f32"}) == 69);
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1", "--isa", "avx2"}) == 69);
  CHECK(status_of({"devices", "--json"}) == 69);
  CHECK(status_of({"devices", "--gpu-device", "0"}) == 64);
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1", "--numa", "9"}) == 64);
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1", "--numa", "2"}) == 69);
  CHECK(status_of({"bench", "--model", "m", "--memory-bytes", "0"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--memory-bytes", "1"}) == 69);
  CHECK(status_of({"bench", "--model", "m", "--memory-bytes", "1", "--kv-cache-bytes", "1"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--batch", "0"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--workload", "--fraction", "0"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--workload", "--batch", "1"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--workload", "--long-prompt", "100"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--workload", "--streams", "2"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--long-prompt", "100", "--repeats", "2"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--fraction", "0.1"}) == 64);
  CHECK(status_of(
            {"bench", "--model", "m", "--kernels", "--prompt", "9", "--batch", "1", "--repeats", "2"}) == 69);
  CHECK(status_of({"bench", "--model", "m", "--kernels", "--workload"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--kernels", "--long-prompt", "100"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--kernels", "--generate", "4"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--kernels", "--kv-cache-bytes", "1"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--iters", "1"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--max-num-seqs", "4"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--workload", "--fraction", "0.1", "--iters", "2"}) == 69);
  CHECK(status_of({"bench", "--model", "m", "--long-prompt", "100", "--streams", "2"}) == 69);
  CHECK(status_of({"serve", "--model", "m", "--mixed-batches", "yes"}) == 64);
  // The sandbox is off, since serve would confine this process.
  CHECK(status_of({"serve", "--model", "m", "--mixed-batches", "off", "--sandbox", "off"}) == 69);
  CHECK(status_of({"serve", "--model", "m", "--sandbox", "on"}) == 64);
  CHECK(status_of({"serve", "--model", "m", "--mixed-prefill-tokens", "0"}) == 64);
  CHECK(status_of({"bench", "--model", "m", "--mixed-batches", "on", "--mixed-prefill-tokens", "64"}) == 69);
  CHECK(status_of({"serve", "--model", "m", "--record-max-bytes", "65535"}) == 64);
  CHECK(status_of({"serve", "--model", "m", "--record-max-bytes", "18446744073709551616"}) == 64);
  CHECK(status_of({"serve", "--model", "m", "--json-frames", "yes"}) == 64);
  CHECK(status_of({"replay"}) == 64);
  CHECK(status_of({"replay", "/nonexistent/session.frames", "--until", "0"}) == 64);
  CHECK(status_of({"replay", "/nonexistent/session.frames", "--until", "3"}) == 66);
  CHECK(status_of({"inspect", "--model", "/nonexistent/model.gguf"}) == 66);
  CHECK(status_of({"score", "--model", "m", "--tokens-file", "/nonexistent/ids.json"}) == 66);
  CHECK(status_of({"serve", "--model", "m", "--expect-file", "1-2-x-4"}) == 64);
  CHECK(status_of({"serve", "--model", "m", "--expect-file", "1-2-3"}) == 64);
  CHECK(status_of({"generate", "--model", "m", "--tokens", "1"}) == 69);
  CHECK(status_of({"synth", "--arch", "llama", "--shape", "1b"}) == 64);
  CHECK(status_of({"synth", "--arch", "qwen", "--shape", "1b", "/nonexistent/model.gguf"}) == 64);
  CHECK(status_of({"synth", "--arch", "llama", "--shape", "0.6b", "/nonexistent/model.gguf"}) == 64);
  CHECK(status_of({"synth", "--arch", "qwen3", "--shape", "1b", "/nonexistent/model.gguf"}) == 64);
  CHECK(status_of({"synth", "--arch", "qwen3", "--shape", "0.6b", "/nonexistent/model.gguf"}) == 66);
  CHECK(status_of({"synth", "--arch", "llama", "--shape", "1b", "--type", "q4_x", "/nonexistent/model"}) ==
        64);
  CHECK(status_of({"synth", "--arch", "llama", "--shape", "1b", "--type", "f16", "/nonexistent/model"}) ==
        66);
  CHECK(status_of({"--help"}) == 0);
  CHECK(status_of({"serve", "--help"}) == 0);
  CHECK(status_of({"--version"}) == 0);
}

}  // namespace runnel
