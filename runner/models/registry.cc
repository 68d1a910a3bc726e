#include "runner/models/registry.h"

#include "runner/models/architectures.h"
#include "runner/models/llama.h"

namespace runnel {
namespace {

constexpr Architecture kArchitectures[] = {
    {"llama", load_llama},
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
                                          Backend& backend, const LoadProgressFn& progress) {
  const Result<ModelConfig> config = read_config(file, expected_architecture);
  if (!config) return config.error();
  return find_architecture(config->architecture)->load(file, *config, backend, progress);
}

}  // namespace runnel
