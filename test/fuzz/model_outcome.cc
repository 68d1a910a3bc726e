#include "test/fuzz/model_outcome.h"

#include <functional>

#include "cpu-runner/cpu_backend.h"
#include "runner/commands/loaded_model.h"
#include "runner/engine/sequence.h"
#include "runner/models/registry.h"
#include "test/fixtures/sequences.h"
#include "test/fuzz/target.h"

namespace runnel::fuzz {
namespace {

EngineFlags small_flags() {
  EngineFlags flags;
  flags.num_threads = 1;
  flags.max_num_seqs = 1;
  flags.max_num_batched_tokens = 8;
  flags.block_size = 8;
  flags.kv_cache_bytes = 64u << 10;
  return flags;
}

// Reads the first and the last byte of every accepted tensor.
void touch_ends(const ModelFile& file) {
  unsigned sum = 0;
  for (const TensorView& tensor : file.tensors()) {
    if (tensor.data.empty()) finding("A tensor without data was accepted.");
    sum += std::to_integer<unsigned>(tensor.data.front()) + std::to_integer<unsigned>(tensor.data.back());
  }
  volatile unsigned keep = sum;
  (void)keep;
}

void compute(LoadedModel& loaded) {
  Sequence sequence = sequence_of(1, {0}, 2);
  if (loaded.engine->add(std::move(sequence))) return;  // the engine has no room for it
  while (loaded.engine->has_work()) loaded.engine->step();
}

}  // namespace

std::string outcome_of_model(const std::string& path, std::string_view bytes) {
  const Result<ModelFiles> opened = ModelFiles::open(path);
  if (!opened.ok()) finding(opened.error().message);
  const Result<ModelFile> file = ModelFile::read(*opened);
  if (!file.ok()) {
    // An index may name a file that does not exist.
    const ExitCode code = file.error().exit_code;
    const bool is_folder = opened->config() != nullptr;
    if (code != ExitCode::kBadModel && !(is_folder && code == ExitCode::kNoFile))
      finding(file.error().message);
    return file.error().message;
  }
  touch_ends(*file);
  const Result<ModelConfig> config = read_config(*file, "");
  if (!config.ok()) return config.error().message;
  if (std::hash<std::string_view>()(bytes) % 4 != 0) return "accepted";
  const EngineFlags flags = small_flags();
  Result<std::unique_ptr<Backend>> backend = make_cpu_backend(flags.backend_options());
  if (!backend.ok()) finding(backend.error().message);
  Result<LoadedModel> loaded = load(flags, *opened, *std::move(backend), [](uint64_t, uint64_t) {});
  if (!loaded.ok()) return loaded.error().message;
  compute(*loaded);
  return "computed";
}

}  // namespace runnel::fuzz
