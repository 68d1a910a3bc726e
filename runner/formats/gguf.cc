#include "runner/formats/gguf.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <utility>

#include "runner/formats/gguf_parser.h"
#include "runner/formats/mapped_file.h"

namespace runnel {
namespace {

// Header, metadata and tensor table decide what the weights mean; size, time and inode tell a file that was
// replaced or rewritten without reading its data.
std::string make_identity(const MappedFile& file, uint64_t data_begin) {
  const std::span<const std::byte> bytes = file.bytes();
  const uint64_t hash = XXH3_64bits(bytes.data(), std::min<uint64_t>(data_begin, bytes.size()));
  char text[128];
  std::snprintf(text, sizeof(text), "xxh3-%016" PRIx64 "-%zu-%" PRId64 "-%" PRIu64, hash, bytes.size(),
                file.modified_ns(), file.inode());
  return text;
}

}  // namespace

struct GgufFile::State {
  std::string path;
  MappedFile file;
  GgufContents contents;
  std::string identity;
  // Views into contents, which does not change any more.
  std::map<std::string_view, const GgufValue*> values;
  std::map<std::string_view, const TensorView*> tensors;
};

Result<GgufFile> GgufFile::open(const std::string& path) {
  const Result<RegularFile> file = RegularFile::open(path);
  if (!file) return file.error();
  return read(*file);
}

Result<GgufFile> GgufFile::read(const RegularFile& opened) {
  const std::string& path = opened.path();
  Result<MappedFile> file = MappedFile::map(opened);
  if (!file) return file.error();
  Result<GgufContents> contents = parse_gguf(file->bytes(), path);
  if (!contents) return contents.error();

  auto state = std::make_unique<State>(State{path, *std::move(file), *std::move(contents), {}, {}, {}});
  state->identity = make_identity(state->file, state->contents.data_begin);
  for (const GgufEntry& entry : state->contents.entries) state->values[entry.key] = &entry.value;
  for (const TensorView& tensor : state->contents.tensors) state->tensors[tensor.name] = &tensor;
  return GgufFile(std::move(state));
}

GgufFile::GgufFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

const std::string& GgufFile::path() const {
  return state_->path;
}
uint32_t GgufFile::version() const {
  return state_->contents.version;
}
uint64_t GgufFile::file_bytes() const {
  return state_->file.bytes().size();
}
const std::string& GgufFile::identity() const {
  return state_->identity;
}
const std::vector<GgufEntry>& GgufFile::entries() const {
  return state_->contents.entries;
}
const std::vector<TensorView>& GgufFile::tensors() const {
  return state_->contents.tensors;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = state_->values.find(key);
  return found == state_->values.end() ? nullptr : found->second;
}

const TensorView* GgufFile::find_tensor(std::string_view name) const {
  const auto found = state_->tensors.find(name);
  return found == state_->tensors.end() ? nullptr : found->second;
}

std::optional<uint64_t> GgufFile::unsigned_integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<uint64_t>(value)) return *number;
  // Some writers store counts as signed.
  if (const auto* number = std::get_if<int64_t>(value); number != nullptr && *number >= 0) {
    return static_cast<uint64_t>(*number);
  }
  return std::nullopt;
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find(key);
  const auto* number = value != nullptr ? std::get_if<double>(value) : nullptr;
  return number != nullptr ? std::optional<double>(*number) : std::nullopt;
}

std::optional<std::string> GgufFile::text(std::string_view key) const {
  const GgufValue* value = find(key);
  const auto* text = value != nullptr ? std::get_if<std::string>(value) : nullptr;
  return text != nullptr ? std::optional<std::string>(*text) : std::nullopt;
}

std::optional<uint64_t> GgufFile::array_length(std::string_view key) const {
  const GgufValue* value = find(key);
  const auto* array = value != nullptr ? std::get_if<GgufArray>(value) : nullptr;
  return array != nullptr ? std::optional<uint64_t>(array->length) : std::nullopt;
}

void GgufFile::release_pages(const TensorView& tensor) const {
  state_->file.release_pages(tensor.data);
}

}  // namespace runnel
