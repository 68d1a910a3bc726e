#include "runner/bench/bench.h"

#include <array>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "runner/bench/bench_request.h"
#include "runner/bench/samples.h"

namespace runnel {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// Tokens per second, one value for each repeat.
using Speeds = Samples;

ordered_json spread(const Speeds& speeds) {
  return {speeds.min(), speeds.max()};
}

// The shortest decimal that stands for this float: 0.8, not the double 0.800000011920929.
double decimal_of(float value) {
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double decimal = value;
  std::from_chars(text.data(), end, decimal);
  return decimal;
}

class Bench {
 public:
  Bench(Engine& engine, const BenchFlags& flags) : engine_(engine), flags_(flags), random_(kPromptSeed) {}

  Result<Speeds> prefill() {
    return repeat([&] { return run(1, flags_.num_prompt_tokens, 1, /*num_decoding=*/0); });
  }
  // Asks for one token more than is timed, since the prefill gives the first.
  Result<Speeds> decode(uint32_t num_sequences) {
    return repeat([&] { return run(num_sequences, flags_.depth, flags_.num_generated + 1, num_sequences); });
  }

 private:
  template <typename Run>
  Result<Speeds> repeat(Run run_once) {
    Speeds speeds;
    // The first run does not count: it touches pages and wakes threads.
    for (uint32_t i = 0; i <= flags_.num_repeats; ++i) {
      const Result<double> speed = run_once();
      if (!speed.ok()) return speed.error();
      if (i > 0) speeds.add(*speed);
    }
    return speeds;
  }

  // Rows per second of the steps in which exactly num_decoding sequences get their next token and nothing
  // else is computed; with num_decoding 0, of the steps that compute prompts.
  Result<double> run(uint32_t num_sequences, uint32_t num_prompt_tokens, uint32_t max_tokens,
                     uint32_t num_decoding) {
    for (uint32_t i = 0; i < num_sequences; ++i)
      if (const auto added = add(num_prompt_tokens, max_tokens); !added.ok()) return added.error();
    uint64_t num_rows = 0;
    Clock::duration time{};
    while (engine_.has_work()) {
      const Clock::time_point start = Clock::now();
      const Plan plan = engine_.schedule();
      const bool is_counted =
          plan.num_decoding == num_decoding && (num_decoding == 0 || plan.sequences.size() == num_decoding);
      for (const Sequence* sequence : plan.sequences)
        if (is_counted) num_rows += sequence->num_scheduled_tokens;
      const StepOutput output = engine_.compute(plan);
      if (is_counted) time += Clock::now() - start;
      if (!output.errors.empty()) return Error{ExitCode::kInternal, output.errors.front().message};
    }
    if (num_rows == 0) {
      return Error{ExitCode::kUsage,
                   "--batch " + std::to_string(num_sequences) +
                       " sequences never decoded together: those that began first ended before "
                       "the last one's --depth " +
                       std::to_string(flags_.depth) +
                       " tokens were computed. --mixed-batches off lets them wait."};
    }
    return static_cast<double>(num_rows) / std::chrono::duration<double>(time).count();
  }

  Result<void> add(uint32_t num_prompt_tokens, uint32_t max_tokens) {
    Request request = random_prompt(random_, engine_.limits().vocab_size, num_prompt_tokens, max_tokens);
    request.request_id = ++last_request_id_;
    request.sampling = flags_.sampling;
    request.sampling.seed = request.request_id;
    return submit(std::move(request), engine_);
  }

  Engine& engine_;
  const BenchFlags& flags_;
  std::mt19937_64 random_;
  uint32_t last_request_id_ = 0;
};

Result<void> check(const Engine& engine, const BenchFlags& flags) {
  const uint32_t max_model_len = engine.config().max_model_len;
  const uint64_t num_decoded = uint64_t{flags.depth} + flags.num_generated + 1;
  if (num_decoded > max_model_len || flags.num_prompt_tokens >= max_model_len) {
    return Error{ExitCode::kUsage, "--prompt " + std::to_string(flags.num_prompt_tokens) + ", and --depth " +
                                       std::to_string(flags.depth) + " with --generate " +
                                       std::to_string(flags.num_generated) +
                                       ", must each fit into the context of " +
                                       std::to_string(max_model_len) + " tokens, with 1 to spare."};
  }
  const SchedulerConfig& scheduler = engine.config().scheduler;
  const uint64_t num_blocks_each = (num_decoded + scheduler.block_size - 1) / scheduler.block_size;
  for (const uint32_t batch : flags.batches) {
    if (batch > 0 && batch <= scheduler.max_num_seqs && batch * num_blocks_each <= scheduler.num_blocks)
      continue;
    return Error{ExitCode::kUsage, "--batch " + std::to_string(batch) +
                                       " does not fit: sequences of this length need " +
                                       std::to_string(num_blocks_each) + " blocks each, the KV cache has " +
                                       std::to_string(scheduler.num_blocks) + "."};
  }
  return {};
}

}  // namespace

Result<void> bench(Engine& engine, const BenchFlags& flags, const BenchSubject& subject, std::ostream& out) {
  if (const auto checked = check(engine, flags); !checked.ok()) return checked;
  Bench bench(engine, flags);
  const Result<Speeds> prefill = bench.prefill();
  if (!prefill.ok()) return prefill.error();
  ordered_json json = {{"prefill_tok_s", prefill->median()}, {"decode_tok_s", ordered_json::object()}};
  ordered_json spreads = {{"prefill_tok_s", spread(*prefill)}, {"decode_tok_s", ordered_json::object()}};
  for (const uint32_t batch : flags.batches) {
    const Result<Speeds> decode = bench.decode(batch);
    if (!decode.ok()) return decode.error();
    json["decode_tok_s"][std::to_string(batch)] = decode->median();
    spreads["decode_tok_s"][std::to_string(batch)] = spread(*decode);
  }
  json["spread"] = spreads;
  json["prompt"] = flags.num_prompt_tokens;
  json["depth"] = flags.depth;
  json["generate"] = flags.num_generated;
  json["repeats"] = flags.num_repeats;
  json["temperature"] = decimal_of(flags.sampling.temperature);
  json["top_k"] = flags.sampling.top_k;
  json["top_p"] = decimal_of(flags.sampling.top_p);
  add_subject(subject, json);
  flags.json ? print_json(json, out) : print_lines(json, out);
  return {};
}

}  // namespace runnel
