#include "runner/models/registry.h"

#include <utility>

#include "runner/models/architectures.h"
#include "runner/models/decoder.h"
#include "runner/models/llama.h"
#include "runner/models/weight_loader.h"

namespace runnel {
namespace {

constexpr Architecture kArchitectures[] = {
    {"llama", llama_spec},
};

}  // namespace

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

std::string architecture_names() {
  std::string names;
  for (const Architecture& architecture : kArchitectures) {
    if (!names.empty()) names += ", ";
    names += architecture.name;
  }
  return names;
}

Result<std::unique_ptr<Model>> load_model(const GgufFile& file, std::string_view expected_architecture,
                                          Backend& backend, const StepLimits& limits,
                                          const LoadProgressFn& progress) {
  const Result<ModelConfig> config = read_config(file, expected_architecture);
  if (!config) return config.error();
  WeightLoader loader(file, backend, progress);
  DecoderSpec spec = find_architecture(config->architecture)->spec(*config, loader);
  if (const Result<void> loaded = loader.finish(); !loaded) return loaded.error();
  Result<std::unique_ptr<Model>> model = Decoder::create(*config, std::move(spec), backend, limits);
  if (!model) return Error{model.error().exit_code, file.path() + ": " + model.error().message};
  return model;
}

}  // namespace runnel
