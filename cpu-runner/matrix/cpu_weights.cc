#include "cpu-runner/matrix/cpu_weights.h"

#include <utility>

#include "runner/check.h"
#include "runner/formats/in_quotes.h"
#include "runner/ranks/cut_rows.h"

namespace runnel {

CpuWeights::CpuWeights(std::shared_ptr<MemoryFile> file, ThreadPool& threads)
    : file_(std::move(file)),
      threads_(threads),
      arena_(file_ == nullptr ? WeightArena() : WeightArena(*file_, threads)) {}

Result<uint64_t> CpuWeights::matrix_bytes(std::span<const TensorView> stacked) {
  CHECK(!stacked.empty());
  uint64_t bytes = 0;
  for (const TensorView& tensor : stacked) {
    if (tensor.columns() != stacked.front().columns()) {
      return Error{ExitCode::kBadModel, "tensor " + in_quotes(tensor.name) + " has " +
                                            std::to_string(tensor.columns()) + " columns, unlike " +
                                            in_quotes(stacked.front().name) + "."};
    }
    const Result<uint64_t> of_part = TiledMatrix::bytes_of(tensor);
    if (!of_part) return of_part.error();
    bytes += *of_part;
  }
  return bytes;
}

Result<WeightHandle> CpuWeights::add_matrix(std::span<const TensorView> stacked,
                                            std::span<const RowRange> rows) {
  if (const Result<uint64_t> bytes = matrix_bytes(stacked); !bytes) return bytes.error();
  StackedMatrix weight;
  const CutMatrices own = cut_rows(stacked, rows);
  for (const TensorView& tensor : own.parts) {
    Result<TiledMatrix> part = TiledMatrix::from_tensor(tensor, arena_, threads_);
    if (!part) return part.error();
    weight.parts.push_back(*std::move(part));
  }
  return add(std::move(weight));
}

WeightHandle CpuWeights::add_vector(std::span<const float> values, std::span<const RowRange> rows) {
  return add(cut_values(values, rows));
}

WeightHandle CpuWeights::add(Weight weight) {
  const WeightHandle handle = next();
  weights_.push_back(std::move(weight));
  return handle;
}

const CpuWeights::Weight& CpuWeights::at(WeightHandle handle) const {
  CHECK(handle.index >= 0 && static_cast<size_t>(handle.index) < weights_.size());
  return weights_[handle.index];
}

const StackedMatrix& CpuWeights::matrix(WeightHandle handle) const {
  const auto* found = std::get_if<StackedMatrix>(&at(handle));
  CHECK(found != nullptr);
  return *found;
}

std::span<const float> CpuWeights::vector(WeightHandle handle) const {
  const auto* found = std::get_if<Vector>(&at(handle));
  CHECK(found != nullptr);
  return *found;
}

uint64_t CpuWeights::num_bytes() const {
  uint64_t bytes = arena_.bytes();
  for (const Weight& weight : weights_) {
    if (const auto* floats = std::get_if<Vector>(&weight)) bytes += floats->size() * sizeof(float);
  }
  return bytes;
}

}  // namespace runnel
