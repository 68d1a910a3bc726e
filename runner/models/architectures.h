// The table behind registry.h: a row for each architecture.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runner/models/registry.h"

namespace runnel {

struct Architecture {
  std::string_view name;  // general.architecture
  // Loads the weights; config was read and checked.
  Result<std::unique_ptr<Model>> (*load)(const GgufFile& file, const ModelConfig& config, Backend& backend,
                                         const LoadProgressFn& progress);
};

// nullptr if there is none of that name.
const Architecture* find_architecture(std::string_view name);
// "llama, ...", for messages.
std::string architecture_names();

}  // namespace runnel
