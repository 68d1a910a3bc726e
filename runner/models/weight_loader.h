// Gives the tensors of a file to a backend, by name and with the shape that the model expects. Also keeps
// count: every tensor of the file must be used in the end, since one that is left over means that the model
// is not what its name says.
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

#include "runner/backend/backend.h"
#include "runner/formats/model_file.h"
#include "runner/result.h"

namespace runnel {

// Called while tensors are loaded, with the bytes done and the bytes in total.
using LoadProgressFn = std::function<void(uint64_t loaded_bytes, uint64_t total_bytes)>;

// All rows of a matrix, or some rows of a larger one.
struct MatrixSpec {
  std::string name;
  uint64_t rows;
  uint64_t first_row = 0;
  uint64_t rows_of_all = 0;  // rows of the whole tensor; 0: the same as rows
};

struct VectorSpec {
  std::string name;
  uint64_t size;
  float divisor = 1.0f;      // of the values
  uint64_t num_experts = 0;  // each of which has a vector, (experts, size); 0: there is one vector
};

class WeightLoader {
 public:
  // All three must outlive the loader. progress may be empty.
  WeightLoader(const ModelFile& file, Backend& backend, const LoadProgressFn& progress);

  bool has(std::string_view name) const { return file_.find_tensor(name) != nullptr; }
  // Rows of the tensor; 0 if there is none.
  uint64_t rows_of(std::string_view name) const {
    const TensorView* tensor = file_.find_tensor(name);
    return tensor == nullptr ? 0 : tensor->rows();
  }

  // Loads matrices of (rows, columns), stacked by rows into one weight. After a failure this and the calls
  // below return an empty result, and finish() returns the first error, so that a model lists its weights
  // without checking each.
  WeightHandle matrix(std::initializer_list<MatrixSpec> stacked, uint64_t columns);
  // Loads the matrices of all experts, (experts, rows, columns), stacked by rows.
  WeightHandle experts(std::initializer_list<MatrixSpec> stacked, uint64_t columns, uint64_t num_experts);
  // Loads vectors of F32, F16 or BF16, one after the other.
  WeightHandle vector(const std::vector<VectorSpec>& stacked);
  WeightHandle vector(const std::string& name, uint64_t size) { return vector({{name, size}}); }
  // The values of a vector of F32, F16 or BF16, for the model itself. Empty after a failure.
  std::vector<float> values(const std::string& name, uint64_t size);
  // The same of a matrix of any type, by rows.
  std::vector<float> values_of_matrix(const std::string& name, uint64_t rows, uint64_t columns);
  // Checks a matrix that nothing computes with, and leaves it in the file.
  void leave(const std::string& name, uint64_t rows, uint64_t columns);

  // What the file calls a tensor, for messages: see ModelFile.
  std::string what_of(std::string_view name) const { return file_.what_of(name); }
  // Records an error with the message "FILE sentence.".
  void refuse(const std::string& sentence);

  // The first error of the calls above, or an error that names a tensor which none of them took.
  Result<void> finish() const;

 private:
  const TensorView* take(const std::string& name, uint32_t num_dims, const std::array<uint64_t, 4>& shape);
  // Copies of data of the file, which live until the data is loaded.
  using Copies = std::list<std::vector<std::byte>>;
  // is_read: the values are needed.
  TensorView as_gguf(const TensorView& tensor, bool is_read, Copies& copies) const;
  // Quantizes rows if the file asks for it. rows are in the arrangement of GGUF.
  TensorView quantized(const TensorView& rows, Copies& copies) const;
  TensorView rows_of_experts(const MatrixSpec& spec, uint64_t columns, uint64_t num_experts,
                             std::vector<TensorView>& stored, Copies& copies);
  // stored: the tensors of the file that the matrices come from, which count as loaded afterwards.
  WeightHandle load(const std::vector<TensorView>& matrices, const std::vector<TensorView>& stored);
  // Appends the values of a vector. Returns its tensor, or nullptr after a failure.
  const TensorView* append(const VectorSpec& spec, std::vector<float>& values);
  Error of_file(Error error) const;  // puts the path in front
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
