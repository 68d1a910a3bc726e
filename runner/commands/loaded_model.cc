#include "runner/commands/loaded_model.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "runner/commands/memory_plan.h"
#include "runner/commands/memory_wait.h"
#include "runner/commands/system_errors.h"
#include "runner/commands/warm_up.h"
#include "runner/models/kv_groups.h"
#include "runner/models/registry.h"
#include "runner/models/rope.h"
#include "runner/ranks/leading_model.h"
#include "runner/system/numa_threads.h"
#include "runner/system/processors.h"

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

// Memory that a file in memory takes.
uint64_t memory_of(int descriptor) {
  constexpr uint64_t kUnitBytes = 512;  // of st_blocks
  struct stat status;
  return fstat(descriptor, &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * kUnitBytes : 0;
}

// What the bytes of a block depend on besides its ids and its salt. The number of positions decides which of
// a model's ropes is used, if it has two.
KvIndexShape kv_index_shape(const MemoryPlan& plan, const ModelFile& file, const ModelConfig& config,
                            const Backend& backend) {
  const KvShape& shape = plan.shape;
  const bool is_short = shape.max_positions <= config.original_context_length;
  // The windows of layers that are in groups. The gateway reads them here
  // (gateway/runner/kv-disk/text-blocks.ts).
  std::string groups;
  if (plan.windows.size() > 1) {
    for (const uint32_t window : plan.windows)
      groups += (groups.empty() ? "x" : ",") + std::to_string(window);
  }
  return {.contents = backend.numerics_id() + " " + file.identity() + " " + std::to_string(shape.num_layers) +
                      "x" + std::to_string(shape.num_kv_heads) + "x" + std::to_string(shape.head_dim) +
                      groups + (is_short ? " short" : "") + " " + std::to_string(kKvBlockLayout),
          .block_size = shape.block_size,
          .block_bytes = backend.kv_block_bytes(shape),
          .num_blocks = shape.num_blocks};
}

// Plans the memory. A cache that another process has left keeps its size, and so the context that clients
// were told.
Result<MemoryPlan> plan_with_kept(const EngineFlags& flags, const ModelFile& file, Backend& backend,
                                  const UsableMemory& usable) {
  Result<MemoryPlan> plan = plan_memory(flags, file, backend, usable);
  if (!plan.ok() || flags.kv_memory == nullptr) return plan;
  const Result<ModelConfig> config = read_config(file, flags.architecture);
  if (!config.ok()) return config.error();
  const uint32_t kept =
      KvMapping::kept_blocks(*flags.kv_memory, kv_index_shape(*plan, file, *config, backend));
  if (kept == 0 || kept == plan->num_blocks) return plan;
  EngineFlags as_kept = flags;
  as_kept.num_kvcache_blocks = kept;
  const Result<MemoryPlan> again = plan_memory(as_kept, file, backend, usable);
  return again.ok() && !shortage_of(*again) && again->num_blocks == kept ? again : plan;
}

// The plan after a first step has shown what it takes of the device beside what `plan` counts. usable: what
// it was before the weights were loaded.
Result<MemoryPlan> plan_as_measured(const EngineFlags& flags, const ModelFile& file, Model& model,
                                    Backend& backend, const MemoryPlan& plan, UsableMemory usable) {
  const Result<uint64_t> unplanned =
      measure_unplanned(model, backend, plan, usable.available.value_or(0), flags.max_num_seqs);
  if (!unplanned.ok()) return unplanned.error();
  usable.unplanned = *unplanned;
  Result<MemoryPlan> measured = plan_memory(flags, file, backend, usable);
  const uint32_t most_short = model.config().max_short_positions;
  // Which of two ropes a model has depends on the length, and it was loaded with that of the longer context.
  if (!measured.ok() || (plan.max_model_len <= most_short) == (measured->max_model_len <= most_short))
    return measured;
  return Error{ExitCode::kSystem, "The KV cache has room for a context of " +
                                      std::to_string(measured->max_model_len) + " tokens, and above " +
                                      std::to_string(most_short) +
                                      " this model computes all texts in another way. Start with "
                                      "--max-model-len " +
                                      std::to_string(most_short) + "."};
}

// A rank's part of the model, ready to compute.
struct RankModel {
  Memory kv_blocks;  // empty if the backend has the memory of the KV cache
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
};

StepLimits step_limits(const EngineFlags& flags) {
  return {.max_rows = flags.max_num_batched_tokens, .max_head_rows = flags.max_head_rows()};
}

// The leader has planned the memory, and tells the context and the number of blocks.
Result<RankModel> load_rank(const EngineFlags& given, const ModelFiles& opened,
                            std::unique_ptr<Backend> backend) {
  const Result<ModelFile> file = read_model_file(given, opened);
  if (!file.ok()) return file.error();
  const Result<EngineFlags> fitted = fitted_to(*file, given);
  if (!fitted.ok()) return fitted.error();
  const EngineFlags& flags = *fitted;
  const Result<ModelConfig> config = read_config(*file, flags.architecture);
  if (!config.ok()) return config.error();
  const std::optional<std::vector<uint32_t>> planned = flags.ranks->hear();
  if (!planned) _exit(static_cast<int>(ExitCode::kOk));  // the leader has ended before it had a plan
  const uint32_t max_model_len = planned->at(0);
  const Result<CountedWeights> counted = count_weights(*file, *config, *backend);
  if (!counted.ok()) return counted.error();
  if (const auto shared = backend->share(counted->spec); !shared.ok()) return shared.error();
  RankModel rank;
  Result<std::unique_ptr<Model>> model =
      load_model(*file, flags.architecture, max_model_len, *backend, step_limits(flags), {});
  if (!model.ok()) return model.error();
  rank.model = *std::move(model);
  KvShape shape = kv_shape_of(rank.model->config(), flags.block_size, planned->at(1), max_model_len);
  if (flags.kv_memory != nullptr) {
    const KvIndexShape index{.contents = {},
                             .block_size = shape.block_size,
                             .block_bytes = backend->kv_block_bytes(shape),
                             .num_blocks = shape.num_blocks};
    Result<Memory> blocks = Memory::map(*flags.kv_memory, KvMapping::blocks_offset(index),
                                        index.block_bytes * shape.num_blocks, Access::kWrite, "the KV cache");
    if (!blocks.ok()) return blocks.error();
    rank.kv_blocks = *std::move(blocks);
    shape.memory = rank.kv_blocks.data();
  }
  if (const auto allocated = backend->allocate_kv(shape); !allocated.ok()) return allocated.error();
  rank.backend = std::move(backend);
  return rank;
}

}  // namespace

void EngineFlags::set_threads(const Topology& of_machine) {
  topology = of_machine;
  if (num_threads == 0) num_threads = std::clamp(usable_cores(topology) / num_runners, 1u, kMaxThreads);
}

BackendOptions EngineFlags::backend_options() const {
  const uint32_t num_processes = ranks_are_gpus ? 1 : num_ranks;
  // A rank has one thread at least. The threads of a rank follow those of the rank before, so that it has as
  // few nodes as possible.
  const uint32_t all_threads = num_processes == 1 ? num_threads : std::max(num_threads, num_processes);
  const RowRange own = RankGroup::share_of(all_threads, num_processes, ranks == nullptr ? 0 : ranks->rank());
  const std::vector<NumaNode> nodes = num_nodes == 0 ? topology.nodes : made_up_nodes(num_nodes);
  return {.num_threads = own.count,
          .nodes = divide_threads(nodes, own.first, own.count, all_threads),
          .kv_type = kv_cache_type,
          .isa = isa,
          .activations = activations,
          .weights_file = weights_file,
          .ranks = ranks,
          .num_ranks = num_processes,
          .gpu_device = gpu_device,
          .num_gpus = ranks_are_gpus ? num_ranks : 1,
          .may_use_fewer_gpus = fewer_gpus,
          .gathers_by_nccl = gathers_by_nccl,
          .enforce_eager = enforce_eager,
          .start_times = start_times};
}

BackendOptions EngineFlags::backend_options_for(const Result<ModelFiles>& opened) const {
  BackendOptions options = backend_options();
  if (!options.may_use_fewer_gpus || !opened.ok()) return options;
  // What is wrong with the model is said when it is loaded.
  const Result<ModelFile> file = ModelFile::read(*opened);
  if (!file.ok()) return options;
  if (const Result<ModelConfig> config = read_config(*file, architecture); config.ok()) {
    options.can_share = [sizes = shared_sizes_of(*config)](uint32_t num_gpus) {
      return check_shared(sizes, num_gpus).ok();
    };
  }
  return options;
}

Result<void> EngineFlags::start_ranks(int leaders_pipe) {
  if (num_ranks == 1 || ranks_are_gpus) return {};
  if (share_weights || weights_fd >= 0) {
    return Error{ExitCode::kUsage, "--tensor-parallel-size is " + std::to_string(num_ranks) +
                                       ", and with several ranks each packs its own part of the weights: "
                                       "--share-weights and --weights-fd cannot be used."};
  }
  Result<std::unique_ptr<RankGroup>> group = RankGroup::start(num_ranks, leaders_pipe);
  if (!group.ok()) return group.error();
  ranks = *std::move(group);
  // The leader alone adopts blocks, and hears when it must let go of another runner's memory.
  if (follows()) kv_sources = nullptr;
  return {};
}

bool EngineFlags::follows() const {
  return ranks != nullptr && !ranks->leads();
}

void EngineFlags::set_gpu_defaults() {
  ranks_are_gpus = true;
  max_num_seqs = 256;
  max_num_batched_tokens = 2048;
  mixed_prefill_tokens = 256;
  // A step of one stream of an 8B model with 4 bits takes some 2 ms on an H100, and a row of a prompt a 25th.
  rows_of_weights = 64;
  has_one_head = true;
  block_size = 64;
  // A graph cannot replace a step with drafts.
  speculation = false;
  reserves_next = true;
}

uint32_t EngineFlags::max_head_rows() const {
  return has_one_head ? std::clamp(max_num_seqs, kMaxHeadRows, kMaxGpuHeadRows) : kMaxHeadRows;
}

Result<void> EngineFlags::open_weights_file() {
  if (!share_weights && weights_fd < 0) return {};
  Result<MemoryFile> file = share_weights ? MemoryFile::create("runnel-weights")
                                          : MemoryFile::inherit(weights_fd, "--weights-fd", Seals::kAll);
  if (file.ok()) {
    held_bytes += memory_of(file->descriptor());
    weights_file = std::make_shared<MemoryFile>(*std::move(file));
  } else if (share_weights) {
    std::fprintf(stderr, "--share-weights has no effect: %s\n", file.error().message.c_str());
  } else {
    return file.error();
  }
  return {};
}

Result<void> EngineFlags::open_kv_memory() {
  if (kv_fd < 0) return {};
  Result<MemoryFile> memory = MemoryFile::inherit(kv_fd, "--kv-fd", Seals::kSize);
  if (!memory.ok()) return memory.error();
  kv_memory = std::make_shared<MemoryFile>(*std::move(memory));
  held_bytes += memory_of(kv_memory->descriptor());
  kv_sources = std::make_shared<KvSources>();
  for (const int descriptor : kv_from) {
    Result<MemoryFile> other = MemoryFile::inherit(descriptor, "--kv-from", Seals::kSize);
    if (other.ok()) {
      kv_sources->add(static_cast<uint32_t>(descriptor), *std::move(other));
    } else {
      std::fprintf(stderr, "%s Its blocks are computed again.\n", other.error().message.c_str());
    }
  }
  return {};
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

Result<EngineFlags> fitted_to(const ModelFile& file, const EngineFlags& flags) {
  const Result<ModelConfig> config = read_config(file, flags.architecture);
  if (!config.ok()) return config.error();
  EngineFlags fitted = flags;
  if (config->is_encoder) {
    const uint32_t context = flags.max_model_len == 0 ? config->context_length : flags.max_model_len;
    fitted.max_num_batched_tokens = std::max(flags.max_num_batched_tokens, context);
  }
  return fitted;
}

SharedSizes shared_sizes_of(const ModelConfig& config) {
  const bool has_experts = config.num_experts > 0;
  return {.num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .hidden = config.hidden_size,
          .gated = has_experts ? config.expert_ffn_size : config.ffn_size,
          .vocab = config.vocab_size,
          .has_experts = has_experts};
}

Result<LoadedModel> load(const EngineFlags& flags, std::unique_ptr<Backend> backend,
                         const LoadProgressFn& progress) {
  const Result<ModelFiles> opened = ModelFiles::open(flags.model);
  if (!opened.ok()) return opened.error();
  return load(flags, *opened, std::move(backend), progress);
}

Result<LoadedModel> load(const EngineFlags& given, const ModelFiles& opened, std::unique_ptr<Backend> backend,
                         const LoadProgressFn& progress) {
  if (const auto checked = check_block_size(given.block_size); !checked.ok()) return checked.error();
  Result<ModelFile> file = read_model_file(given, opened);
  if (!file.ok()) return file.error();
  const Result<EngineFlags> fitted = fitted_to(*file, given);
  if (!fitted.ok()) return fitted.error();
  const EngineFlags& flags = *fitted;
  const auto end_part = [&](const char* part) {
    if (flags.start_times != nullptr) flags.start_times->end(part);
  };
  end_part("model file");
  if (flags.await_free_bytes > 0) {
    const ComputeDevice& device = backend->device();
    const auto free_bytes = [&] { return device.free_memory_bytes() / device.num_ranks(); };
    const auto sleep = [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); };
    if (!await_free_bytes(flags.await_free_bytes, free_bytes, sleep)) {
      std::fprintf(stderr, "Of the %llu bytes that the runner before held on a device, %llu are free.\n",
                   static_cast<unsigned long long>(flags.await_free_bytes),
                   static_cast<unsigned long long>(free_bytes()));
    }
    end_part("memory of the runner before");
  }
  const UsableMemory usable = usable_memory(flags, *backend);
  Result<MemoryPlan> plan = plan_with_kept(flags, *file, *backend, usable);
  if (!plan.ok()) return plan.error();
  if (const auto shortage = shortage_of(*plan)) return *shortage;
  end_part("plan");
  if (flags.ranks != nullptr) flags.ranks->tell(std::array{plan->max_model_len, plan->num_blocks});
  Result<std::unique_ptr<Model>> model =
      load_model(*file, flags.architecture, plan->max_model_len, *backend, step_limits(flags), progress);
  if (!model.ok()) return model.error();

  const ModelConfig config = (*model)->config();
  // Several runners cannot tell what each of them takes.
  if (share_of_device(flags, usable) && flags.num_runners == 1) {
    plan = plan_as_measured(flags, *file, **model, *backend, *plan, usable);
    if (!plan.ok()) return plan.error();
    end_part("first step");
  }
  KvShape shape = plan->shape;
  std::unique_ptr<KvMapping> kv;
  if (flags.kv_memory != nullptr) {
    Result<std::unique_ptr<KvMapping>> mapped =
        KvMapping::open(*flags.kv_memory, kv_index_shape(*plan, *file, config, *backend));
    if (!mapped.ok()) return mapped.error();
    kv = *std::move(mapped);
    shape.memory = kv->blocks().data();
  }
  if (const auto allocated = backend->allocate_kv(shape); !allocated.ok()) return allocated.error();
  if (flags.ranks != nullptr) {
    if (const auto agreed = flags.ranks->agree({}); !agreed.ok()) return agreed.error();
    *model = std::make_unique<LeadingModel>(*std::move(model), *flags.ranks);
  }
  end_part("KV cache");
  if (flags.start_times != nullptr)
    std::fprintf(stderr, "The model was loaded in %s\n", flags.start_times->text().c_str());

  const EngineConfig engine_config{.max_model_len = plan->max_model_len,
                                   .scheduler = {.max_num_batched_tokens = flags.max_num_batched_tokens,
                                                 .max_num_seqs = flags.max_num_seqs,
                                                 .block_size = flags.block_size,
                                                 .num_blocks = plan->num_blocks,
                                                 .mixed_batches = flags.mixed_batches,
                                                 .mixed_prefill_tokens = flags.mixed_prefill_tokens,
                                                 .rows_of_weights = flags.rows_of_weights,
                                                 .positions_per_row = positions_per_row(config),
                                                 .speculation = flags.speculation,
                                                 .reserves_next = flags.reserves_next,
                                                 .windows = plan->windows,
                                                 .kv_index = kv ? &kv->index() : nullptr,
                                                 .kv_sources = kv ? flags.kv_sources.get() : nullptr},
                                   .num_mask_threads = flags.num_threads,
                                   .max_head_rows = flags.max_head_rows()};
  auto engine = std::make_unique<Engine>(**model, engine_config);
  const uint64_t weights_bytes = flags.ranks != nullptr ? plan->weights : backend->weights_bytes();
  return LoadedModel{.ranks = flags.ranks,
                     .kv_memory = std::move(kv),
                     .kv_sources = flags.kv_sources,
                     .backend = std::move(backend),
                     .file = *std::move(file),
                     .model = *std::move(model),
                     .engine = std::move(engine),
                     .kv_cache_bytes = plan->kv_cache,
                     .weights_bytes = weights_bytes};
}

std::string LoadedModel::numerics_id() const {
  return backend->numerics_id() + rope_suffix(model->config());
}

void follow_leader(const EngineFlags& flags, const Result<ModelFiles>& opened,
                   Result<std::unique_ptr<Backend>> backend) {
  Result<RankModel> rank = with_system_errors([&]() -> Result<RankModel> {
    if (!opened.ok()) return opened.error();
    if (!backend.ok()) return backend.error();
    return load_rank(flags, *opened, *std::move(backend));
  });
  const auto agreed = flags.ranks->agree(rank.ok() ? Result<void>() : rank.error());
  if (agreed.ok()) follow(*rank->model, *flags.ranks);
  // The leader tells why it ends.
  while (!agreed.ok() && flags.ranks->hear()) {
  }
  _exit(static_cast<int>(ExitCode::kOk));
}

}  // namespace runnel
