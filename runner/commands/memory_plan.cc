#include "runner/commands/memory_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include "runner/backend/forwarding_backend.h"
#include "runner/check.h"
#include "runner/commands/loaded_model.h"
#include "runner/engine/engine.h"
#include "runner/engine/kv_windows.h"
#include "runner/models/kv_groups.h"
#include "runner/models/registry.h"
#include "runner/system/process_memory.h"

namespace runnel {
namespace {

// Without a share of a device, the default cache takes one part of this many of what weights and a step
// leave. The system's memory is for everybody, a device for models.
constexpr uint64_t kShareOfDevice = 2;
constexpr uint64_t kShareOfSystem = 4;
// More than that, if one request of the model's whole context needs it, but no more than one part of this
// many.
constexpr uint64_t kShareForOneContext = 2;
// The default cache if nobody knows how much memory there is.
constexpr uint64_t kBytesIfUnknown = uint64_t{1} << 30;

uint64_t less(uint64_t bytes, uint64_t taken) {
  return bytes - std::min(bytes, taken);
}

// What one of several runners may take of memory that is for all of them: an equal part, of what the weights
// leave if they are there once for all.
uint64_t part_of_one(uint64_t bytes, uint64_t weights, const EngineFlags& flags) {
  const uint64_t shared = flags.weights_file == nullptr ? 0 : std::min(bytes, weights);
  return shared + (bytes - shared) / flags.num_runners;
}

uint64_t reserve_of(uint64_t budget_bytes) {
  return std::max(kMinReserveBytes, budget_bytes / kReserveShare);
}

// The reserve of the smallest budget that leaves this many bytes beside it.
uint64_t reserve_beside(uint64_t bytes) {
  return std::max(kMinReserveBytes, bytes / (kReserveShare - 1) + 1);
}

// Adds up what the weights will take, and loads none.
class WeightCount final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  Result<void> expect_weights(uint64_t, const std::string&) override { return {}; }
  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override {
    const Result<uint64_t> bytes = matrix_bytes(stacked);
    if (!bytes.ok()) return bytes.error();
    return counted(*bytes);
  }
  bool needs_values() const override { return false; }
  Result<WeightHandle> load_vector(const std::string&, std::span<const float> values) override {
    return counted(values.size_bytes());
  }
  uint64_t weights_bytes() const override { return bytes_; }

 private:
  WeightHandle counted(uint64_t bytes) {
    bytes_ += bytes;
    return {num_weights_++};
  }

  uint64_t bytes_ = 0;
  int32_t num_weights_ = 0;
};

// The context that a cache of a number of blocks has room for, and what it takes together with a step.
class CacheSizes {
 public:
  // shape.max_positions is the longest context that is wanted.
  CacheSizes(const EngineFlags& flags, const Backend& backend, const DecoderSpec& spec, const KvShape& shape,
             std::span<const uint32_t> windows)
      : flags_(flags), backend_(backend), spec_(spec), shape_(shape), windows_(windows) {}

  uint64_t block_bytes() const { return backend_.kv_block_bytes(shape_); }
  // With fewer blocks not even one token can be stored: each group of layers needs one.
  uint32_t least_blocks() const { return static_cast<uint32_t>(windows_.size()); }
  uint64_t least_block_bytes() const { return least_blocks() * block_bytes(); }
  std::string least_name() const {
    if (least_blocks() == 1) return "one block of the KV cache";
    return "one block of the KV cache for each of " + std::to_string(least_blocks()) + " groups of layers";
  }
  // Blocks for one request of the wanted context. The last token is drawn and not stored.
  uint32_t wanted_blocks() const {
    return num_required_blocks(shape_.max_positions - 1, shape_.block_size, windows_);
  }
  // More blocks than these are never used, but for windows that requests have left.
  uint64_t useful_blocks() const {
    const uint32_t num_for_all = (shape_.max_positions + shape_.block_size - 1) / shape_.block_size;
    uint64_t num_blocks = num_for_all;
    // While a prompt is computed, windows may take twice what they require (KvWindows::num_at_once).
    for (const uint32_t window : windows_.subspan(1)) {
      num_blocks += std::min(num_for_all,
                             2 * num_required_blocks(shape_.max_positions, shape_.block_size, {&window, 1}));
    }
    return uint64_t{flags_.max_num_seqs} * num_blocks;
  }
  uint32_t context_of(uint32_t num_blocks) const {
    if (wanted_blocks() <= num_blocks) return shape_.max_positions;
    return static_cast<uint32_t>(num_possible_tokens(num_blocks, shape_.block_size, windows_)) + 1;
  }
  Result<StepMemory> step_of(uint32_t num_blocks) const {
    KvShape shape = shape_;
    shape.num_blocks = num_blocks;
    shape.max_positions = context_of(num_blocks);
    return backend_.step_memory(
        spec_, {.max_rows = flags_.max_num_batched_tokens, .max_head_rows = flags_.max_head_rows()}, shape);
  }
  // Of the cache and of a step. step_of must have succeeded before.
  uint64_t bytes_of(uint32_t num_blocks) const {
    return num_blocks * block_bytes() + step_of(num_blocks)->total();
  }
  // The most blocks, up to the useful ones, that take no more than this together with a step.
  uint32_t blocks_within(uint64_t bytes) const {
    uint32_t fitting = 0;
    uint64_t beyond = std::min<uint64_t>(useful_blocks(), UINT32_MAX) + 1;
    while (beyond - fitting > 1) {
      const auto middle = static_cast<uint32_t>(fitting + (beyond - fitting) / 2);
      if (bytes_of(middle) <= bytes)
        fitting = middle;
      else
        beyond = middle;
    }
    return fitting;
  }

 private:
  const EngineFlags& flags_;
  const Backend& backend_;
  const DecoderSpec& spec_;
  const KvShape& shape_;
  const std::span<const uint32_t> windows_;
};

Result<uint32_t> context_wanted(const EngineFlags& flags, const ModelConfig& config) {
  const uint32_t context = std::min(config.context_length, kMaxModelLen);
  if (flags.max_model_len == 0) return context;
  if (flags.max_model_len >= 2 && flags.max_model_len <= context) return flags.max_model_len;
  return Error{ExitCode::kUsage, "--max-model-len is " + std::to_string(flags.max_model_len) +
                                     "; this model allows 2 to " + std::to_string(context) + "."};
}

// The smallest share with two decimals that is at least this many bytes.
double share_of(uint64_t bytes, uint64_t total_bytes) {
  return std::ceil(100.0 * static_cast<double>(bytes) / static_cast<double>(total_bytes)) / 100.0;
}

// As short as possible: "0.9".
std::string text_of(double value) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  CHECK(error == std::errc());
  return std::string(text.data(), end);
}

// The blocks of a cache that --memory-bytes leaves room for.
Result<uint32_t> blocks_of_budget(uint64_t memory_bytes, const UsableMemory& usable, uint64_t weights,
                                  const CacheSizes& sizes) {
  const uint64_t taken = usable.process + weights + reserve_of(memory_bytes);
  const uint32_t blocks = sizes.blocks_within(less(memory_bytes, taken));
  if (blocks >= sizes.least_blocks()) return blocks;
  const uint64_t least = usable.process + weights + sizes.bytes_of(sizes.least_blocks());
  const uint64_t enough = least + reserve_beside(least);
  return Error{ExitCode::kUsage,
               "--memory-bytes is " + std::to_string(memory_bytes) + "; the process with the model takes " +
                   std::to_string(least - sizes.least_block_bytes()) + " and " + sizes.least_name() + " " +
                   std::to_string(sizes.least_block_bytes()) + ". Start with " + std::to_string(enough) +
                   " or more.",
               MemoryShortage{enough, memory_bytes}};
}

// The blocks of a cache that --gpu-memory-utilization leaves room for. Of several runners on the device each
// has an equal part of the share, and counts only what it takes itself, since the others may not have taken
// theirs yet.
Result<uint32_t> blocks_of_share(double share, uint32_t num_runners, const UsableMemory& usable,
                                 uint64_t weights, const CacheSizes& sizes) {
  const uint64_t total = usable.of_device.value_or(0);
  const uint64_t free_bytes = usable.available.value_or(0);
  const auto allowed = static_cast<uint64_t>(share * static_cast<double>(total)) / num_runners;
  const uint64_t own = weights + usable.unplanned;
  const uint64_t taken = num_runners == 1 ? less(total, free_bytes) + own : own;
  const uint64_t room = std::min(less(allowed, taken), less(free_bytes, own));
  if (const uint32_t blocks = sizes.blocks_within(room); blocks >= sizes.least_blocks()) return blocks;
  const uint64_t least = taken + sizes.bytes_of(sizes.least_blocks());
  const uint64_t least_of_all = least * num_runners;
  return Error{
      ExitCode::kSystem,
      "Insufficient VRAM for KV cache (need at least " +
          std::to_string(sizes.least_block_bytes() / 1'000'000 + 1) + " MB): --gpu-memory-utilization is " +
          text_of(share) + ", which is " + std::to_string(allowed) + " of the device's " +
          std::to_string(total) + " bytes" +
          (num_runners == 1 ? "" : " for each of " + std::to_string(num_runners) + " runners") +
          "; everything there takes " + std::to_string(least - sizes.least_block_bytes()) + " and " +
          sizes.least_name() + " " + std::to_string(sizes.least_block_bytes()) + "; " +
          std::to_string(free_bytes) + " are free. " +
          (least_of_all <= total ? "Start with " + text_of(share_of(least_of_all, total)) + " or more, use"
                                 : "Use") +
          " a smaller model, lower --max-num-seqs or --max-num-batched-tokens, or end what else uses "
          "the GPU.",
      MemoryShortage{least, allowed}};
}

// The blocks of a cache whose size nobody has set.
Result<uint32_t> default_blocks(const EngineFlags& flags, const UsableMemory& usable, uint64_t weights,
                                const CacheSizes& sizes) {
  const uint32_t wanted = sizes.wanted_blocks();
  uint64_t share = kBytesIfUnknown;
  uint32_t blocks = sizes.blocks_within(kBytesIfUnknown);
  if (usable.available) {
    const uint64_t reserve = usable.of_device ? 0 : reserve_of(*usable.available);
    const uint64_t step = sizes.step_of(wanted)->total();
    const uint64_t left = less(*usable.available, weights + reserve + step);
    share = left / (usable.of_device ? kShareOfDevice : kShareOfSystem);
    const uint32_t for_one = sizes.blocks_within(step + left / kShareForOneContext);
    blocks = std::max(sizes.blocks_within(step + share), std::min(wanted, for_one));
  }
  // A context that was asked for is not shortened: either all of it fits, or the plan is refused.
  if (flags.max_model_len > 0) blocks = std::max(blocks, wanted);
  if (blocks >= sizes.least_blocks()) return blocks;
  if (!usable.of_device) return sizes.least_blocks();
  return Error{ExitCode::kSystem,
               "Insufficient VRAM for KV cache (need at least " +
                   std::to_string(sizes.least_block_bytes() / 1'000'000 + 1) + " MB): one block of " +
                   std::to_string(flags.block_size) + " tokens takes " +
                   std::to_string(sizes.least_block_bytes()) +
                   " bytes, and half of what is free on the device is " + std::to_string(share) +
                   ". Use a smaller model, end what else uses the GPU, or set the size of the cache with "
                   "--kv-cache-bytes.",
               MemoryShortage{sizes.least_block_bytes(), share}};
}

// The blocks that the flags say, and the flag that does; "" for the default.
struct Blocks {
  uint32_t count;
  std::string flag;
};

Result<Blocks> blocks_of(const EngineFlags& flags, const UsableMemory& usable, uint64_t weights,
                         const CacheSizes& sizes) {
  const auto named = [](const Result<uint32_t>& count, const std::string& flag) -> Result<Blocks> {
    if (!count.ok()) return count.error();
    return Blocks{*count, flag};
  };
  if (flags.num_kvcache_blocks >= sizes.least_blocks())
    return Blocks{flags.num_kvcache_blocks, "--num-kvcache-blocks"};
  if (flags.num_kvcache_blocks > 0) {
    return Error{ExitCode::kUsage, "--num-kvcache-blocks is " + std::to_string(flags.num_kvcache_blocks) +
                                       "; this model takes at least " + std::to_string(sizes.least_blocks()) +
                                       ", one for each of its groups of layers."};
  }
  if (const std::optional<double> share = share_of_device(flags, usable)) {
    return named(blocks_of_share(*share, flags.num_runners, usable, weights, sizes),
                 "--gpu-memory-utilization");
  }
  if (flags.memory_bytes > 0)
    return named(blocks_of_budget(flags.memory_bytes, usable, weights, sizes), "--memory-bytes");
  if (flags.kv_cache_bytes == 0) return named(default_blocks(flags, usable, weights, sizes), "");
  const uint64_t count = flags.kv_cache_bytes / sizes.block_bytes();
  if (count >= sizes.least_blocks())
    return Blocks{static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX)), "--kv-cache-bytes"};
  return Error{ExitCode::kUsage,
               "--kv-cache-bytes is " + std::to_string(flags.kv_cache_bytes) + "; one block of " +
                   std::to_string(flags.block_size) + " tokens takes " +
                   std::to_string(sizes.least_block_bytes()) + ".",
               MemoryShortage{sizes.least_block_bytes(), flags.kv_cache_bytes}};
}

// Refuses a length that a flag asks for and that the cache, whose size another flag sets, does not hold.
// Without such a flag the context becomes what one request needs of this cache, so that the announced length
// is possible.
Result<void> check_context(const EngineFlags& flags, const Blocks& blocks, const CacheSizes& sizes) {
  const uint64_t needed = sizes.wanted_blocks() * sizes.block_bytes();
  const uint64_t given = blocks.count * sizes.block_bytes();
  if (flags.max_model_len == 0 || needed <= given) return {};
  return Error{ExitCode::kUsage,
               "--max-model-len is " + std::to_string(flags.max_model_len) + ", which takes a KV cache of " +
                   std::to_string(needed) + " bytes; the cache has " + std::to_string(given) + ", for " +
                   std::to_string(sizes.context_of(blocks.count) - 1) + " tokens. Start with a larger " +
                   blocks.flag + ".",
               MemoryShortage{needed, given}};
}

// In blocks, where a token takes blocks of several groups, and of those with a window not for long.
std::string cache_text(const MemoryPlan& plan) {
  if (plan.windows.size() > 1) return std::to_string(plan.num_blocks) + " blocks";
  return std::to_string(uint64_t{plan.num_blocks} * plan.shape.block_size) + " tokens";
}

}  // namespace

std::optional<double> share_of_device(const EngineFlags& flags, const UsableMemory& usable) {
  if (!usable.of_device || flags.num_kvcache_blocks > 0 || flags.kv_cache_bytes > 0) return std::nullopt;
  if (flags.gpu_memory_utilization > 0.0) return flags.gpu_memory_utilization;
  if (flags.available_bytes > 0) return std::nullopt;
  return kDefaultUtilization;
}

UsableMemory usable_memory(const EngineFlags& flags, Backend& backend) {
  UsableMemory usable;
  std::optional<uint64_t> for_all;
  const auto at_most = [&](uint64_t bytes) {
    usable.available = std::min(usable.available.value_or(bytes), bytes);
  };
  if (const uint64_t of_device = backend.device().total_memory_bytes(); of_device > 0) {
    usable.of_device = of_device;
    usable.available = backend.device().free_memory_bytes();
    // With a share of the device, each runner has its part of that.
    if (flags.available_bytes > 0) for_all = of_device;
  } else {
    const Result<uint64_t> process = private_memory_bytes();
    // Each rank is a process like this one.
    usable.process = backend.device().num_ranks() * (process.ok() ? *process : 0);
    usable.available = available_memory_bytes();
    if (usable.available) *usable.available += flags.held_bytes;
    for_all = total_memory_bytes();
    if (flags.memory_bytes > 0) at_most(less(flags.memory_bytes, usable.process));
  }
  if (flags.num_runners == 1) {
    if (flags.available_bytes > 0) at_most(flags.available_bytes);
    return usable;
  }
  if (flags.available_bytes > 0)
    for_all = std::min(for_all.value_or(flags.available_bytes), flags.available_bytes);
  usable.of_all_runners = for_all;
  return usable;
}

Result<CountedWeights> count_weights(const ModelFile& file, const ModelConfig& config, Backend& backend) {
  WeightCount count(backend);
  Result<DecoderSpec> spec = load_weights(file, config, count, {});
  if (!spec.ok()) return spec.error();
  return CountedWeights{*std::move(spec), count.weights_bytes()};
}

Result<MemoryPlan> plan_memory(const EngineFlags& flags, const ModelFile& file, Backend& backend,
                               UsableMemory usable) {
  const Result<ModelConfig> config = read_config(file, flags.architecture);
  if (!config.ok()) return config.error();
  const Result<CountedWeights> counted = count_weights(file, *config, backend);
  if (!counted.ok()) return counted.error();
  const DecoderSpec& spec = counted->spec;
  if (const auto shared = backend.share(spec); !shared.ok()) return shared.error();
  const Result<uint32_t> context = context_wanted(flags, *config);
  if (!context.ok()) return context.error();
  const KvShape shape = kv_shape_of(*config, flags.block_size, 0, *context);
  const std::vector<uint32_t> windows = kv_groups_of(*config).windows;
  const CacheSizes sizes(flags, backend, spec, shape, windows);
  const uint64_t weights = counted->bytes;
  if (usable.of_all_runners) {
    const uint64_t part = less(part_of_one(*usable.of_all_runners, weights, flags), usable.process);
    usable.available = std::min(usable.available.value_or(part), part);
  }
  if (const auto step = sizes.step_of(sizes.least_blocks()); !step.ok())
    return Error{step.error().exit_code, file.path() + ": " + step.error().message};
  const Result<Blocks> blocks = blocks_of(flags, usable, weights, sizes);
  if (!blocks.ok()) return blocks.error();
  if (const auto checked = check_context(flags, *blocks, sizes); !checked.ok()) return checked.error();

  const auto num_blocks = static_cast<uint32_t>(std::min<uint64_t>(blocks->count, sizes.useful_blocks()));
  MemoryPlan plan{.max_model_len = sizes.context_of(num_blocks),
                  .num_blocks = num_blocks,
                  .shape = shape,
                  .windows = windows,
                  .process = usable.process,
                  .weights = weights,
                  .kv_cache = num_blocks * sizes.block_bytes(),
                  .step = *sizes.step_of(num_blocks),
                  .requests = 0,
                  .available = usable.available};
  plan.shape.num_blocks = num_blocks;
  plan.shape.max_positions = plan.max_model_len;
  if (!usable.of_device) plan.requests = reserve_beside(plan.total());
  return plan;
}

std::optional<Error> shortage_of(const MemoryPlan& plan) {
  if (!plan.available || plan.needed() <= *plan.available) return std::nullopt;
  return Error{ExitCode::kSystem,
               "The model needs " + std::to_string(plan.needed()) +
                   " bytes of memory: " + std::to_string(plan.weights) + " for weights, " +
                   std::to_string(plan.kv_cache) + " for a KV cache of " + cache_text(plan) + ", " +
                   std::to_string(plan.step.total()) + " for a step and " + std::to_string(plan.requests) +
                   " for requests; " + std::to_string(*plan.available) +
                   " are available. Lower --max-model-len, the size of the KV cache, --max-num-seqs or "
                   "--max-num-batched-tokens, end what else uses the memory, or take a smaller model.",
               MemoryShortage{plan.needed(), plan.available}};
}

}  // namespace runnel
