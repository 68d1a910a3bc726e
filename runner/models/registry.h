// The architectures there are, by the name a model file gives.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runner/backend.h"
#include "runner/formats/gguf.h"
#include "runner/models/model.h"

namespace runnel {

// Called while tensors are made ready: bytes done, bytes in all.
using LoadProgressFn = std::function<void(uint64_t loaded_bytes, uint64_t total_bytes)>;

// Builds the model that the file describes. Fails with kBadModel: an architecture that is not here (the
// message lists those that are), a missing or extra tensor, a shape or hyper-parameter that does not fit.
// expected_architecture, if not empty, must equal the file's.
Result<std::unique_ptr<Model>> load_model(const GgufFile& file, std::string_view expected_architecture,
                                          Backend& backend, const LoadProgressFn& progress);

// Reads and checks the hyper-parameters alone; load_model starts with it.
Result<ModelConfig> read_config(const GgufFile& file, std::string_view expected_architecture);

}  // namespace runnel
