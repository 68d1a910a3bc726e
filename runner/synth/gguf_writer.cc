#include "runner/synth/gguf_writer.h"

namespace runnel {

void GgufMetadata::entry(const std::string& key, uint32_t type, const std::string& value) {
  remove(key);
  entries_.emplace_back(key, raw(type) + value);
}

void GgufMetadata::remove(const std::string& key) {
  std::erase_if(entries_, [&](const auto& written) { return written.first == key; });
}

std::string GgufMetadata::bytes() const {
  std::string out;
  for (const auto& [key, value] : entries_) out += raw_text(key) + value;
  return out;
}

std::string gguf_header(uint64_t num_tensors, uint64_t num_entries) {
  constexpr uint32_t kVersion = 3;
  return "GGUF" + raw(kVersion) + raw(num_tensors) + raw(num_entries);
}

std::string gguf_tensor_table(std::span<const GgufTensorRow> tensors) {
  std::string out;
  for (const GgufTensorRow& tensor : tensors) {
    out += raw_text(tensor.name) + raw(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t size : tensor.dims) out += raw(size);
    out += raw(tensor.type) + raw(tensor.offset);
  }
  return out;
}

}  // namespace runnel
