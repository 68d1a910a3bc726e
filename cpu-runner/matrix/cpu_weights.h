// The weights of a model, or of a rank's share of one, by handle.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cpu-runner/matrix/matrix.h"
#include "cpu-runner/matrix/weight_arena.h"
#include "cpu-runner/thread_pool.h"
#include "runner/backend/backend.h"
#include "runner/formats/tensor.h"
#include "runner/ranks/shard_plan.h"
#include "runner/result.h"
#include "runner/system/memory_file.h"

namespace runnel {

class CpuWeights {
 public:
  // file: the memory of the matrices, as WeightArena has it; null: memory of this process. threads pack them,
  // and must outlive this.
  CpuWeights(std::shared_ptr<MemoryFile> file, ThreadPool& threads);

  // Bytes that add_matrix takes of all rows. Reads no values. Fails with kBadModel if the matrices differ in
  // columns, and as TiledMatrix::bytes_of does.
  static Result<uint64_t> matrix_bytes(std::span<const TensorView> stacked);

  // As WeightArena::expect().
  Result<void> expect(uint64_t bytes, const std::string& identity) { return arena_.expect(bytes, identity); }
  // Whether the matrices' values are read: another process has not packed them.
  bool needs_values() const { return !arena_.is_filled(); }
  // The handle of the weight that is added next.
  WeightHandle next() const { return {static_cast<int32_t>(weights_.size())}; }
  // rows: those that are kept of the stack; none: all. Fails as matrix_bytes and TiledMatrix::from_tensor do.
  Result<WeightHandle> add_matrix(std::span<const TensorView> stacked, std::span<const RowRange> rows);
  WeightHandle add_vector(std::span<const float> values, std::span<const RowRange> rows);
  // Called after the last weight. Fails as WeightArena::finish() does.
  Result<void> finish() { return arena_.finish(); }

  // CHECK that the handle exists and is of this kind.
  const StackedMatrix& matrix(WeightHandle handle) const;
  std::span<const float> vector(WeightHandle handle) const;
  // The values of a vector that may be missing.
  std::span<const float> values_of(WeightHandle handle) const {
    return handle ? vector(handle) : std::span<const float>();
  }

  uint64_t num_bytes() const;

 private:
  using Vector = std::vector<float>;
  using Weight = std::variant<StackedMatrix, Vector>;

  WeightHandle add(Weight weight);
  const Weight& at(WeightHandle handle) const;

  const std::shared_ptr<MemoryFile> file_;
  ThreadPool& threads_;
  WeightArena arena_;
  std::vector<Weight> weights_;  // handles are indices into this
};

}  // namespace runnel
