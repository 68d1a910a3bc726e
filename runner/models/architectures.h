// The table behind registry.h: a row for each architecture.
#pragma once

#include <string>
#include <string_view>

#include "runner/decoder_spec.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

struct Architecture {
  std::string_view name;  // general.architecture
  // Reads and checks what only this architecture has; nullptr: nothing.
  Result<void> (*read)(const HyperParameters& parameters, ModelConfig& config);
  // Asks the loader, which keeps what fails, for the weights of a file whose hyper-parameters were read and
  // checked.
  DecoderSpec (*spec)(const ModelConfig& config, WeightLoader& loader);
  std::string_view epsilon_key = "attention.layer_norm_rms_epsilon";
  // Variants that are refused for the others.
  bool has_experts = false;
  bool has_long_rope = false;
};

// nullptr if there is none of that name.
const Architecture* find_architecture(std::string_view name);
// "llama, ...", for messages.
std::string architecture_names();

}  // namespace runnel
