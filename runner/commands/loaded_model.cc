#include "runner/commands/loaded_model.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <string>

#include "runner/commands/memory_budget.h"
#include "runner/system/memory_file.h"

namespace runnel {
namespace {

Result<uint32_t> context_of(const EngineFlags& flags, const ModelConfig& config) {
  const uint32_t context = std::min(config.context_length, kMaxModelLen);
  if (flags.max_model_len == 0) return context;
  if (flags.max_model_len >= 2 && flags.max_model_len <= context) return flags.max_model_len;
  return Error{ExitCode::kUsage, "--max-model-len is " + std::to_string(flags.max_model_len) +
                                     "; this model allows 2 to " + std::to_string(context) + "."};
}

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

// Bytes for the KV cache, and the flag that sets them.
struct KvBudget {
  uint64_t bytes;
  std::string flag;
  bool is_of_device = false;  // half of the free memory of the device
};

Result<KvBudget> budget_of(const EngineFlags& flags, Model& model, Backend& backend, const KvShape& shape) {
  if (flags.num_kvcache_blocks > 0)
    return KvBudget{flags.num_kvcache_blocks * backend.kv_block_bytes(shape), "--num-kvcache-blocks"};
  if (flags.gpu_memory_utilization > 0.0) {
    const Result<uint64_t> bytes = kv_bytes_of_share(flags.gpu_memory_utilization, backend, shape);
    if (!bytes.ok()) return bytes.error();
    return KvBudget{*bytes, "--gpu-memory-utilization"};
  }
  if (flags.memory_bytes > 0) {
    const Result<uint64_t> bytes =
        kv_bytes_within(flags.memory_bytes, model, backend, shape, flags.max_num_batched_tokens);
    if (!bytes.ok()) return bytes.error();
    return KvBudget{*bytes, "--memory-bytes"};
  }
  if (flags.kv_cache_bytes > 0) return KvBudget{flags.kv_cache_bytes, "--kv-cache-bytes"};
  return KvBudget{backend.device().free_memory_bytes() / 2, "--kv-cache-bytes", true};
}

Result<uint32_t> num_blocks_of(const EngineFlags& flags, const KvBudget& budget, uint32_t max_model_len,
                               uint64_t block_bytes) {
  const uint64_t num_useful =
      uint64_t{flags.max_num_seqs} * ((max_model_len + flags.block_size - 1) / flags.block_size);
  const uint64_t num_blocks = std::min(budget.bytes / block_bytes, num_useful);
  if (num_blocks > 0) return static_cast<uint32_t>(num_blocks);
  if (budget.is_of_device) {
    return Error{ExitCode::kSystem,
                 "Insufficient VRAM for KV cache (need at least " +
                     std::to_string(block_bytes / 1'000'000 + 1) + " MB): one block of " +
                     std::to_string(flags.block_size) + " tokens takes " + std::to_string(block_bytes) +
                     " bytes, and half of what is free on the device is " + std::to_string(budget.bytes) +
                     ". Use a smaller model, end what else uses the GPU, or set the size of the cache with "
                     "--kv-cache-bytes.",
                 MemoryShortage{block_bytes, budget.bytes}};
  }
  return Error{ExitCode::kUsage,
               budget.flag + " is " + std::to_string(budget.bytes) + "; one block of " +
                   std::to_string(flags.block_size) + " tokens takes " + std::to_string(block_bytes) + ".",
               MemoryShortage{block_bytes, budget.bytes}};
}

// Limits the context to what one request needs of this cache, so that the announced length is possible.
// The last token is drawn and not stored. A length that a flag asks for is refused instead of reduced.
Result<uint32_t> context_that_fits(const EngineFlags& flags, const KvBudget& budget, uint32_t max_model_len,
                                   uint32_t window, uint64_t block_bytes, uint32_t num_blocks) {
  const uint64_t num_needed = num_required_blocks(max_model_len - 1, flags.block_size, window);
  if (num_needed <= num_blocks) return max_model_len;
  const uint64_t num_fitting = uint64_t{num_blocks} * flags.block_size + 1;
  if (flags.max_model_len == 0) return static_cast<uint32_t>(num_fitting);
  return Error{ExitCode::kUsage,
               "--max-model-len is " + std::to_string(max_model_len) + ", which takes a KV cache of " +
                   std::to_string(num_needed * block_bytes) + " bytes; the cache has " +
                   std::to_string(budget.bytes) + ", for " + std::to_string(num_fitting - 1) +
                   " tokens. Start with a larger " + budget.flag + ".",
               MemoryShortage{num_needed * block_bytes, budget.bytes}};
}

// What the bytes of a block depend on besides its ids and its salt. The number of positions decides which of
// a model's ropes is used, if it has two.
KvIndexShape kv_index_shape(const KvShape& shape, const ModelFile& file, const ModelConfig& config,
                            const Backend& backend) {
  const bool is_short = shape.max_positions <= config.original_context_length;
  return {.contents = backend.numerics_id() + " " + file.identity() + " " + std::to_string(shape.num_layers) +
                      "x" + std::to_string(shape.num_kv_heads) + "x" + std::to_string(shape.head_dim) +
                      (is_short ? " short" : ""),
          .block_size = shape.block_size,
          .block_bytes = backend.kv_block_bytes(shape),
          .num_blocks = shape.num_blocks};
}

}  // namespace

void EngineFlags::set_gpu_defaults() {
  max_num_batched_tokens = 2048;
  block_size = 64;
  kv_cache_bytes = 0;
  // A graph cannot replace a step with drafts.
  speculation = false;
}

Result<void> EngineFlags::open_weights_file() {
  if (!share_weights && weights_fd < 0) return {};
  Result<MemoryFile> file = share_weights ? MemoryFile::create("runnel-weights")
                                          : MemoryFile::open_sealed(weights_fd, "--weights-fd");
  if (file.ok())
    weights_file = std::make_shared<MemoryFile>(*std::move(file));
  else if (share_weights)
    std::fprintf(stderr, "--share-weights has no effect: %s\n", file.error().message.c_str());
  else
    return file.error();
  return {};
}

Result<void> EngineFlags::open_kv_memory() {
  if (kv_fd < 0) return {};
  Result<SealedMemory> memory = SealedMemory::inherit(kv_fd, "--kv-fd");
  if (!memory.ok()) return memory.error();
  kv_memory = std::make_shared<SealedMemory>(*std::move(memory));
  return clear_kv ? kv_memory->clear() : Result<void>();
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
  const StepLimits limits{.max_rows = flags.max_num_batched_tokens, .max_head_rows = kMaxHeadRows};
  Result<std::unique_ptr<Model>> model =
      load_model(*file, flags.architecture, flags.max_model_len, *backend, limits, progress);
  if (!model.ok()) return model.error();

  const ModelConfig& config = (*model)->config();
  const Result<uint32_t> max_model_len = context_of(flags, config);
  if (!max_model_len.ok()) return max_model_len.error();
  KvShape shape{.num_layers = config.num_layers,
                .num_kv_heads = config.num_kv_heads,
                .head_dim = config.head_dim,
                .block_size = flags.block_size,
                .num_blocks = 0,
                .num_heads = config.num_heads,
                .max_positions = *max_model_len};
  const uint64_t block_bytes = backend->kv_block_bytes(shape);
  const Result<KvBudget> budget = budget_of(flags, **model, *backend, shape);
  if (!budget.ok()) return budget.error();
  const Result<uint32_t> num_blocks = num_blocks_of(flags, *budget, *max_model_len, block_bytes);
  if (!num_blocks.ok()) return num_blocks.error();
  shape.num_blocks = *num_blocks;
  const auto set_context = [&]() -> Result<void> {
    const Result<uint32_t> context = context_that_fits(flags, *budget, *max_model_len, config.sliding_window,
                                                       block_bytes, shape.num_blocks);
    if (!context.ok()) return context.error();
    shape.max_positions = *context;
    return {};
  };
  if (const auto set = set_context(); !set.ok()) return set.error();
  std::unique_ptr<KvMemory> kv;
  if (flags.kv_memory != nullptr) {
    Result<std::unique_ptr<KvMemory>> mapped =
        KvMemory::open(*flags.kv_memory, kv_index_shape(shape, *file, config, *backend));
    if (!mapped.ok()) return mapped.error();
    kv = *std::move(mapped);
    shape.memory = kv->blocks().data();
    // A cache that is there keeps its size, and so the context that clients were told.
    shape.num_blocks = kv->index().num_blocks();
    if (const auto set = set_context(); !set.ok()) return set.error();
  }
  (*model)->limit_positions(shape.max_positions);
  if (const auto allocated = backend->allocate_kv(shape); !allocated.ok()) return allocated.error();

  const EngineConfig engine_config{.max_model_len = shape.max_positions,
                                   .scheduler = {.max_num_batched_tokens = flags.max_num_batched_tokens,
                                                 .max_num_seqs = flags.max_num_seqs,
                                                 .block_size = flags.block_size,
                                                 .num_blocks = shape.num_blocks,
                                                 .mixed_batches = flags.mixed_batches,
                                                 .mixed_prefill_tokens = flags.mixed_prefill_tokens,
                                                 .positions_per_row = positions_per_row(config),
                                                 .speculation = flags.speculation,
                                                 .window = config.sliding_window,
                                                 .kv_index = kv ? &kv->index() : nullptr},
                                   .num_mask_threads = flags.num_threads};
  auto engine = std::make_unique<Engine>(**model, engine_config);
  return LoadedModel{.kv_memory = std::move(kv),
                     .backend = std::move(backend),
                     .file = *std::move(file),
                     .model = *std::move(model),
                     .engine = std::move(engine),
                     .kv_cache_bytes = block_bytes * shape.num_blocks};
}

}  // namespace runnel
