#include "runner/formats/model_file.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "runner/check.h"
#include "runner/formats/folder_names.h"
#include "runner/formats/in_quotes.h"
#include "runner/formats/model_contents.h"
#include "runner/formats/quantize.h"

namespace runnel {

struct ModelFile::State {
  ModelContents contents;
  std::optional<TensorType> quantized;
  // Views into contents, which does not change any more.
  std::map<std::string_view, const GgufValue*> values;
  std::map<std::string_view, const TensorView*> tensors;
};

Result<ModelFile> ModelFile::open(const std::string& path) {
  const Result<ModelFiles> files = ModelFiles::open(path);
  if (!files) return files.error();
  return read(*files);
}

Result<ModelFile> ModelFile::read(const ModelFiles& files) {
  Result<ModelContents> contents = files.config() != nullptr ? read_folder(files) : read_gguf(files);
  if (!contents) return contents.error();
  auto state = std::make_unique<State>();
  state->contents = *std::move(contents);
  for (const GgufEntry& entry : state->contents.entries) state->values[entry.key] = &entry.value;
  for (const TensorView& tensor : state->contents.tensors) state->tensors[tensor.name] = &tensor;
  return ModelFile(std::move(state));
}

ModelFile::ModelFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
ModelFile::ModelFile(ModelFile&&) noexcept = default;
ModelFile& ModelFile::operator=(ModelFile&&) noexcept = default;
ModelFile::~ModelFile() = default;

const std::string& ModelFile::path() const {
  return state_->contents.path;
}
std::optional<uint32_t> ModelFile::gguf_version() const {
  return state_->contents.gguf_version;
}
uint64_t ModelFile::file_bytes() const {
  uint64_t sum = 0;
  for (const MappedFile& file : state_->contents.files) sum += file.bytes().size();
  return sum;
}
const std::string& ModelFile::identity() const {
  return state_->contents.identity;
}
const std::vector<GgufEntry>& ModelFile::entries() const {
  return state_->contents.entries;
}
const std::vector<TensorView>& ModelFile::tensors() const {
  return state_->contents.tensors;
}

const GgufValue* ModelFile::find(std::string_view key) const {
  const auto found = state_->values.find(key);
  return found == state_->values.end() ? nullptr : found->second;
}

const TensorView* ModelFile::find_tensor(std::string_view name) const {
  const auto found = state_->tensors.find(name);
  return found == state_->tensors.end() ? nullptr : found->second;
}

Arrangement ModelFile::arrangement_of(const TensorView& tensor) const {
  const auto found = state_->contents.others.find(tensor.name);
  return found == state_->contents.others.end() ? Arrangement() : found->second;
}

std::string ModelFile::what_of(std::string_view name) const {
  std::string own(name);
  if (const auto found = state_->contents.own_names.find(name); found != state_->contents.own_names.end()) {
    own = found->second;
    const TensorView* tensor = find_tensor(name);
    const bool is_computed = std::ranges::any_of(state_->contents.computed, [&](const auto& values) {
      return tensor != nullptr && std::as_bytes(std::span(values)).data() == tensor->data.data();
    });
    if (is_computed) return own + " of its configuration";
  } else if (const auto& names = state_->contents.folder_names) {
    own = names->folder_name_of(name).value_or(own);
  }
  return "tensor " + in_quotes(own);
}

std::string ModelFile::shape_text(std::string_view name, uint32_t num_dims,
                                  const std::array<uint64_t, 4>& shape) const {
  std::vector<uint64_t> sizes(shape.begin(), shape.begin() + num_dims);
  if (!gguf_version()) {
    const auto other = state_->contents.others.find(name);
    const Arrangement arrangement = other == state_->contents.others.end() ? Arrangement() : other->second;
    std::ranges::reverse(sizes);  // columns last
    if (arrangement.kind == Arrangement::kTransposed && num_dims > 1)
      std::swap(sizes[num_dims - 1], sizes[num_dims - 2]);
    if (arrangement.kind == Arrangement::kMxfp4Blocks && num_dims == 3) {
      const uint64_t block_columns = block_weights(TensorType::kMXFP4);
      sizes = {shape[2], shape[1] * arrangement.step, shape[0] / block_columns, block_columns / 2};
    } else {
      sizes.back() *= arrangement.step;
    }
  }
  std::string text;
  for (const uint64_t size : sizes) text += (text.empty() ? "(" : ", ") + std::to_string(size);
  return text + ")";
}

std::optional<uint64_t> ModelFile::unsigned_integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<uint64_t>(value)) return *number;
  // Some writers store counts as signed integers.
  if (const auto* number = std::get_if<int64_t>(value); number != nullptr && *number >= 0) {
    return static_cast<uint64_t>(*number);
  }
  return std::nullopt;
}

std::optional<double> ModelFile::number(std::string_view key) const {
  const GgufValue* value = find(key);
  const auto* number = value != nullptr ? std::get_if<double>(value) : nullptr;
  return number != nullptr ? std::optional<double>(*number) : std::nullopt;
}

std::optional<std::string> ModelFile::text(std::string_view key) const {
  const GgufValue* value = find(key);
  const auto* text = value != nullptr ? std::get_if<std::string>(value) : nullptr;
  return text != nullptr ? std::optional<std::string>(*text) : std::nullopt;
}

std::optional<uint64_t> ModelFile::array_length(std::string_view key) const {
  const GgufValue* value = find(key);
  const auto* array = value != nullptr ? std::get_if<GgufArray>(value) : nullptr;
  return array != nullptr ? std::optional<uint64_t>(array->length) : std::nullopt;
}

Result<void> ModelFile::quantize(TensorType type) {
  CHECK(!state_->quantized);
  state_->quantized = type;
  for (const TensorView& tensor : tensors()) {
    const std::string what = path() + " has " + what_of(tensor.name) + " of ";
    if (is_quantised(tensor.type)) {
      return Error{ExitCode::kUsage,
                   what + std::string(type_name(tensor.type)) + "; --quantize is for weights of floats."};
    }
    if (quantized_type(tensor) && tensor.columns() % block_weights(type) != 0) {
      return Error{ExitCode::kBadModel, what + std::to_string(tensor.columns()) +
                                            " columns; --quantize needs a multiple of " +
                                            std::to_string(block_weights(type)) + "."};
    }
  }
  state_->contents.identity = quantize_type_name(type) + "-" + identity();
  return {};
}

std::optional<TensorType> ModelFile::quantized_type(const TensorView& tensor) const {
  const bool stays = tensor.num_dims < 2 || tensor.name.ends_with(".bias") ||
                     tensor.name.starts_with("position_embd.") ||
                     tensor.name.find(".ffn_gate_inp.") != std::string::npos;
  return stays ? std::nullopt : state_->quantized;
}

void ModelFile::release_pages(const TensorView& tensor) const {
  for (const MappedFile& file : state_->contents.files) {
    const std::byte* const begin = file.bytes().data();
    if (tensor.data.data() >= begin && tensor.data.data() < begin + file.bytes().size())
      file.release_pages(tensor.data);
  }
}

}  // namespace runnel
