#include "runner/commands/replay_command.h"

#include "runner/replay.h"

namespace runnel {
namespace {

// A recording is a file as any other: what the command line checks of a flag is checked of what it says too.
Result<void> check_flag(const std::string& name, uint32_t value, uint32_t max) {
  if (value >= 1 && value <= max) return {};
  return Error{ExitCode::kUsage, "The recording's --" + name + " is " + std::to_string(value) +
                                     "; it must be from 1 to " + std::to_string(max) + "."};
}

Result<EngineFlags> engine_flags_from(const wire::RecordingStart& start) {
  const Result<void> checks[] = {
      check_flag("threads", start.threads(), kMaxThreads),
      check_flag("max-num-seqs", start.max_num_seqs(), kMaxNumSeqs),
      check_flag("max-num-batched-tokens", start.max_num_batched_tokens(), kMaxNumBatchedTokens),
      check_flag("mixed-prefill-tokens", start.mixed_prefill_tokens(), kMaxNumBatchedTokens),
  };
  for (const Result<void>& check : checks)
    if (!check.ok()) return check.error();
  return EngineFlags{.model = start.model(),
                     .architecture = "",
                     .num_threads = start.threads(),
                     .max_model_len = start.max_model_len(),
                     .max_num_seqs = start.max_num_seqs(),
                     .max_num_batched_tokens = start.max_num_batched_tokens(),
                     .mixed_batches = start.mixed_batches(),
                     .mixed_prefill_tokens = start.mixed_prefill_tokens(),
                     .block_size = start.block_size(),
                     .kv_cache_bytes = start.kv_cache_bytes()};
}

}  // namespace

Result<void> replay_command(const ReplayFlags& flags, const BackendFactory& factory, std::ostream& out) {
  Result<Recording> recording = Recording::open(flags.file);
  if (!recording.ok()) return recording.error();
  Result<EngineFlags> engine_flags = engine_flags_from(recording->start());
  if (!engine_flags.ok()) return engine_flags.error();
  if (!flags.model.empty()) engine_flags->model = flags.model;

  Result<std::unique_ptr<Backend>> backend = factory.make(engine_flags->num_threads);
  if (!backend.ok()) return backend.error();
  const std::string numerics_id = (*backend)->numerics_id();
  const Result<LoadedModel> loaded = load(*engine_flags, *std::move(backend), [](uint64_t, uint64_t) {});
  if (!loaded.ok()) return loaded.error();
  return replay(*recording, *loaded->engine, {numerics_id, loaded->file.identity()}, flags.until_step, out);
}

}  // namespace runnel
