// The bytes of a GGUF file, taken apart. Internal to formats/: others use model_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runner/formats/byte_reader.h"
#include "runner/formats/model_file.h"
#include "runner/result.h"

namespace runnel {

// No file worth reading comes near these, and with them a hostile one cannot make the parser take more memory
// than a small multiple of its own size.
inline constexpr uint64_t kMaxGgufEntries = 65'536;
inline constexpr uint64_t kMaxGgufTensors = 65'536;
inline constexpr uint64_t kMaxGgufStringBytes = uint64_t{16} << 20;
inline constexpr uint64_t kMaxGgufArrayLength = uint64_t{1} << 24;
inline constexpr uint64_t kMaxGgufAlignment = 65'536;
// Of all before the tensors' data. Keys, texts and names are copied once, nothing else of the file is.
inline constexpr uint64_t kMaxGgufHeadBytes = uint64_t{256} << 20;

struct GgufContents {
  uint32_t version = 0;
  std::vector<GgufEntry> entries;   // keys are unique
  std::vector<TensorView> tensors;  // names are unique; data lies inside the file and does not overlap
  uint64_t data_begin = 0;          // offset of the first tensor's data
};

// Errors are kBadModel; their messages begin with path.
Result<GgufContents> parse_gguf(std::span<const std::byte> file, const std::string& path);

// Reads num_entries keys with their values. The steps of parse_gguf, in this order.
Result<std::vector<GgufEntry>> parse_gguf_metadata(ByteReader& reader, uint64_t num_entries,
                                                   const std::string& path);
// Reads num_tensors names with shape, type and place, and then checks the places: data begins at the next
// multiple of alignment. data_begin is set.
Result<std::vector<TensorView>> parse_gguf_tensors(ByteReader& reader, uint64_t num_tensors,
                                                   uint64_t alignment, std::span<const std::byte> file,
                                                   const std::string& path, uint64_t& data_begin);

// Whether what was read so far, up to and including `what`, is within kMaxGgufHeadBytes.
Result<void> check_gguf_head(const ByteReader& reader, const std::string& what, const std::string& path);

// Whether a file says that it is this part, from 0 on, of so many: by split.no and split.count, which a model
// that is one file has not. Errors as parse_gguf's.
Result<void> check_gguf_part(const GgufContents& contents, uint32_t part, uint32_t num_parts,
                             const std::string& path);
// Whether all parts together have the tensors that the first says, by split.tensors.count.
Result<void> check_gguf_parts(const GgufContents& contents, const std::string& path);

// "<path> is truncated: it ends in the middle of <what>."
Error gguf_truncated(const std::string& path, const std::string& what);
Error gguf_error(const std::string& path, const std::string& sentence);

}  // namespace runnel
