#include "runner/commands/replay_command.h"

#include <optional>

#include "runner/formats/in_quotes.h"
#include "runner/formats/quantize.h"
#include "runner/recordings/replay.h"
#include "runner/system/processors.h"

namespace runnel {
namespace {

// A recording is an untrusted file, so its values are checked as those of the command line are.
Result<void> check_value(const std::string& name, uint32_t value, uint32_t max) {
  if (value >= 1 && value <= max) return {};
  return Error{ExitCode::kUsage, "The recording's " + name + " is " + std::to_string(value) +
                                     "; it must be from 1 to " + std::to_string(max) + "."};
}

Result<EngineFlags> engine_flags_from(const wire::RecordingStart& start) {
  const Result<void> checks[] = {
      check_value("--threads", start.threads(), kMaxThreads),
      check_value("--max-num-seqs", start.max_num_seqs(), kMaxNumSeqs),
      check_value("--max-num-batched-tokens", start.max_num_batched_tokens(), kMaxNumBatchedTokens),
      check_value("--mixed-prefill-tokens", start.mixed_prefill_tokens(), kMaxNumBatchedTokens),
      check_value("rows_of_weights", start.rows_of_weights(), kMaxNumBatchedTokens),
  };
  for (const Result<void>& check : checks)
    if (!check.ok()) return check.error();
  const std::optional<KvType> kv_cache_type = kv_type_named(start.kv_cache_type());
  if (!kv_cache_type) {
    return Error{ExitCode::kUsage, "The recording's --kv-cache-type is " + in_quotes(start.kv_cache_type()) +
                                       "; it must be one of " + kv_type_names() + "."};
  }
  const std::optional<ActivationType> activations = activation_type_named(start.activations());
  if (!activations) {
    return Error{ExitCode::kUsage, "The recording's --activations is " + in_quotes(start.activations()) +
                                       "; it must be one of " + activation_type_names() + "."};
  }
  std::optional<TensorType> quantize;
  if (!start.quantize().empty()) {
    quantize = quantize_type_named(start.quantize());
    if (!quantize) {
      return Error{ExitCode::kUsage, "The recording's --quantize is " + in_quotes(start.quantize()) +
                                         "; it must be one of q8_0, q4_0."};
    }
  }
  return EngineFlags{.model = start.model(),
                     .architecture = "",
                     .num_threads = start.threads(),
                     .max_model_len = start.max_model_len(),
                     .max_num_seqs = start.max_num_seqs(),
                     .max_num_batched_tokens = start.max_num_batched_tokens(),
                     .mixed_batches = start.mixed_batches(),
                     .mixed_prefill_tokens = start.mixed_prefill_tokens(),
                     .rows_of_weights = start.rows_of_weights(),
                     .reserves_next = start.reserves_next(),
                     .speculation = start.speculation(),
                     .block_size = start.block_size(),
                     .kv_cache_bytes = start.kv_cache_bytes(),
                     .kv_cache_type = *kv_cache_type,
                     .quantize = quantize,
                     .activations = *activations};
}

// The size of the KV cache that the recorded process announced, since a --memory-bytes may leave another size
// now. The value of the flag if the process ended before it announced a size.
Result<uint64_t> recorded_kv_cache_bytes(const std::string& path) {
  Result<Recording> recording = Recording::open(path);
  if (!recording.ok()) return recording.error();
  while (true) {
    const Result<std::optional<wire::RecordEntry>> entry = recording->next();
    if (!entry.ok()) return entry.error();
    if (!*entry) return recording->start().kv_cache_bytes();
    if ((*entry)->event().has_ready()) return (*entry)->event().ready().kv_cache_bytes();
  }
}

}  // namespace

Result<void> replay_command(const ReplayFlags& flags, const BackendFactory& factory, std::ostream& out) {
  Result<Recording> recording = Recording::open(flags.file);
  if (!recording.ok()) return recording.error();
  Result<EngineFlags> engine_flags = engine_flags_from(recording->start());
  if (!engine_flags.ok()) return engine_flags.error();
  if (!flags.model.empty()) engine_flags->model = flags.model;
  const Result<uint64_t> kv_cache_bytes = recorded_kv_cache_bytes(flags.file);
  if (!kv_cache_bytes.ok()) return kv_cache_bytes.error();
  engine_flags->kv_cache_bytes = *kv_cache_bytes;

  Result<std::unique_ptr<Backend>> backend = factory.make(engine_flags->backend_options());
  if (!backend.ok()) return backend.error();
  const std::string numerics_id = (*backend)->numerics_id();
  const Result<LoadedModel> loaded = load(*engine_flags, *std::move(backend), [](uint64_t, uint64_t) {});
  if (!loaded.ok()) return loaded.error();
  const ReplaySubject subject{.numerics_id = numerics_id,
                              .model_identity = loaded->file.identity(),
                              .model_numerics_id = loaded->numerics_id()};
  return replay(*recording, *loaded->engine, subject, flags.until_step, out);
}

}  // namespace runnel
