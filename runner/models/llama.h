// LLaMA: Touvron et al. 2023 (arXiv 2302.13971), with grouped-query attention as in Llama 2 (arXiv
// 2307.09288).
#pragma once

#include <memory>

#include "runner/models/registry.h"

namespace runnel {

// Loads the weights of a file whose hyper-parameters were read and checked.
Result<std::unique_ptr<Model>> load_llama(const GgufFile& file, const ModelConfig& config, Backend& backend,
                                          const LoadProgressFn& progress);

}  // namespace runnel
