#include "runner/formats/gguf.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <map>
#include <utility>

#include "runner/formats/gguf_parser.h"
#include "runner/formats/mapped_file.h"
#include "runner/formats/quoted.h"

namespace runnel {
namespace {

// Header, metadata and tensor table decide what the weights mean; size, time and inode tell a file that was
// replaced or rewritten without reading its data.
uint64_t hash_of_head(const MappedFile& file, uint64_t data_begin) {
  const std::span<const std::byte> bytes = file.bytes();
  return XXH3_64bits(bytes.data(), std::min<uint64_t>(data_begin, bytes.size()));
}

// What tells the parts of a model apart from others, with the hash of those before.
uint64_t hash_of_part(uint64_t hash, const MappedFile& file, uint64_t data_begin) {
  const std::array<uint64_t, 5> facts = {hash, hash_of_head(file, data_begin), file.bytes().size(),
                                         static_cast<uint64_t>(file.modified_ns()), file.inode()};
  return XXH3_64bits(facts.data(), sizeof(facts));
}

// file: the first, or only one.
std::string make_identity(uint64_t hash, const MappedFile& file) {
  const std::span<const std::byte> bytes = file.bytes();
  char text[128];
  std::snprintf(text, sizeof(text), "xxh3-%016" PRIx64 "-%zu-%" PRId64 "-%" PRIu64, hash, bytes.size(),
                file.modified_ns(), file.inode());
  return text;
}

}  // namespace

struct GgufFile::State {
  std::string path;
  std::vector<MappedFile> files;
  GgufContents contents;  // its tensors are those of all parts
  std::string identity;
  // Views into contents, which does not change any more.
  std::map<std::string_view, const GgufValue*> values;
  std::map<std::string_view, const TensorView*> tensors;
};

Result<GgufFile> GgufFile::open(const std::string& path) {
  const Result<ModelFiles> files = ModelFiles::open(path);
  if (!files) return files.error();
  return read(*files);
}

Result<GgufFile> GgufFile::read(const ModelFiles& files) {
  const std::string& path = files.path();
  const auto num_parts = static_cast<uint32_t>(files.parts().size());
  auto state = std::make_unique<State>();
  state->path = path;
  uint64_t hash = 0;
  for (uint32_t part = 0; part < num_parts; ++part) {
    const RegularFile& opened = files.parts()[part];
    Result<MappedFile> file = MappedFile::map(opened);
    if (!file) return file.error();
    Result<GgufContents> contents = parse_gguf(file->bytes(), opened.path());
    if (!contents) return contents.error();
    if (const auto checked = check_gguf_part(*contents, part, num_parts, opened.path()); !checked)
      return checked.error();
    hash = part == 0 ? hash_of_head(*file, contents->data_begin)
                     : hash_of_part(hash, *file, contents->data_begin);
    state->files.push_back(*std::move(file));
    if (part == 0) {
      state->contents = *std::move(contents);
    } else {
      std::ranges::move(contents->tensors, std::back_inserter(state->contents.tensors));
    }
  }
  state->identity = make_identity(hash, state->files.front());
  for (const GgufEntry& entry : state->contents.entries) state->values[entry.key] = &entry.value;
  for (const TensorView& tensor : state->contents.tensors) {
    if (!state->tensors.emplace(tensor.name, &tensor).second)
      return gguf_error(path, "has tensor " + quoted(tensor.name) + " in two of its parts");
  }
  if (const auto checked = check_gguf_parts(state->contents, path); !checked) return checked.error();
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
  uint64_t sum = 0;
  for (const MappedFile& file : state_->files) sum += file.bytes().size();
  return sum;
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
  for (const MappedFile& file : state_->files) {
    const std::byte* const begin = file.bytes().data();
    if (tensor.data.data() >= begin && tensor.data.data() < begin + file.bytes().size())
      file.release_pages(tensor.data);
  }
}

}  // namespace runnel
