#include "runner/models/weight_loader.h"

#include <utility>
#include <vector>

#include "runner/formats/dequantize.h"
#include "runner/formats/quoted.h"

namespace runnel {
namespace {

std::string describe_shape(uint32_t num_dims, const std::array<uint64_t, 4>& shape) {
  std::string text;
  for (uint32_t dim = 0; dim < num_dims; ++dim) {
    text += dim == 0 ? "(" : ", ";
    text += std::to_string(shape[dim]);
  }
  return text + ")";
}

}  // namespace

WeightLoader::WeightLoader(const GgufFile& file, Backend& backend, const LoadProgressFn& progress)
    : file_(file), backend_(backend), progress_(progress) {
  for (const TensorView& tensor : file.tensors()) total_bytes_ += tensor.data.size();
  status_ = backend_.expect_weights(total_bytes_);
  if (!status_) status_ = of_file(status_.error());
}

Error WeightLoader::of_file(Error error) const {
  error.message = file_.path() + ": " + error.message;
  return error;
}

void WeightLoader::fail(Error error) {
  if (status_) status_ = std::move(error);
}

const TensorView* WeightLoader::take(const std::string& name, uint32_t num_dims, uint64_t columns,
                                     uint64_t rows) {
  const TensorView* tensor = file_.find_tensor(name);
  if (tensor == nullptr) {
    fail({ExitCode::kBadModel, file_.path() + " lacks tensor " + quoted(name) + "."});
    return nullptr;
  }
  const std::array<uint64_t, 4> shape = {columns, rows, 1, 1};
  if (tensor->num_dims != num_dims || tensor->shape != shape) {
    fail({ExitCode::kBadModel, file_.path() + " has tensor " + quoted(name) + " of shape " +
                                   describe_shape(tensor->num_dims, tensor->shape) + "; " +
                                   describe_shape(num_dims, shape) + " was expected."});
    return nullptr;
  }
  used_.insert(tensor);
  return tensor;
}

void WeightLoader::done(const TensorView& tensor) {
  file_.release_pages(tensor);
  loaded_bytes_ += tensor.data.size();
  if (progress_) progress_(loaded_bytes_, total_bytes_);
}

WeightHandle WeightLoader::matrix(std::initializer_list<MatrixSpec> stacked, uint64_t columns) {
  std::vector<TensorView> tensors;
  for (const MatrixSpec& spec : stacked) {
    const TensorView* tensor = status_ ? take(spec.name, 2, columns, spec.rows) : nullptr;
    if (tensor == nullptr) return {};
    tensors.push_back(*tensor);
  }
  const Result<WeightHandle> weight = backend_.load_matrix(tensors);
  if (!weight) {
    fail(of_file(weight.error()));
    return {};
  }
  for (const TensorView& tensor : tensors) done(tensor);
  return *weight;
}

WeightHandle WeightLoader::vector(std::initializer_list<VectorSpec> stacked) {
  std::vector<float> values;
  std::vector<const TensorView*> tensors;
  for (const VectorSpec& spec : stacked) {
    const TensorView* tensor = status_ ? take(spec.name, 1, spec.size, 1) : nullptr;
    if (tensor == nullptr) return {};
    if (tensor->type != TensorType::kF32 && tensor->type != TensorType::kF16) {
      fail({ExitCode::kBadModel, file_.path() + ": tensor " + quoted(spec.name) + " of type " +
                                     std::string(type_name(tensor->type)) +
                                     " is no vector of F32 or F16, as it would have to be."});
      return {};
    }
    const size_t first = values.size();
    values.resize(first + spec.size);
    dequantize_row(tensor->type, tensor->data, std::span(values).subspan(first));
    tensors.push_back(tensor);
  }
  const Result<WeightHandle> weight = backend_.load_vector(tensors.front()->name, values);
  if (!weight) {
    fail(of_file(weight.error()));
    return {};
  }
  for (const TensorView* tensor : tensors) done(*tensor);
  return *weight;
}

Result<void> WeightLoader::finish() const {
  if (!status_) return status_;
  for (const TensorView& tensor : file_.tensors()) {
    if (used_.contains(&tensor)) continue;
    return Error{ExitCode::kBadModel, file_.path() + " has tensor " + quoted(tensor.name) +
                                          ", for which this architecture has no use here; a model that needs "
                                          "it (other biases, scaled rope, adapters) is not supported."};
  }
  return {};
}

}  // namespace runnel
