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

void WeightLoader::refuse(const std::string& sentence) {
  fail({ExitCode::kBadModel, file_.path() + " " + sentence + "."});
}

const TensorView* WeightLoader::take(const std::string& name, uint32_t num_dims,
                                     const std::array<uint64_t, 4>& shape) {
  if (!status_) return nullptr;
  const TensorView* tensor = file_.find_tensor(name);
  if (tensor == nullptr) {
    refuse("lacks tensor " + quoted(name));
    return nullptr;
  }
  if (tensor->num_dims != num_dims || tensor->shape != shape) {
    refuse("has tensor " + quoted(name) + " of shape " + describe_shape(tensor->num_dims, tensor->shape) +
           "; " + describe_shape(num_dims, shape) + " was expected");
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

WeightHandle WeightLoader::load(const std::vector<TensorView>& matrices) {
  const Result<WeightHandle> weight = backend_.load_matrix(matrices);
  if (!weight) {
    fail(of_file(weight.error()));
    return {};
  }
  for (const TensorView& matrix : matrices) done(matrix);
  return *weight;
}

WeightHandle WeightLoader::matrix(std::initializer_list<MatrixSpec> stacked, uint64_t columns) {
  std::vector<TensorView> matrices;
  for (const MatrixSpec& spec : stacked) {
    const uint64_t rows_of_all = spec.rows_of_all == 0 ? spec.rows : spec.rows_of_all;
    const TensorView* tensor = take(spec.name, 2, {columns, rows_of_all, 1, 1});
    if (tensor == nullptr) return {};
    TensorView& rows = matrices.emplace_back(*tensor);
    const size_t row_bytes = tensor->data.size() / rows_of_all;
    rows.shape[1] = spec.rows;
    rows.data = tensor->data.subspan(spec.first_row * row_bytes, spec.rows * row_bytes);
  }
  return load(matrices);
}

WeightHandle WeightLoader::experts(std::initializer_list<MatrixSpec> stacked, uint64_t columns,
                                   uint64_t num_experts) {
  std::vector<TensorView> matrices;
  for (const MatrixSpec& spec : stacked) {
    const TensorView* tensor = take(spec.name, 3, {columns, spec.rows, num_experts, 1});
    if (tensor == nullptr) return {};
    TensorView& rows = matrices.emplace_back(*tensor);
    rows.num_dims = 2;
    rows.shape = {columns, spec.rows * num_experts, 1, 1};
  }
  return load(matrices);
}

const TensorView* WeightLoader::append(const VectorSpec& spec, std::vector<float>& values) {
  const TensorView* tensor = take(spec.name, 1, {spec.size, 1, 1, 1});
  if (tensor == nullptr) return nullptr;
  if (tensor->type != TensorType::kF32 && tensor->type != TensorType::kF16) {
    fail({ExitCode::kBadModel, file_.path() + ": tensor " + quoted(spec.name) + " of type " +
                                   std::string(type_name(tensor->type)) +
                                   " is no vector of F32 or F16, as it would have to be."});
    return nullptr;
  }
  const size_t first = values.size();
  values.resize(first + spec.size);
  dequantize_row(tensor->type, tensor->data, std::span(values).subspan(first));
  return tensor;
}

WeightHandle WeightLoader::vector(std::initializer_list<VectorSpec> stacked) {
  std::vector<float> values;
  std::vector<const TensorView*> tensors;
  for (const VectorSpec& spec : stacked) {
    const TensorView* tensor = append(spec, values);
    if (tensor == nullptr) return {};
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

std::vector<float> WeightLoader::values(const std::string& name, uint64_t size) {
  std::vector<float> values;
  const TensorView* tensor = append({name, size}, values);
  if (tensor == nullptr) return {};
  done(*tensor);
  return values;
}

Result<void> WeightLoader::finish() const {
  if (!status_) return status_;
  for (const TensorView& tensor : file_.tensors()) {
    if (used_.contains(&tensor)) continue;
    return Error{ExitCode::kBadModel, file_.path() + " has tensor " + quoted(tensor.name) +
                                          ", for which this architecture has no use here; a model that needs "
                                          "it (other biases, adapters) is not supported."};
  }
  return {};
}

}  // namespace runnel
