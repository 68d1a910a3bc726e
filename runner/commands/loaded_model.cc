#include "runner/commands/loaded_model.h"

#include <algorithm>
#include <bit>
#include <string>

#include "runner/commands/memory_plan.h"

namespace runnel {
namespace {

// Number of positions whose attention takes a row about as long as the products of a layer. A multiply-add of
// floats takes twice as long as one of bytes on the processors that were measured. The estimate is less
// accurate for feed-forward layers without the usual three matrices; only the length of steps depends on it.
uint32_t positions_per_row(const ModelConfig& config) {
  const uint64_t query_rows = uint64_t{config.num_heads} * config.head_dim;
  const uint64_t kv_rows = uint64_t{config.num_kv_heads} * config.head_dim;
  const uint64_t weights =
      config.hidden_size * (2 * query_rows + 2 * kv_rows + uint64_t{3} * config.ffn_size);
  const uint64_t adds_of_position = 2 * query_rows;
  return static_cast<uint32_t>(std::clamp<uint64_t>(weights / (2 * adds_of_position), 1, kMaxModelLen));
}

}  // namespace

void EngineFlags::set_gpu_defaults() {
  max_num_batched_tokens = 2048;
  block_size = 64;
  // A graph cannot replace a step with drafts.
  speculation = false;
}

Result<void> check_block_size(uint32_t block_size) {
  if (std::has_single_bit(block_size) && block_size >= 8 && block_size <= 256) return {};
  return Error{ExitCode::kUsage, "--block-size is " + std::to_string(block_size) +
                                     "; it must be a power of two from 8 to 256."};
}

Result<ModelFile> read_model_file(const EngineFlags& flags, const ModelFiles& opened) {
  Result<ModelFile> file = ModelFile::read(opened);
  if (!file.ok() || !flags.quantize) return file;
  if (const auto quantized = file->quantize(*flags.quantize); !quantized.ok()) return quantized.error();
  return file;
}

Result<ModelFile> read_model_file(const EngineFlags& flags) {
  const Result<ModelFiles> opened = ModelFiles::open(flags.model);
  if (!opened.ok()) return opened.error();
  return read_model_file(flags, *opened);
}

Result<LoadedModel> load(const EngineFlags& flags, std::unique_ptr<Backend> backend,
                         const LoadProgressFn& progress) {
  const Result<ModelFiles> opened = ModelFiles::open(flags.model);
  if (!opened.ok()) return opened.error();
  return load(flags, *opened, std::move(backend), progress);
}

Result<LoadedModel> load(const EngineFlags& flags, const ModelFiles& opened, std::unique_ptr<Backend> backend,
                         const LoadProgressFn& progress) {
  if (const auto checked = check_block_size(flags.block_size); !checked.ok()) return checked.error();
  Result<ModelFile> file = read_model_file(flags, opened);
  if (!file.ok()) return file.error();
  const Result<MemoryPlan> plan = plan_memory(flags, *file, *backend, usable_memory(flags, *backend));
  if (!plan.ok()) return plan.error();
  if (const auto shortage = shortage_of(*plan)) return *shortage;
  const StepLimits limits{.max_rows = flags.max_num_batched_tokens, .max_head_rows = kMaxHeadRows};
  Result<std::unique_ptr<Model>> model =
      load_model(*file, flags.architecture, plan->max_model_len, *backend, limits, progress);
  if (!model.ok()) return model.error();
  if (const auto allocated = backend->allocate_kv(plan->shape); !allocated.ok()) return allocated.error();

  const ModelConfig& config = (*model)->config();
  const EngineConfig engine_config{.max_model_len = plan->max_model_len,
                                   .scheduler = {.max_num_batched_tokens = flags.max_num_batched_tokens,
                                                 .max_num_seqs = flags.max_num_seqs,
                                                 .block_size = flags.block_size,
                                                 .num_blocks = plan->num_blocks,
                                                 .mixed_batches = flags.mixed_batches,
                                                 .mixed_prefill_tokens = flags.mixed_prefill_tokens,
                                                 .positions_per_row = positions_per_row(config),
                                                 .speculation = flags.speculation,
                                                 .window = config.sliding_window},
                                   .num_mask_threads = flags.num_threads};
  auto engine = std::make_unique<Engine>(**model, engine_config);
  return LoadedModel{.backend = std::move(backend),
                     .file = *std::move(file),
                     .model = *std::move(model),
                     .engine = std::move(engine),
                     .kv_cache_bytes = plan->kv_cache};
}

}  // namespace runnel
