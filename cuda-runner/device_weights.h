// The weights of a model on the device, by handle.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/stream.h"
#include "cuda-runner/weight_upload.h"
#include "runner/backend/backend.h"
#include "runner/formats/tensor.h"
#include "runner/result.h"

namespace runnel {

// Matrices that are multiplied as one. Their rows are stacked; each keeps its own type. Those that can be one
// matrix on the device are one, so that a product takes one launch.
using StackedMatrix = std::vector<UploadedMatrix>;
using DeviceVector = DeviceBuffer<float>;

uint32_t rows_of(const StackedMatrix& matrix);
// One of the matrices that were stacked, by its first row and its number of rows.
DeviceMatrix part_of(const StackedMatrix& matrix, uint32_t first_row, uint32_t num_rows);

class DeviceWeights {
 public:
  // stream: used for all uploads. num_threads: see WeightUpload::create, which this fails like.
  static Result<DeviceWeights> create(Stream& stream, uint32_t num_threads);

  // Bytes of the device's memory that add_matrix will take. Reads no values. Fails as it does.
  static Result<uint64_t> matrix_bytes(std::span<const TensorView> stacked);
  // Both fail with kSystem if the memory of the device or the host is too small. add_matrix fails with
  // kBadModel if a shape is not supported or the matrices differ in columns.
  Result<WeightHandle> add_matrix(std::span<const TensorView> stacked);
  Result<WeightHandle> add_vector(const std::string& name, std::span<const float> values);
  // Waits until all weights are on the device, and frees what their upload used. No weight may be added
  // later. Returns what the upload has waited for: "1.2 for packing, 0.3 for copies".
  std::string finish_upload();

  // CHECK that the handle exists and is of this kind.
  const StackedMatrix& matrix(WeightHandle handle) const;
  const DeviceVector& vector(WeightHandle handle) const;

  uint64_t num_bytes() const { return num_bytes_; }
  std::set<TensorType> matrix_types() const;

 private:
  using Weight = std::variant<StackedMatrix, DeviceVector>;

  DeviceWeights(Stream& stream, WeightUpload upload) : stream_(&stream), upload_(std::move(upload)) {}
  WeightHandle add(Weight weight);
  const Weight& at(WeightHandle handle) const;

  Stream* stream_;
  std::optional<WeightUpload> upload_;
  std::vector<Weight> weights_;  // handles are indices into this
  uint64_t num_bytes_ = 0;
};

}  // namespace runnel
