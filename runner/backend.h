// The seam between models and what computes them: five fused operations a layer needs, with what they vary in
// as data (runner/decoder_spec.h). models/ includes nothing else of a backend, and a backend knows no
// architecture. Which backend a binary has is decided when it is linked: its main.cc makes one and hands it
// to the commands.
//
// What flows between the operations is the backend's own: the residual stream `hidden`, the rows of queries,
// keys and values, `attended` and `gated`. A backend keeps them in whatever form its products want (floats,
// int8 with scales, bf16), and nobody else looks at them. A row of theirs belongs to the same row of the
// batch.
//
// Exactness is part of the contract: each value an operation produces depends on the weights, on the row's
// own token and position, and on K and V *as stored* at lower or equal positions of its sequence; never on
// which other rows are in the batch, nor on how many threads compute it. docs/numerics.md has the formula of
// every operation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runner/activation_type.h"
#include "runner/batch.h"
#include "runner/compute_device.h"
#include "runner/decoder_spec.h"
#include "runner/formats/tensor.h"
#include "runner/kv_type.h"
#include "runner/result.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

// What the KV cache holds for every token: num_layers times K and V of num_kv_heads heads of head_dim values.
struct KvShape {
  uint32_t num_layers;
  uint32_t num_kv_heads;
  uint32_t head_dim;
  uint32_t block_size;  // tokens
  uint32_t num_blocks;
  // What works on it, for backends that set memory aside: query heads, and positions of the longest sequence.
  uint32_t num_heads = 0;
  uint32_t max_positions = 0;
};

// What a backend is made with.
struct BackendOptions {
  uint32_t num_threads = 0;  // 0: as many as usable_processors()
  KvType kv_type = KvType::kF16;
  // Of a CPU: the instruction set that its kernels are for, the best there is if empty; and what products
  // read.
  std::string isa = "";
  ActivationType activations = ActivationType::kI8;
  // Of a GPU: its number, and whether each operation is launched by itself where a graph could stand for all.
  uint32_t gpu_device = 0;
  bool enforce_eager = false;
};

// What one step may ask for at most.
struct StepLimits {
  uint32_t max_rows;       // of a batch
  uint32_t max_head_rows;  // of one call of head or read_states
};

// What flows between the operations, for those who look at it.
enum class Flow { kHidden, kNormed, kQkv, kAttended, kGated };

class Backend {
 public:
  virtual ~Backend() = default;

  virtual ComputeDevice& device() = 0;
  // The name of the arithmetic, see Hello.numerics_id: the type of the KV cache is part of it.
  virtual std::string numerics_id() const = 0;

  // --- while loading, in this order
  // ---------------------------------------------------------------------------------------------

  // Before the first weight: so many bytes of tensors will come. Fails with kSystem, naming what is needed
  // and what is there, when they cannot fit.
  virtual Result<void> expect_weights(uint64_t bytes) = 0;
  // Takes matrices of equal columns() stacked by rows, as one weight for one product. Copies what it needs.
  // Fails with kBadModel for a type or shape it cannot compute with, naming the tensor.
  virtual Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) = 0;
  // Whether the values of matrices matter to it. Where not, they are handed over in any order, so that nobody
  // has to read a file for them.
  virtual bool needs_values() const { return true; }
  // Takes gains or biases; name is that of the first tensor they come from.
  virtual Result<WeightHandle> load_vector(const std::string& name, std::span<const float> values) = 0;
  // Once, after the weights: what will be computed with them. Sets aside all memory of a step but the cache's
  // part. Fails with kBadModel, naming what it cannot compute, and with kSystem. The spec outlives the
  // operations.
  virtual Result<void> prepare(const DecoderSpec& spec, const StepLimits& limits) = 0;
  // Bytes one block of this shape takes, then the cache itself, in place of the one before.
  virtual uint64_t kv_block_bytes(const KvShape& shape) const = 0;
  virtual Result<void> allocate_kv(const KvShape& shape) = 0;
  // Memory held by weights, in bytes.
  virtual uint64_t weights_bytes() const = 0;

  // --- one step
  // --------------------------------------------------------------------------------------------------

  // Around the operations of one forward pass: from embed on its batch, which may lose sequences at its end
  // but changes in no other way, to the last before head. What a pass computes may be there only after
  // end_forward.
  virtual void begin_forward(const Batch& batch) = 0;
  virtual void end_forward() = 0;

  virtual void embed(const Batch& batch, const EmbeddingSpec& embedding) = 0;
  // K and V are stored, rounded to the cache's type, in the rows' blocks of the layer.
  virtual void qkv(const Batch& batch, const LayerSpec& layer) = 0;
  // attended = softmax(scale * q . K) V over the positions that the row sees, K and V as stored. Runs after
  // qkv of the same layer. Entries of a block table are not looked at if no row of the batch sees a position
  // of theirs: with a window, those of blocks that were given back.
  virtual void attend(const Batch& batch, const LayerSpec& layer) = 0;
  virtual void project(const Batch& batch, const ProjectSpec& project) = 0;
  virtual void ffn(const Batch& batch, const FfnSpec& ffn) = 0;
  // Logits of the chosen rows of the batch, and the draws from them. rows has 1 to max_head_rows entries;
  // what they point to lives until what was drawn has been read. What is returned is valid until the next
  // call of anything here.
  virtual LogitRows& head(const HeadSpec& head, std::span<const HeadRow> rows) = 0;
  // The norm of hidden of the chosen rows of the batch, on the host: (rows, width) floats, the values that
  // head multiplies. rows has 1 to max_head_rows entries. What head has returned is valid no longer.
  virtual std::vector<float> read_states(const NormSpec& norm, std::span<const uint32_t> rows) = 0;

  // --- to look at, after an operation that was launched by itself
  // --------------------------------------------------------------------------------------------------

  // What the last operation that writes to it left there: (num_rows, width) floats.
  virtual std::vector<float> read_rows(Flow flow, uint32_t num_rows) = 0;
  // Keys, then values of a layer, as stored: (2, num_positions, num_kv_heads, head_dim).
  virtual std::vector<float> read_kv(uint32_t layer, std::span<const uint32_t> block_table,
                                     uint32_t num_positions) = 0;
};

}  // namespace runnel
