// cpu-runner synth: writes a model file with the shape of a real model and random weights, to measure with
// where the real model is not available.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "runner/formats/tensor.h"
#include "runner/models/registry.h"
#include "runner/result.h"
#include "runner/synth/random_llama.h"

namespace runnel {

struct SynthFlags {
  std::string architecture;
  std::string shape;
  TensorType type = TensorType::kQ4_1;
  uint64_t seed = 1;
  bool has_tokenizer = false;  // that of byte_tokenizer.h
  std::string file;
};

// Those that have shapes.
std::vector<std::string> synth_architectures();
// Of llama, "160m" is JackFram/llama-160m, "1b" Llama 3.2 1B and "8b" Llama 3.1 8B; of qwen3, "0.6b" is
// Qwen3-0.6B. nullptr if the architecture has no shape of that name.
const LlamaSizes* shape_named(std::string_view architecture, std::string_view name);
// "160m, 1b, 8b", for messages.
std::string shape_names(std::string_view architecture);

// Writes the file piece by piece; every matrix has this type. The same seed gives the same bytes. Returns
// their number. Fails as NewFile does.
Result<uint64_t> write_random_llama(const LlamaSizes& sizes, TensorType type, uint64_t seed,
                                    const std::string& path, const LoadProgressFn& progress,
                                    bool has_tokenizer = false);

// Reports progress to `progress`, and what was written to `out`. Fails with kUsage for an unknown shape.
Result<void> synth(const SynthFlags& flags, std::ostream& out, std::ostream& progress);

}  // namespace runnel
