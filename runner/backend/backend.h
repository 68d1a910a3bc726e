// The interface between models and what computes them: the five fused operations of a layer. The variants of
// an operation are data (runner/backend/decoder_spec.h). models/ includes nothing else of a backend, and a
// backend knows no architecture. The backend of a program is chosen when the program is linked: its main.cc
// makes a backend and passes it to the commands.
//
// The data between the operations belongs to the backend: the residual stream `hidden`, the rows of queries,
// keys and values, `attended` and `gated`. A backend stores them in the form that its products need (floats,
// int8 with scales, bf16), and no other code reads them. Row i of each belongs to row i of the batch.
//
// Exactness is part of the contract: each value that an operation produces depends on the weights, on the
// row's own token and position, and on K and V *as stored* at lower or equal positions of its sequence (in an
// encoder, at all positions of its text). It never depends on the other rows of the batch, nor on the number
// of threads. docs/numerics.md has the formula of every operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runner/backend/activation_type.h"
#include "runner/backend/batch.h"
#include "runner/backend/compute_device.h"
#include "runner/backend/decoder_spec.h"
#include "runner/backend/flow_reader.h"
#include "runner/backend/kv_type.h"
#include "runner/formats/tensor.h"
#include "runner/result.h"
#include "runner/sampling/logit_rows.h"
#include "runner/system/numa_threads.h"

namespace runnel {

class MemoryFile;
class RankGroup;
class StartTimes;

// The size of the KV cache. A block holds, for each of its tokens, K and V of num_layers layers with
// num_kv_heads heads of head_dim values. These are the layers of one group (runner/models/kv_groups.h).
struct KvShape {
  uint32_t num_layers;
  uint32_t num_kv_heads;
  uint32_t head_dim;
  uint32_t block_size;  // tokens
  uint32_t num_blocks;
  // For backends that allocate memory for attention: number of query heads, and length of the longest
  // sequence.
  uint32_t num_heads = 0;
  uint32_t max_positions = 0;
  // For a backend that computes in this process: where the blocks lie, one after the other; null: it
  // allocates them.
  std::byte* memory = nullptr;
};

// Options of all backends; each backend reads those that concern it.
struct BackendOptions {
  uint32_t num_threads = 0;  // 0: as many as usable_cores()
  // For a CPU: the NUMA nodes of these threads; none: they are of one node, and run where the system lets
  // them.
  std::vector<NodeThreads> nodes = {};
  KvType kv_type = KvType::kF16;
  // For a CPU: the instruction set of the kernels, or empty for the best one, and the form in which products
  // read activations.
  std::string isa = "";
  ActivationType activations = ActivationType::kI8;
  // For a CPU: the memory of the weights, which other runners share: an empty file, which the backend packs
  // and seals, or a sealed one, which it uses. Null: memory of its own.
  std::shared_ptr<MemoryFile> weights_file = nullptr;
  // For a CPU: the processes that compute the model together, of which this is one. Null: it computes all.
  std::shared_ptr<RankGroup> ranks = nullptr;
  uint32_t num_ranks = 1;  // how many these are; more than one without `ranks`: a backend that only plans
  // For GPUs: the number of the first one, how many compute the model together, and whether operations are
  // launched one by one instead of in a graph.
  uint32_t gpu_device = 0;
  uint32_t num_gpus = 1;
  bool may_use_fewer_gpus = false;  // half as many, and so on, if one of them cannot be used
  // With may_use_fewer_gpus: whether so many can compute the model. Null: any number can.
  std::function<bool(uint32_t num_gpus)> can_share = nullptr;
  bool gathers_by_nccl = false;  // what several have computed; else they copy it from each other
  bool enforce_eager = false;
  // For a GPU: takes the times of the parts of the start, and makes the backend tell stderr those of
  // captures. Null: nobody asks.
  std::shared_ptr<StartTimes> start_times = nullptr;
};

// Limits of one step.
struct StepLimits {
  uint32_t max_rows;       // rows of a batch
  uint32_t max_head_rows;  // rows in one call of head or read_states
};

// Memory that computing takes beside weights and the blocks of the KV cache, in bytes.
struct StepMemory {
  uint64_t rows;       // the data between the operations, for all rows of a step
  uint64_t attention;  // intermediate results of attention, for the longest sequence
  uint64_t logits;     // of one call of head, with what draws need

  uint64_t total() const { return rows + attention + logits; }
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual ComputeDevice& device() = 0;
  // The name of the arithmetic, see Hello.numerics_id. The type of the KV cache is part of it.
  virtual std::string numerics_id() const = 0;

  // --- computed before anything is allocated
  // ------------------------------------------------------------------------------------------

  // Bytes that load_matrix will hold. Reads no values. Fails as load_matrix does.
  virtual Result<uint64_t> matrix_bytes(std::span<const TensorView> stacked) const = 0;
  // Bytes that a block of this shape takes.
  virtual uint64_t kv_block_bytes(const KvShape& shape) const = 0;
  // What prepare and allocate_kv allocate beside the blocks. Fails as prepare does.
  virtual Result<StepMemory> step_memory(const DecoderSpec& spec, const StepLimits& limits,
                                         const KvShape& shape) const = 0;

  // --- while loading, in this order
  // ---------------------------------------------------------------------------------------------

  // With several ranks: called before the first weight with the decoder that will be computed, whose handles
  // are those that load_matrix and load_vector will return: the number of the call, from 0. Fails with kUsage
  // if so many ranks cannot share it.
  virtual Result<void> share(const DecoderSpec& spec) {
    static_cast<void>(spec);
    return {};
  }

  // Called before the first weight with the number of bytes of all tensors, and with the identity of the
  // model. Fails with kSystem if they cannot fit; the message says how much is needed and how much is
  // available. Fails with kTryAgain if BackendOptions::weights_file has other weights.
  virtual Result<void> expect_weights(uint64_t bytes, const std::string& identity) = 0;
  // Loads matrices of equal columns(), stacked by rows, as one weight for one product. Copies what it needs.
  // Fails with kBadModel for a type or shape that it does not support; the message names the tensor.
  virtual Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) = 0;
  // Whether the backend reads the values of matrices. If not, matrices may come without data, and in any
  // arrangement, so that no file need be read for them.
  virtual bool needs_values() const { return true; }
  // Loads gains or biases. name is the name of the first tensor that they come from.
  virtual Result<WeightHandle> load_vector(const std::string& name, std::span<const float> values) = 0;
  // Called once, after the weights, with the decoder that will be computed. Allocates all memory of a step
  // except the KV cache. Fails with kBadModel, naming what it does not support, and with kSystem. The spec
  // must outlive the operations.
  virtual Result<void> prepare(const DecoderSpec& spec, const StepLimits& limits) = 0;
  // Allocates the cache, in place of the one before. Fails with kBadModel or kUsage for a shape that it does
  // not support, and with kSystem.
  virtual Result<void> allocate_kv(const KvShape& shape) = 0;
  // Memory held by weights, in bytes.
  virtual uint64_t weights_bytes() const = 0;
  // Graphs that the backend makes of steps in which each of at most this many sequences has one row. They
  // take memory of the device, as much each, when they are first needed.
  virtual uint32_t num_graphs(uint32_t max_sequences) const {
    static_cast<void>(max_sequences);
    return 0;
  }

  // --- one step
  // --------------------------------------------------------------------------------------------------

  // Called before and after the operations of a forward pass, from embed to the last operation before head.
  // The batch may lose sequences at its end during the pass; it does not change in any other way. The results
  // of a pass may be incomplete until end_forward.
  virtual void begin_forward(const Batch& batch) = 0;
  virtual void end_forward() = 0;

  virtual void embed(const Batch& batch, const EmbeddingSpec& embedding) = 0;
  // Stores K and V, rounded to the type of the cache, in the blocks of the rows in this layer.
  virtual void qkv(const Batch& batch, const LayerSpec& layer) = 0;
  // attended = softmax(scale * q . K) V over the positions that the row sees, with K and V as stored. Runs
  // after qkv of the same layer. Does not read an entry of a block table if no row of the batch sees a
  // position of that block: with a window, such entries may be kNoBlock.
  virtual void attend(const Batch& batch, const LayerSpec& layer) = 0;
  virtual void project(const Batch& batch, const ProjectSpec& project) = 0;
  virtual void ffn(const Batch& batch, const FfnSpec& ffn) = 0;
  // Logits of the chosen rows of the batch, and the draws from them. rows has 1 to max_head_rows entries;
  // what they refer to must live until the draws have been read. The result is valid until the next call of
  // any function of the backend.
  //
  // If the batch repeats and has at most max_head_rows rows, `rows` are all that are needed of it, and the
  // backend may go on with the next step before the host knows what is drawn. Its rows are those after these,
  // of sequences that have a place for them in their block tables, with draws of the same parameters. What it
  // stores for them lies at positions that are not computed yet. When a later batch has such a row, of the
  // same sequence and token and with the same blocks, it has been computed; others are of no account.
  virtual LogitRows& head(const HeadSpec& head, std::span<const HeadRow> rows) = 0;
  // The norm of hidden for the chosen rows of the batch, which is what head multiplies: (rows, width) floats
  // on the host. rows has 1 to max_head_rows entries. Invalidates the result of head.
  virtual std::vector<float> read_states(const NormSpec& norm, std::span<const uint32_t> rows) = 0;
  // The rows of batches so far that had been computed ahead when they came.
  virtual uint64_t num_rows_ahead() const { return 0; }

  // Only after operations that were launched one by one.
  virtual FlowReader& flows() = 0;
};

}  // namespace runnel
