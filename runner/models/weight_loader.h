// Hands the tensors of a file to a backend, by name and with the shape the model expects, and keeps count: in
// the end every tensor of the file must have been used, since one that is left over means that the model is
// not what its name says.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runner/backend.h"
#include "runner/formats/model_file.h"
#include "runner/result.h"

namespace runnel {

// Called while tensors are made ready: bytes done, bytes in all.
using LoadProgressFn = std::function<void(uint64_t loaded_bytes, uint64_t total_bytes)>;

// Rows of a matrix: all that it has, or some of a larger one.
struct MatrixSpec {
  std::string name;
  uint64_t rows;
  uint64_t first_row = 0;
  uint64_t rows_of_all = 0;  // of the whole tensor; 0: rows
};

struct VectorSpec {
  std::string name;
  uint64_t size;
};

class WeightLoader {
 public:
  // All three outlive the loader. progress may be empty.
  WeightLoader(const ModelFile& file, Backend& backend, const LoadProgressFn& progress);

  bool has(std::string_view name) const { return file_.find_tensor(name) != nullptr; }

  // Matrices of (rows, columns), stacked by rows into one weight. After a failure these return an empty
  // handle; finish() tells the first one, so that a model lists its weights without an if after each.
  WeightHandle matrix(std::initializer_list<MatrixSpec> stacked, uint64_t columns);
  // Matrices of each expert, (experts, rows, columns), the experts' rows one below the other.
  WeightHandle experts(std::initializer_list<MatrixSpec> stacked, uint64_t columns, uint64_t num_experts);
  // Vectors of F32, F16 or BF16, one after the other.
  WeightHandle vector(std::initializer_list<VectorSpec> stacked);
  WeightHandle vector(const std::string& name, uint64_t size) { return vector({{name, size}}); }
  // A vector of F32, F16 or BF16 for the model itself; empty after a failure.
  std::vector<float> values(const std::string& name, uint64_t size);
  // What the file calls a tensor, for messages: see ModelFile.
  std::string what_of(std::string_view name) const { return file_.what_of(name); }
  // A failure of the model's own: "FILE sentence.".
  void refuse(const std::string& sentence);

  // The first failure of the calls above, or a tensor that none of them took.
  Result<void> finish() const;

 private:
  const TensorView* take(const std::string& name, uint32_t num_dims, const std::array<uint64_t, 4>& shape);
  // What was copied of the file, until it is loaded.
  using Copies = std::list<std::vector<std::byte>>;
  TensorView as_gguf(const TensorView& tensor, Copies& copies) const;
  // rows: of a tensor of the file, as GGUF has them.
  TensorView quantized(const TensorView& rows, Copies& copies) const;
  TensorView rows_of_experts(const MatrixSpec& spec, uint64_t columns, uint64_t num_experts,
                             std::vector<TensorView>& stored, Copies& copies);
  // stored: what of the file these are, which is then done.
  WeightHandle load(const std::vector<TensorView>& matrices, const std::vector<TensorView>& stored);
  // Adds the values of a vector to the end; its tensor, or nullptr after a failure.
  const TensorView* append(const VectorSpec& spec, std::vector<float>& values);
  Error of_file(Error error) const;  // with the path in front
  void fail(Error error);
  void done(const TensorView& tensor);

  const ModelFile& file_;
  Backend& backend_;
  const LoadProgressFn& progress_;
  uint64_t loaded_bytes_ = 0;
  uint64_t total_bytes_ = 0;
  std::set<const TensorView*> used_;
  Result<void> status_;
};

}  // namespace runnel
