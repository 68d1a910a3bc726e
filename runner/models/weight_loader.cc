#include "runner/models/weight_loader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runner/formats/dequantize.h"
#include "runner/formats/quantize.h"

namespace runnel {
WeightLoader::WeightLoader(const ModelFile& file, Backend& backend, const LoadProgressFn& progress)
    : file_(file), backend_(backend), progress_(progress) {
  uint64_t num_expected = 0;
  for (const TensorView& tensor : file.tensors()) {
    total_bytes_ += tensor.data.size();
    num_expected += tensor.bytes_as(file.quantized_type(tensor).value_or(tensor.type));
  }
  status_ = backend_.expect_weights(num_expected, file.identity());
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
    refuse("lacks " + what_of(name));
    return nullptr;
  }
  // llama.cpp's quantizer writes a matrix of one row as a vector.
  const bool is_row = num_dims == 2 && shape[1] == 1 && tensor->num_dims == 1;
  if ((tensor->num_dims != num_dims && !is_row) || tensor->shape != shape) {
    refuse("has " + what_of(name) + " of shape " + file_.shape_text(name, tensor->num_dims, tensor->shape) +
           "; " + file_.shape_text(name, num_dims, shape) + " was expected");
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

WeightHandle WeightLoader::load(const std::vector<TensorView>& matrices,
                                const std::vector<TensorView>& stored) {
  const Result<WeightHandle> weight = backend_.load_matrix(matrices);
  if (!weight) {
    fail(of_file(weight.error()));
    return {};
  }
  for (const TensorView& tensor : stored) done(tensor);
  return *weight;
}

// The tensor in the arrangement of GGUF. If the file has another arrangement, this is a copy that copies
// owns.
TensorView WeightLoader::as_gguf(const TensorView& tensor, bool is_read, Copies& copies) const {
  const Arrangement arrangement = file_.arrangement_of(tensor);
  if (arrangement.kind == Arrangement::kSame || !is_read) return tensor;
  TensorView view = tensor;
  view.data = copies.emplace_back(arranged(tensor, arrangement));
  return view;
}

TensorView WeightLoader::quantized(const TensorView& rows, Copies& copies) const {
  const std::optional<TensorType> type = file_.quantized_type(rows);
  if (!type) return rows;
  TensorView view = rows;
  view.type = *type;
  if (!backend_.needs_values()) return view;
  const uint64_t num_bytes = rows.bytes_as(*type);
  std::vector<std::byte>& blocks = copies.emplace_back(num_bytes);
  std::vector<float> values(rows.columns());
  const size_t row_bytes = rows.data.size() / rows.rows();
  const size_t row_blocks = num_bytes / rows.rows();
  for (uint64_t row = 0; row < rows.rows(); ++row) {
    dequantize_row(rows.type, rows.data.subspan(row * row_bytes, row_bytes), values);
    quantize_row(*type, values, std::span(blocks).subspan(row * row_blocks, row_blocks));
  }
  view.data = blocks;
  return view;
}

WeightHandle WeightLoader::matrix(std::initializer_list<MatrixSpec> stacked, uint64_t columns) {
  std::vector<TensorView> matrices;
  std::vector<TensorView> stored;
  Copies copies;
  for (const MatrixSpec& spec : stacked) {
    const uint64_t rows_of_all = spec.rows_of_all == 0 ? spec.rows : spec.rows_of_all;
    const TensorView* tensor = take(spec.name, 2, {columns, rows_of_all, 1, 1});
    if (tensor == nullptr) return {};
    const size_t row_bytes = tensor->data.size() / rows_of_all;
    const auto part_of = [&](const TensorView& whole) {
      TensorView rows = whole;
      rows.num_dims = 2;
      rows.shape[1] = spec.rows;
      rows.data = whole.data.subspan(spec.first_row * row_bytes, spec.rows * row_bytes);
      return rows;
    };
    matrices.push_back(quantized(part_of(as_gguf(*tensor, backend_.needs_values(), copies)), copies));
    stored.push_back(part_of(*tensor));
  }
  return load(matrices, stored);
}

// One tensor has all experts, or each expert has one: "blk.0.ffn_up.3.weight" for expert 3.
TensorView WeightLoader::rows_of_experts(const MatrixSpec& spec, uint64_t columns, uint64_t num_experts,
                                         std::vector<TensorView>& stored, Copies& copies) {
  constexpr std::string_view kAll = "_exps.";
  const size_t end = spec.name.find(kAll);
  const auto name_of = [&](uint64_t expert) {
    return spec.name.substr(0, end) + "." + std::to_string(expert) + "." +
           spec.name.substr(end + kAll.size());
  };
  const std::array<uint64_t, 4> shape = {columns, spec.rows * num_experts, 1, 1};
  const auto num_sections = static_cast<uint32_t>(num_experts);
  if (has(spec.name) || end == std::string::npos || !has(name_of(0))) {
    const TensorView* tensor = take(spec.name, 3, {columns, spec.rows, num_experts, 1});
    if (tensor == nullptr) return {};
    stored.push_back(*tensor);
    const TensorView rows = as_gguf(*tensor, backend_.needs_values(), copies);
    return {rows.name, rows.type, 2, shape, rows.data, num_sections};
  }
  std::vector<std::byte>& all = copies.emplace_back();
  for (uint64_t expert = 0; expert < num_experts; ++expert) {
    const TensorView* tensor = take(name_of(expert), 2, {columns, spec.rows, 1, 1});
    if (tensor == nullptr) return {};
    if (expert > 0 && tensor->type != stored.back().type) {
      refuse("has " + what_of(tensor->name) + " of another type than those of other experts");
      return {};
    }
    stored.push_back(*tensor);
    if (backend_.needs_values()) all.insert(all.end(), tensor->data.begin(), tensor->data.end());
  }
  const std::span<const std::byte> data = backend_.needs_values() ? all : stored.front().data;
  return {spec.name, stored.back().type, 2, shape, data, num_sections};
}

WeightHandle WeightLoader::experts(std::initializer_list<MatrixSpec> stacked, uint64_t columns,
                                   uint64_t num_experts) {
  std::vector<TensorView> matrices;
  std::vector<TensorView> stored;
  Copies copies;
  for (const MatrixSpec& spec : stacked) {
    const TensorView rows = rows_of_experts(spec, columns, num_experts, stored, copies);
    if (!status_) return {};
    matrices.push_back(quantized(rows, copies));
  }
  return load(matrices, stored);
}

const TensorView* WeightLoader::append(const VectorSpec& spec, std::vector<float>& values) {
  const uint64_t count = std::max<uint64_t>(spec.num_experts, 1);
  const TensorView* tensor = take(spec.name, spec.num_experts == 0 ? 1 : 2, {spec.size, count, 1, 1});
  if (tensor == nullptr) return nullptr;
  if (is_quantised(tensor->type)) {
    fail({ExitCode::kBadModel, file_.path() + ": " + what_of(spec.name) + " of type " +
                                   std::string(type_name(tensor->type)) +
                                   " must be a vector of F32, F16 or BF16."});
    return nullptr;
  }
  const size_t first = values.size();
  values.resize(first + spec.size * count);
  Copies copies;
  dequantize_row(tensor->type, as_gguf(*tensor, /*is_read=*/true, copies).data,
                 std::span(values).subspan(first));
  if (file_.arrangement_of(*tensor).kind == Arrangement::kLessOne) {
    for (float& value : std::span(values).subspan(first)) value += 1.0f;
  }
  for (float& value : std::span(values).subspan(first)) value /= spec.divisor;
  return tensor;
}

WeightHandle WeightLoader::vector(const std::vector<VectorSpec>& stacked) {
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

std::vector<float> WeightLoader::values_of_matrix(const std::string& name, uint64_t rows, uint64_t columns) {
  const TensorView* tensor = take(name, 2, {columns, rows, 1, 1});
  if (tensor == nullptr) return {};
  std::vector<float> values(rows * columns);
  const size_t row_bytes = tensor->data.size() / rows;
  for (uint64_t row = 0; row < rows; ++row)
    dequantize_row(tensor->type, tensor->data.subspan(row * row_bytes, row_bytes),
                   std::span(values).subspan(row * columns, columns));
  done(*tensor);
  return values;
}

void WeightLoader::leave(const std::string& name, uint64_t rows, uint64_t columns) {
  if (const TensorView* tensor = take(name, 2, {columns, rows, 1, 1}); tensor != nullptr) done(*tensor);
}

Result<void> WeightLoader::finish() const {
  if (!status_) return status_;
  for (const TensorView& tensor : file_.tensors()) {
    if (used_.contains(&tensor)) continue;
    return Error{ExitCode::kBadModel,
                 file_.path() + " has " + what_of(tensor.name) +
                     ", which this architecture does not use; a model that needs it (other "
                     "biases, adapters) is not supported."};
  }
  return {};
}

}  // namespace runnel
