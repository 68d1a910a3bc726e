// The seam between models and what computes them: a small set of fused operations. models/ includes nothing
// else of a backend, and a backend knows no architecture. Which backend a binary has is decided when it is
// linked: its main.cc makes one and hands it to the commands.
//
// Activations are opaque: a backend keeps them in whatever form its products want (floats here, int8 with
// scales or bf16 elsewhere) and the model never looks inside. A row of an activation belongs to the same row
// of the batch.
//
// Exactness is part of the contract: each value an operation produces depends on the weights, on the row's
// own token and position, and on K and V *as stored* at lower or equal positions of its sequence; never on
// which other rows are in the batch, nor on how many threads compute it. docs/numerics.md has the formula of
// every operation.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runner/activation_type.h"
#include "runner/attention_shape.h"
#include "runner/batch.h"
#include "runner/formats/tensor.h"
#include "runner/kv_type.h"
#include "runner/result.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

struct WeightHandle {
  int32_t index = -1;  // -1: none
  explicit operator bool() const { return index >= 0; }
};

struct ActivationHandle {
  int32_t index = -1;
};

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

class Backend {
 public:
  virtual ~Backend() = default;

  // For people: "cpu, avx2, 2 threads". And the name of the arithmetic, see Hello.numerics_id: the type
  // of the KV cache is part of it.
  virtual std::string device() const = 0;
  virtual std::string numerics_id() const = 0;

  // --- while loading
  // ---------------------------------------------------------------------------------------------

  // Before the first weight: so many bytes of tensors will come. Fails with kSystem, naming what is needed
  // and what is there, when they cannot fit.
  virtual Result<void> expect_weights(uint64_t bytes) = 0;
  // Takes matrices of equal columns() stacked by rows, as one weight for one product. Copies what it needs.
  // Fails with kBadModel for a type or shape it cannot compute with, naming the tensor.
  virtual Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) = 0;
  // Takes a one-dimensional F32 or F16 tensor: gains and biases.
  virtual Result<WeightHandle> load_vector(const TensorView& vector) = 0;
  // An activation of max_rows rows of this width.
  virtual ActivationHandle new_activation(uint32_t width) = 0;
  // Once, after the weights: sets aside what head needs for this matrix of vocab_size rows. Fails with
  // kSystem.
  virtual Result<void> allocate_head(WeightHandle weight) = 0;
  // Rows that new_activation reserves and a batch may have; and rows that one call of head may ask for.
  virtual void set_max_rows(uint32_t max_rows, uint32_t max_head_rows) = 0;
  // Bytes one block of this shape takes, then the cache itself, in place of the one before.
  virtual uint64_t kv_block_bytes(const KvShape& shape) const = 0;
  virtual Result<void> allocate_kv(const KvShape& shape) = 0;
  // What could still be allocated for the cache, for backends with memory of their own; 0: the system's is
  // what there is.
  virtual uint64_t free_memory_bytes() const = 0;
  // Memory held by weights, in bytes.
  virtual uint64_t weights_bytes() const = 0;

  // --- measuring
  // -------------------------------------------------------------------------------------------------

  // Seconds that the operations work() asks for take on the device, each of so many times, after a time that
  // does not count. In a forward pass whose operations are launched by themselves (enforce_eager).
  virtual std::vector<double> seconds_of(const std::function<void()>& work, uint32_t num_times) = 0;
  // The same of a copy of so many bytes within the device's memory. Fails with kSystem where there is no room
  // for them twice.
  virtual Result<std::vector<double>> seconds_of_copy(uint64_t bytes, uint32_t num_times) = 0;

  // --- one step
  // --------------------------------------------------------------------------------------------------

  // Around the operations of one forward pass: from the first on its batch, which may lose sequences at its
  // end but changes in no other way, to the last before head. What a pass computes may be there only after
  // end_forward.
  virtual void begin_forward(const Batch& batch) = 0;
  virtual void end_forward() = 0;

  // out[row] = table[token of row].
  virtual void embed(const Batch& batch, WeightHandle table, ActivationHandle out) = 0;
  // out = in / sqrt(mean(in^2) + epsilon) * gain, made ready for a product.
  virtual void norm(const Batch& batch, ActivationHandle in, WeightHandle gain, float epsilon,
                    ActivationHandle out) = 0;
  // out = weight * in (+ bias if there is one) and, with add, added to what out holds: the residual stream.
  enum class Into { kReplace, kAdd };
  virtual void linear(const Batch& batch, ActivationHandle in, WeightHandle weight, WeightHandle bias,
                      Into into, ActivationHandle out) = 0;
  // out = silu(gate * in) x (up * in), made ready for a product. gate_up is gate's rows stacked on up's.
  virtual void glu(const Batch& batch, ActivationHandle in, WeightHandle gate_up, ActivationHandle out) = 0;
  // qkv rows hold num_heads queries, then num_kv_heads keys, then as many values, head_dim each. Rotates
  // queries in place and keys on their way, and stores keys and values, rounded to the cache's type, in the
  // rows' blocks of layer.
  virtual void rope_store(const Batch& batch, uint32_t layer, const AttentionShape& shape, const Rope& rope,
                          ActivationHandle qkv) = 0;
  // out = softmax(scale * q . K) V over the positions that the row sees, K and V as stored; made ready for a
  // product. Runs after rope_store of the same layer. Entries of a block table are not looked at if no row of
  // the batch sees a position of theirs: with a window, those of blocks that were given back.
  virtual void attend(const Batch& batch, uint32_t layer, const AttentionShape& shape, ActivationHandle qkv,
                      ActivationHandle out) = 0;
  // Logits of the chosen rows of the batch: norm, then the matrix of allocate_head. rows has at most
  // max_head_rows entries. What is returned is valid until the next call of anything here.
  virtual LogitRows& head(ActivationHandle in, std::span<const uint32_t> rows, WeightHandle gain,
                          float epsilon, WeightHandle weight) = 0;
};

}  // namespace runnel
