// The table behind registry.h, with one row for each architecture.
#pragma once

#include <string>
#include <string_view>

#include "runner/backend/decoder_spec.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

struct Architecture {
  std::string_view name;  // general.architecture
  // Reads and checks the hyper-parameters that only this architecture has. nullptr: there are none.
  Result<void> (*read)(const HyperParameters& parameters, ModelConfig& config);
  // Describes the decoder, and takes its weights from the loader, which keeps the first error. The
  // hyper-parameters must have been read and checked.
  DecoderSpec (*spec)(const ModelConfig& config, WeightLoader& loader);
  std::string_view epsilon_key = "attention.layer_norm_rms_epsilon";
  // Variants that are refused for architectures without them.
  bool has_experts = false;
  bool has_softcaps = false;
  // What rope.scaling.type may say besides "none" and "linear"; empty: nothing.
  std::string_view rope_scaling = "yarn";
};

// nullptr if there is no architecture of that name.
const Architecture* find_architecture(std::string_view name);
// "llama, ...", for error messages.
std::string architecture_names();
// What an architecture needs that no backend computes, for error messages; empty for one that is not known.
std::string_view missing_operations(std::string_view architecture);

}  // namespace runnel
