// A model as its files hold it: metadata and tensors under the names that GGUF has for them, whether they
// come from GGUF, versions 2 and 3 (the format's specification in the ggml project, docs/gguf.md), or from a
// folder of Hugging Face's with config.json and safetensors. Everything in a file is untrusted: each count is
// checked against the bytes that are left, each size computed without overflow, each tensor proven to lie
// inside its file before it is handed out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runner/formats/arrangement.h"
#include "runner/formats/model_files.h"
#include "runner/formats/tensor.h"
#include "runner/result.h"

namespace runnel {

// A metadata value that a runner has use for. Arrays are kept as their length only: tokenizer data is the
// gateway's.
struct GgufArray {
  uint32_t element_type;
  uint64_t length;
};
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string, GgufArray>;

struct GgufEntry {
  std::string key;
  GgufValue value;
};

class ModelFile {
 public:
  // Maps and checks all files of a model. Of a GGUF file that is split metadata are the first part's, tensors
  // those of all. Errors: kBadModel, kSystem; the message names the path and the fault.
  static Result<ModelFile> read(const ModelFiles& files);
  // Opens and reads. Errors also: kNoFile, kNoPermission.
  static Result<ModelFile> open(const std::string& path);

  ModelFile(ModelFile&&) noexcept;
  ModelFile& operator=(ModelFile&&) noexcept;
  ~ModelFile();

  const std::string& path() const;
  // Of GGUF files.
  std::optional<uint32_t> gguf_version() const;
  // Of all parts.
  uint64_t file_bytes() const;
  // Hash of header and tensor table, with size, modification time and inode of the first part, of a folder
  // the file that stands for its weights: what Ready.model_identity carries. Those of other parts go into the
  // hash.
  const std::string& identity() const;

  const std::vector<GgufEntry>& entries() const;
  const std::vector<TensorView>& tensors() const;

  const GgufValue* find(std::string_view key) const;
  const TensorView* find_tensor(std::string_view name) const;
  // Of a tensor of this file: what is to be done before its values are GGUF's.
  Arrangement arrangement_of(const TensorView& tensor) const;
  // What of the file a tensor is, for messages, under the file's own name: "tensor "model.norm.weight"" of
  // GGUF's "output_norm.weight" in a folder, of which some are numbers of its configuration. There need not
  // be such a tensor.
  std::string what_of(std::string_view name) const;
  // The first num_dims sizes of a tensor's shape as the file writes them: "(64, 272)".
  std::string shape_text(std::string_view name, uint32_t num_dims,
                         const std::array<uint64_t, 4>& shape) const;
  // Typed look-ups; nullopt when the key is absent or of another type.
  std::optional<uint64_t> unsigned_integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<uint64_t> array_length(std::string_view key) const;

  // From now on matrices of floats are loaded as blocks of this type, one of quantize_type_named; but for the
  // embedding of positions and routers of experts, which quantised files have as floats too. The identity is
  // another one. Fails with kBadModel where rows are no whole blocks, and with kUsage where the file has
  // quantised tensors.
  Result<void> quantize(TensorType type);
  // What a tensor of this file is to be quantised to.
  std::optional<TensorType> quantized_type(const TensorView& tensor) const;

  // Gives back the pages of tensor data already copied; they are read again from the file if touched.
  void release_pages(const TensorView& tensor) const;

 private:
  struct State;
  explicit ModelFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace runnel
