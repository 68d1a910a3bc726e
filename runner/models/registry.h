// The supported architectures, by the name that a model file gives.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runner/backend/backend.h"
#include "runner/formats/model_file.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Builds the model that the file describes, for steps within these limits. Fails with kBadModel for an
// unknown architecture (the message lists the supported ones), for a missing or extra tensor, and for a shape
// or hyper-parameter that does not fit. If expected_architecture is not empty, it must be equal to the
// file's. max_positions is the length of the longest sequence; 0 means as long as the model allows.
Result<std::unique_ptr<Model>> load_model(const ModelFile& file, std::string_view expected_architecture,
                                          uint32_t max_positions, Backend& backend, const StepLimits& limits,
                                          const LoadProgressFn& progress);

// Gives the file's weights to the backend. Returns what is computed with them. Fails as load_model does.
Result<DecoderSpec> load_weights(const ModelFile& file, const ModelConfig& config, Backend& backend,
                                 const LoadProgressFn& progress);

// Reads and checks the hyper-parameters alone, which is the first step of load_model.
Result<ModelConfig> read_config(const ModelFile& file, std::string_view expected_architecture);

}  // namespace runnel
