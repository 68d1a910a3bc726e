// What tensors are called in folders of Hugging Face's and in GGUF. Internal to formats/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runner/formats/arrangement.h"

namespace runnel {

struct FolderName {
  std::string gguf_name;  // empty: nothing of the model depends on this tensor
  Arrangement::Kind kind = Arrangement::kSame;
};

// Nothing for a tensor that no model of the architecture has.
std::optional<FolderName> gguf_name_of(std::string_view name, std::string_view architecture);
// The other way round, as newer folders have it: of a tensor that GGUF has for all experts, the first
// expert's.
std::optional<std::string> folder_name_of(std::string_view gguf_name, std::string_view architecture);

}  // namespace runnel
