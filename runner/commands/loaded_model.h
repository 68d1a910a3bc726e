// A model in memory with the engine that computes it. Commands that compute begin by loading one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/engine/engine.h"
#include "runner/engine/kv_mapping.h"
#include "runner/engine/kv_sources.h"
#include "runner/formats/model_file.h"
#include "runner/models/model.h"
#include "runner/models/registry.h"
#include "runner/ranks/rank_group.h"
#include "runner/result.h"
#include "runner/system/memory_file.h"
#include "runner/system/start_times.h"
#include "runner/system/topology.h"

namespace runnel {

// What a runner program provides: its kind, "cpu" or "cuda", and a function that makes its backend.
struct BackendFactory {
  std::string kind;
  std::function<Result<std::unique_ptr<Backend>>(const BackendOptions& options)> make;
  // Set if the backend computes on a GPU. Reports the devices. Fails with kNoDevice, after the report, if no
  // device can be used. number: only this device is asked; the others are listed.
  std::function<Result<void>(std::optional<uint32_t> number, bool json, std::ostream& out)> report_devices =
      nullptr;

  bool uses_gpu() const { return report_devices != nullptr; }
};

// With this limit a Step frame, with log-probabilities for all outputs, stays below 1 MiB.
constexpr uint32_t kMaxNumSeqs = 1024;
constexpr uint32_t kMaxNumBatchedTokens = 65536;

struct EngineFlags {
  std::string model;           // path
  std::string architecture;    // expected architecture; empty: any
  uint32_t num_threads = 0;    // 0: see set_threads
  uint32_t max_model_len = 0;  // 0: the model's own context
  uint32_t max_num_seqs = 64;
  uint32_t max_num_batched_tokens = 256;
  bool mixed_batches = true;
  uint32_t mixed_prefill_tokens = 24;
  // These are set by the kind of device, not by flags: see SchedulerConfig; and whether the logits of all
  // sequences of a step are computed at once.
  uint32_t rows_of_weights = kRowsOfWeights;
  bool reserves_next = false;
  bool has_one_head = false;
  bool speculation = true;
  uint32_t block_size = 32;
  uint64_t kv_cache_bytes = 0;  // 0: a share of what is left, see memory_plan.cc
  // Limit for the whole process, instead of kv_cache_bytes; 0: kv_cache_bytes applies.
  uint64_t memory_bytes = 0;
  // Blocks of the KV cache, instead of kv_cache_bytes; 0: kv_cache_bytes applies.
  uint32_t num_kvcache_blocks = 0;
  // Share of the device's memory for everything on it, instead of kv_cache_bytes; 0: see share_of_device.
  double gpu_memory_utilization = 0.0;
  // The plan counts no more than this as available, for all runners together; 0: no limit.
  uint64_t available_bytes = 0;
  // The load waits until this many bytes of each device are free; 0: it does not.
  uint64_t await_free_bytes = 0;
  // Runners on this machine with this model, each with an equal part of the memory, or of what shared weights
  // leave of it.
  uint32_t num_runners = 1;
  // Those that compute the model together: GPUs, or processes, which share the threads.
  uint32_t num_ranks = 1;
  bool ranks_are_gpus = false;
  bool fewer_gpus = false;                     // see BackendOptions::may_use_fewer_gpus
  bool gathers_by_nccl = false;                // see BackendOptions
  std::shared_ptr<RankGroup> ranks = nullptr;  // by start_ranks(); null with one process
  KvType kv_cache_type = KvType::kF16;
  // Descriptor of memory for the KV cache that outlives this process; -1: the cache is the process's own.
  int kv_fd = -1;
  std::vector<int> kv_from = {};  // descriptors of other runners' memory of that kind
  // By open_kv_memory(); kv_sources is null without kv_memory.
  std::shared_ptr<MemoryFile> kv_memory = nullptr;
  std::shared_ptr<KvSources> kv_sources = nullptr;  // of a leader alone
  // Bytes of weights and KV cache that other processes have left in the files that this one was given. They
  // take no more memory.
  uint64_t held_bytes = 0;
  std::optional<TensorType> quantize = std::nullopt;  // for matrices of floats, at load
  std::string isa = "";                               // empty: the best one
  ActivationType activations = ActivationType::kI8;
  // NUMA nodes among which the threads are divided: so many that are made up; 0: those of the machine.
  uint32_t num_nodes = 0;
  Topology topology = {};      // of the machine, by set_threads(); without nodes: it is not known
  bool share_weights = false;  // packs the weights into a file in memory
  int weights_fd = -1;         // of a file in memory that has the packed weights; -1: none
  std::shared_ptr<MemoryFile> weights_file = nullptr;  // by open_weights_file()
  uint32_t gpu_device = 0;
  bool enforce_eager = false;
  std::shared_ptr<StartTimes> start_times = nullptr;  // null: they are not printed

  // Sets the topology, and the number of threads if it is open: one for each core that this runner may use
  // beside the num_runners - 1 others.
  void set_threads(const Topology& of_machine);
  // See EngineConfig.
  uint32_t max_head_rows() const;
  BackendOptions backend_options() const;
  // The same for this model: with fewer_gpus as many are left as can share it.
  BackendOptions backend_options_for(const Result<ModelFiles>& opened) const;
  // Starts the other processes, if there are several: they return from here too, with flags.ranks of their
  // own. Must be called when all files are open, before the sandbox is entered and before a thread starts.
  // Fails with kUsage with a file of weights, which no rank has whole, and with kSystem. leaders_pipe: what
  // the others must not keep open; -1: nothing.
  Result<void> start_ranks(int leaders_pipe = -1);
  // Whether this process only computes what another one tells it (follow_leader).
  bool follows() const;
  // Sets weights_file as share_weights and weights_fd say, for the next backend_options(). Must be called
  // before the sandbox is entered. Fails as MemoryFile::inherit() does. If the system has no files in
  // memory, stderr says so, and weights_file stays empty.
  Result<void> open_weights_file();
  // Sets kv_memory and kv_sources as kv_fd and kv_from say. Must be called before the sandbox is entered.
  // Fails as MemoryFile::inherit() does for kv_fd; of kv_from, stderr says what cannot be used.
  Result<void> open_kv_memory();
  // Sets the defaults of a GPU that differ: it has more to do at once, and memory of its own.
  void set_gpu_defaults();
};

// Fails with kUsage unless it is a power of two from 8 to 256.
Result<void> check_block_size(uint32_t block_size);

// Up to this position the angles are accurate, see numerics.h.
constexpr uint32_t kMaxModelLen = 1u << 20;

// Reads the file, and sets it to quantize its matrices if the flags say so. Errors are those of ModelFile.
Result<ModelFile> read_model_file(const EngineFlags& flags, const ModelFiles& opened);
// Opens flags.model first.
Result<ModelFile> read_model_file(const EngineFlags& flags);
// The flags for this model: an encoder computes a text in one step, so a step has room for its context. Fails
// as read_config does.
Result<EngineFlags> fitted_to(const ModelFile& file, const EngineFlags& flags);

// As the model's spec will have them.
SharedSizes shared_sizes_of(const ModelConfig& config);

struct LoadedModel {
  std::shared_ptr<RankGroup> ranks;      // null with one rank
  std::unique_ptr<KvMapping> kv_memory;  // null: the backend has the memory of the KV cache
  std::shared_ptr<KvSources> kv_sources;
  std::unique_ptr<Backend> backend;
  ModelFile file;
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
  uint64_t kv_cache_bytes;
  uint64_t weights_bytes;  // of all ranks

  // The name of the arithmetic, see Ready.numerics_id.
  std::string numerics_id() const;
};

// Loads what a rank that does not lead has of the model, and computes it until the leader ends. An error is
// the leader's to tell: it gets the first of any rank from load().
[[noreturn]] void follow_leader(const EngineFlags& flags, const Result<ModelFiles>& opened,
                                Result<std::unique_ptr<Backend>> backend);

// Plans the memory (memory_plan.h), loads the model and reserves the KV cache: as many blocks as the plan
// has, or on a device as many as a share of it leaves after a first step. If there is kv_memory, the cache
// lies there and begins with what it remembers. Opens no file. Fails with the exit code of the cause: the
// file, a flag, or memory. Memory that does not suffice is refused before anything is loaded.
Result<LoadedModel> load(const EngineFlags& flags, const ModelFiles& opened, std::unique_ptr<Backend> backend,
                         const LoadProgressFn& progress);
// Opens flags.model first.
Result<LoadedModel> load(const EngineFlags& flags, std::unique_ptr<Backend> backend,
                         const LoadProgressFn& progress);

}  // namespace runnel
