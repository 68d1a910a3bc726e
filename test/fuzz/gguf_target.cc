// GGUF files: parsed, configured, and those that are accepted loaded and computed with.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "cpu-runner/cpu_backend.h"
#include "runner/commands/loaded_model.h"
#include "runner/sequence.h"
#include "test/fixtures/sequences.h"
#include "test/fixtures/tiny_llama.h"
#include "test/fuzz/gguf_mutator.h"
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

// A file in memory that is opened by path, as models are.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("model", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    CHECK(fd_ >= 0);
  }
  const std::string& write(const uint8_t* data, size_t size) const {
    CHECK(ftruncate(fd_, 0) == 0);
    CHECK(pwrite(fd_, data, size, 0) == static_cast<ssize_t>(size));
    return path_;
  }

 private:
  int fd_;
  std::string path_;
};

// Every tensor that was accepted can be read to its end.
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
  if (loaded.engine->add(std::move(sequence))) return;  // no room for it
  while (loaded.engine->has_work()) loaded.engine->step();
}

// bytes: of the file.
std::string outcome_of(const std::string& path, std::string_view bytes) {
  const Result<ModelFiles> opened = ModelFiles::open(path);
  if (!opened.ok()) finding(opened.error().message);
  const Result<ModelFile> file = ModelFile::read(*opened);
  if (!file.ok()) {
    if (file.error().exit_code != ExitCode::kBadModel) finding(file.error().message);
    return file.error().message;
  }
  touch_ends(*file);
  const Result<ModelConfig> config = read_config(*file, "");
  if (!config.ok()) return config.error().message;
  // Most of the time would go into computing with files whose numbers are wrong and nothing else.
  if (std::hash<std::string_view>()(bytes) % 4 != 0) return "accepted";
  const EngineFlags flags = small_flags();
  Result<std::unique_ptr<Backend>> backend = make_cpu_backend(flags.backend_options());
  if (!backend.ok()) finding(backend.error().message);
  Result<LoadedModel> loaded = load(flags, *opened, *std::move(backend), [](uint64_t, uint64_t) {});
  if (!loaded.ok()) return loaded.error().message;
  compute(*loaded);
  return "computed";
}

}  // namespace

std::vector<std::string> seed_corpus() {
  std::vector<std::string> corpus;
  for (const TensorType type : tensor_types()) {
    const uint32_t width = test::whole_blocks(type, 32);
    test::GgufWriter file = test::write_tiny_llama({.matrix_type = type,
                                                    .embedding_type = type,
                                                    .num_layers = 1,
                                                    .hidden = width,
                                                    .num_heads = width / 16,
                                                    .num_kv_heads = 1,
                                                    .ffn = width,
                                                    .vocab = 4,
                                                    .window = type == TensorType::kF16 ? 4u : 0u});
    // What the runner reads over: every kind of value, and a tokenizer.
    file.u32("general.alignment", 32);
    file.text("llama.rope.scaling.type", "none");
    file.u32("llama.rope.dimension_count", 16);
    file.u32("llama.attention.key_length", 16);
    file.array("tokenizer.ggml.tokens", kGgufString, 4,
               raw_text("a") + raw_text("b") + raw_text("") + raw_text("dd"));
    file.array("tokenizer.ggml.scores", kGgufFloat32, 4, std::string(16, '\0'));
    file.u32("tokenizer.ggml.eos_token_id", 2);
    file.entry("flag", kGgufBool, raw<uint8_t>(1));
    file.entry("small", kGgufInt8, raw<int8_t>(-1));
    file.entry("large", kGgufUint64, raw<uint64_t>(1));
    file.entry("double", kGgufFloat64, raw(0.5));
    corpus.push_back(file.bytes());
  }
  return corpus;
}

std::string_view unit_name() {
  return "files";
}

}  // namespace runnel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const runnel::fuzz::MemoryFile file;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  runnel::fuzz::tell_outcome(runnel::fuzz::outcome_of(file.write(data, size), bytes));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  runnel::fuzz::Random random(seed);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  runnel::fuzz::mutate_gguf(bytes, random);
  bytes.resize(std::min(bytes.size(), max_size));
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
