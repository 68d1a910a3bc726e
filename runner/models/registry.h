// The architectures there are, by the name a model file gives.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runner/backend.h"
#include "runner/formats/model_file.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Builds the model that the file describes, for steps within these limits. Fails with kBadModel: an
// architecture that is not here (the message lists those that are), a missing or extra tensor, a shape or
// hyper-parameter that does not fit. expected_architecture, if not empty, must equal the file's.
// max_positions: of the longest sequence there will be; 0: as long as the model allows.
Result<std::unique_ptr<Model>> load_model(const ModelFile& file, std::string_view expected_architecture,
                                          uint32_t max_positions, Backend& backend, const StepLimits& limits,
                                          const LoadProgressFn& progress);

// Reads and checks the hyper-parameters alone; load_model starts with it.
Result<ModelConfig> read_config(const ModelFile& file, std::string_view expected_architecture);

}  // namespace runnel
