#include "cuda-runner/device_weights.h"

#include <chrono>
#include <utility>

#include "cuda-runner/packed_tensor.h"
#include "runner/check.h"
#include "runner/formats/in_quotes.h"
#include "runner/system/start_times.h"

namespace runnel {
namespace {

// Takes the matrices off the front of `stacked` that become one on the device.
std::span<const TensorView> take_one(std::span<const TensorView>& stacked) {
  size_t count = 1;
  while (count < stacked.size() && PackedTensor::can_stack(stacked[count - 1], stacked[count])) ++count;
  const std::span<const TensorView> taken = stacked.first(count);
  stacked = stacked.subspan(count);
  return taken;
}

}  // namespace

uint32_t rows_of(const StackedMatrix& matrix) {
  uint32_t sum = 0;
  for (const UploadedMatrix& part : matrix) sum += part.rows;
  return sum;
}

DeviceMatrix part_of(const StackedMatrix& matrix, uint32_t first_row, uint32_t num_rows) {
  auto part = matrix.begin();
  for (; first_row >= part->rows; ++part) {
    first_row -= part->rows;
    CHECK(part + 1 != matrix.end());
  }
  return part->view_of(first_row, num_rows);
}

Result<DeviceWeights> DeviceWeights::create(Stream& stream, uint32_t num_threads) {
  Result<WeightUpload> upload = WeightUpload::create(stream, num_threads);
  if (!upload) return upload.error();
  return DeviceWeights(stream, *std::move(upload));
}

std::string DeviceWeights::finish_upload() {
  CHECK(upload_);
  const auto began_at = std::chrono::steady_clock::now();
  stream_->synchronize();
  const auto for_copies = upload_->waited_for_copies() + (std::chrono::steady_clock::now() - began_at);
  const std::string waited = milliseconds_text(upload_->waited_for_packing()) + " for packing, " +
                             milliseconds_text(for_copies) + " for copies";
  upload_.reset();
  return waited;
}

Result<uint64_t> DeviceWeights::matrix_bytes(std::span<const TensorView> stacked) {
  CHECK(!stacked.empty());
  constexpr uint64_t kMaxSize = uint64_t{1} << 30;  // rows or columns; indices fit into 32 bits
  uint64_t bytes = 0;
  for (const TensorView& tensor : stacked) {
    if (tensor.num_dims != 2 || tensor.rows() > kMaxSize || tensor.columns() > kMaxSize) {
      return Error{ExitCode::kBadModel, "tensor " + in_quotes(tensor.name) +
                                            " must have two dimensions of at most " +
                                            std::to_string(kMaxSize) + "."};
    }
    if (tensor.columns() != stacked.front().columns()) {
      return Error{ExitCode::kBadModel, "tensor " + in_quotes(tensor.name) + " has " +
                                            std::to_string(tensor.columns()) + " columns, unlike " +
                                            in_quotes(stacked.front().name) + "."};
    }
  }
  while (!stacked.empty()) {
    constexpr uint64_t kMaxBytes = uint64_t{16} << 30;  // kernels count words of 4 bytes in 32 bits
    const std::string& name = stacked.front().name;
    const uint64_t part_bytes = WeightUpload::bytes_of(take_one(stacked));
    if (part_bytes > kMaxBytes) {
      return Error{ExitCode::kBadModel, "tensor " + in_quotes(name) + " takes " + std::to_string(part_bytes) +
                                            " bytes on a device; a matrix may take " +
                                            std::to_string(kMaxBytes) + "."};
    }
    bytes += part_bytes;
  }
  return bytes;
}

Result<WeightHandle> DeviceWeights::add_matrix(std::span<const TensorView> stacked) {
  CHECK(upload_);
  if (const Result<uint64_t> bytes = matrix_bytes(stacked); !bytes) return bytes.error();
  StackedMatrix weight;
  while (!stacked.empty()) {
    Result<UploadedMatrix> part = upload_->matrix(take_one(stacked));
    if (!part) return part.error();
    num_bytes_ += part->num_bytes();
    weight.push_back(*std::move(part));
  }
  return add(std::move(weight));
}

Result<WeightHandle> DeviceWeights::add_vector(const std::string& name, std::span<const float> values) {
  CHECK(upload_);
  Result<DeviceVector> buffer = upload_->vector(name, values);
  if (!buffer) return buffer.error();
  num_bytes_ += buffer->num_bytes();
  return add(*std::move(buffer));
}

const StackedMatrix& DeviceWeights::matrix(WeightHandle handle) const {
  const auto* found = std::get_if<StackedMatrix>(&at(handle));
  CHECK(found != nullptr);
  return *found;
}

const DeviceVector& DeviceWeights::vector(WeightHandle handle) const {
  const auto* found = std::get_if<DeviceVector>(&at(handle));
  CHECK(found != nullptr);
  return *found;
}

std::set<TensorType> DeviceWeights::matrix_types() const {
  std::set<TensorType> types;
  for (const Weight& weight : weights_) {
    if (const auto* matrix = std::get_if<StackedMatrix>(&weight))
      for (const UploadedMatrix& part : *matrix) types.insert(part.type);
  }
  return types;
}

WeightHandle DeviceWeights::add(Weight weight) {
  weights_.push_back(std::move(weight));
  return {static_cast<int32_t>(weights_.size()) - 1};
}

const DeviceWeights::Weight& DeviceWeights::at(WeightHandle handle) const {
  CHECK(handle.index >= 0 && static_cast<size_t>(handle.index) < weights_.size());
  return weights_[handle.index];
}

}  // namespace runnel
