// Translates the names of tensors between folders of Hugging Face's and GGUF. Internal to formats/.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runner/formats/arrangement.h"
#include "runner/result.h"

namespace runnel {

struct FolderName {
  std::string gguf_name;  // empty: the model does not need this tensor; of scales: that of their blocks
  Arrangement::Kind kind = Arrangement::kSame;
  std::string second_name = {};  // of the tensor that has every second row; empty: gguf_name has all rows
};

// The names of one folder's tensors.
class FolderNames {
 public:
  // has_tensor says whether the folder has a tensor. The name of the embedding shows whether names have the
  // prefix of a model with its head. Fails with kBadModel, naming path, if both names of it are there.
  static Result<FolderNames> of(std::string_view architecture,
                                const std::function<bool(const std::string&)>& has_tensor,
                                const std::string& path);

  // Nothing for a tensor that no model of the architecture has.
  std::optional<FolderName> gguf_name_of(std::string_view name) const;
  // The reverse. For a GGUF tensor of all experts this is the name of the first expert's tensor.
  std::optional<std::string> folder_name_of(std::string_view gguf_name) const;

 private:
  FolderNames(std::string_view architecture, std::string_view prefix, bool uses_pooler)
      : architecture_(architecture), prefix_(prefix), uses_pooler_(uses_pooler) {}

  // Of a layer's tensor, removes all before the name in the layer, and returns the layer's number.
  std::optional<std::string_view> take_layer(std::string_view& name) const;

  std::string architecture_;
  std::string prefix_;  // begins every name but the head's
  bool uses_pooler_;    // the classification head is BERT's, which begins with the pooler
};

}  // namespace runnel
