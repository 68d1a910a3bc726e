#include "runner/commands/flag_groups.h"

namespace runnel {
namespace {

constexpr uint32_t kMaxRepeats = 1000;
constexpr double kMinFraction = 0.001;

}  // namespace

// A flag that belongs to one kind of benchmark is refused in the others.
void add_bench_flags(CLI::App& command, Flags& flags) {
  CLI::Option* const workload =
      command.add_flag("--workload", flags.is_workload_bench, "Serve nano-vLLM's 256 requests instead")
          ->group(kMeasurement);
  CLI::Option* const long_prompt =
      command
          .add_option("--long-prompt", flags.gap.num_prompt_tokens,
                      "Measure instead the gaps of running streams when a prompt of N tokens arrives")
          ->check(CLI::Range(1u, kMaxModelLen))
          ->excludes(workload)
          ->group(kMeasurement);

  CLI::Option* const kernels =
      command
          .add_flag("--kernels", flags.is_kernel_bench,
                    "Measure instead each operation of a decode step, and a copy of memory")
          ->excludes(workload)
          ->excludes(long_prompt)
          ->group(kMeasurement);
  // These flags configure an engine, which --kernels does not use.
  for (const char* name :
       {"--max-model-len", "--max-num-batched-tokens", "--mixed-batches", "--mixed-prefill-tokens",
        "--kv-cache-bytes", "--num-kvcache-blocks", "--memory-bytes", "--available-bytes", "--runners",
        "--gpu-memory-utilization", "--enforce-eager"})
    if (CLI::Option* option = command.get_option_no_throw(name)) kernels->excludes(option);

  const auto for_table = [&](CLI::Option* option) {
    return option->excludes(workload)->excludes(long_prompt)->capture_default_str()->group(kMeasurement);
  };
  for_table(command
                .add_option("--prompt", flags.bench.num_prompt_tokens,
                            "Tokens of the prompt; with --kernels: positions of each sequence")
                ->check(CLI::Range(1u, kMaxModelLen)));
  for_table(command.add_option("--generate", flags.bench.num_generated, "Tokens to decode")
                ->check(CLI::Range(1u, kMaxModelLen)))
      ->excludes(kernels);
  for_table(command.add_option("--depth", flags.bench.depth, "Tokens of each sequence before it decodes")
                ->check(CLI::Range(1u, kMaxModelLen)))
      ->excludes(kernels);
  for_table(command.add_option("--batch", flags.bench.batches, "Sequences decoded at once; each is measured")
                ->delimiter(',')
                ->check(CLI::Range(1u, kMaxNumSeqs)))
      ->type_name("N,...")
      ->default_str("1,8,32");
  for_table(command
                .add_option("--repeats", flags.bench.num_repeats,
                            "Runs, of which the median counts; with --kernels by default " +
                                std::to_string(flags.kernels.num_repeats))
                ->check(CLI::Range(1u, kMaxRepeats)));
  for (CLI::Option* option : add_draw_flags(command, flags.bench.sampling))
    for_table(option)->excludes(kernels);

  command
      .add_option("--fraction", flags.workload.fraction,
                  "With --workload: share of the requests, from the first on")
      ->check(CLI::Range(kMinFraction, 1.0))
      ->needs(workload)
      ->capture_default_str()
      ->group(kMeasurement);
  command.add_option("--warmup", flags.workload.num_warmups, "With --workload: runs that do not count")
      ->check(CLI::Range(0u, kMaxRepeats))
      ->needs(workload)
      ->capture_default_str()
      ->group(kMeasurement);
  command.add_option("--iters", flags.workload.num_iterations, "With --workload: runs that count")
      ->check(CLI::Range(1u, kMaxRepeats))
      ->needs(workload)
      ->capture_default_str()
      ->group(kMeasurement);
  add_num_seqs_flag(command, flags.engine)
      ->needs(workload)
      ->description("With --workload: maximum sequences per step");
  command.add_option("--streams", flags.gap.num_streams, "With --long-prompt: running streams")
      ->check(CLI::Range(1u, kMaxNumSeqs - 1))
      ->needs(long_prompt)
      ->capture_default_str()
      ->group(kMeasurement);
}

}  // namespace runnel
