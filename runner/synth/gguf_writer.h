// Writes what a GGUF file begins with: header, metadata and tensor table. The tensors' data comes after it,
// each at its offset from the next multiple of the alignment. What is set is written as it is set; nothing is
// checked.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/formats/gguf_layout.h"

namespace runnel {

// A value, and a string, as they lie in a file.
template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
inline std::string raw_text(std::string_view text) {
  return raw<uint64_t>(text.size()) + std::string(text);
}

class GgufMetadata {
 public:
  // value: its bytes, without the type. In place of the entry that has this key.
  void entry(const std::string& key, uint32_t type, const std::string& value);
  void u32(const std::string& key, uint32_t value) { entry(key, kGgufUint32, raw(value)); }
  void f32(const std::string& key, float value) { entry(key, kGgufFloat32, raw(value)); }
  void text(const std::string& key, std::string_view value) { entry(key, kGgufString, raw_text(value)); }
  void remove(const std::string& key);

  uint64_t num_entries() const { return entries_.size(); }
  std::string bytes() const;

 protected:
  // Key, and type with value.
  std::vector<std::pair<std::string, std::string>> entries_;
};

struct GgufTensorRow {
  std::string name;
  std::vector<uint64_t> dims;  // columns first
  uint32_t type;
  uint64_t offset;
};

// Magic, version and the two counts.
std::string gguf_header(uint64_t num_tensors, uint64_t num_entries);
std::string gguf_tensor_table(std::span<const GgufTensorRow> tensors);

}  // namespace runnel
