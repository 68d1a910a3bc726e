#include "runner/synth/synth.h"

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "runner/formats/new_file.h"
#include "runner/synth/byte_tokenizer.h"

namespace runnel {
namespace {

struct Shape {
  std::string_view name;
  LlamaSizes sizes;
};

// The published versions of the larger llamas have scaled rope, which changes angles and costs no time.
// Without it the runner accepts the file.
constexpr Shape kShapes[] = {
    {"160m",
     {.num_layers = 12,
      .hidden_size = 768,
      .num_heads = 12,
      .num_kv_heads = 12,
      .head_dim = 64,
      .ffn_size = 3072,
      .vocab_size = 32'000,
      .context_length = 2048,
      .rope_theta = 10'000.0f,
      .ties_embedding = false}},
    {"1b",
     {.num_layers = 16,
      .hidden_size = 2048,
      .num_heads = 32,
      .num_kv_heads = 8,
      .head_dim = 64,
      .ffn_size = 8192,
      .vocab_size = 128'256,
      .context_length = 131'072,
      .rope_theta = 500'000.0f,
      .ties_embedding = true}},
    {"8b",
     {.num_layers = 32,
      .hidden_size = 4096,
      .num_heads = 32,
      .num_kv_heads = 8,
      .head_dim = 128,
      .ffn_size = 14'336,
      .vocab_size = 128'256,
      .context_length = 131'072,
      .rope_theta = 500'000.0f,
      .ties_embedding = false}},
    {"0.6b",
     {.num_layers = 28,
      .hidden_size = 1024,
      .num_heads = 16,
      .num_kv_heads = 8,
      .head_dim = 128,
      .ffn_size = 3072,
      .vocab_size = 151'936,
      .context_length = 40'960,
      .rope_theta = 1'000'000.0f,
      .ties_embedding = true,
      .architecture = "qwen3",
      .has_head_norms = true,
      .rms_epsilon = 1e-6f}},
};

// About the bytes that are in memory at once.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

std::string file_head(const LlamaSizes& sizes, const std::vector<RandomTensor>& tensors, bool has_tokenizer) {
  std::vector<GgufTensorRow> rows;
  uint64_t offset = 0;
  for (const RandomTensor& tensor : tensors) {
    rows.push_back({tensor.name, tensor.dims, static_cast<uint32_t>(tensor.type), offset});
    offset = aligned(offset + tensor.num_bytes(), kGgufDefaultAlignment);
  }
  GgufMetadata metadata = llama_metadata(sizes);
  // llama.cpp refuses a file without this.
  metadata.text("tokenizer.ggml.model", "none");
  metadata.u32(std::string(sizes.architecture) + ".vocab_size", sizes.vocab_size);
  if (has_tokenizer) add_byte_tokenizer(sizes.vocab_size, metadata);
  std::string head =
      gguf_header(rows.size(), metadata.num_entries()) + metadata.bytes() + gguf_tensor_table(rows);
  head.resize(aligned(head.size(), kGgufDefaultAlignment));
  return head;
}

// Writes the tensor's values, and zeros up to the beginning of the next tensor.
Result<void> write_tensor(const RandomTensor& tensor, std::mt19937_64& random, uint64_t total_bytes,
                          const LoadProgressFn& progress, NewFile& file) {
  const uint64_t num_bytes = tensor.num_bytes();
  std::vector<std::byte> piece(kPieceBytes / block_bytes(tensor.type) * block_bytes(tensor.type));
  for (uint64_t done = 0; done < num_bytes; done += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), num_bytes - done));
    fill_randomly(tensor, random, piece);
    if (const auto written = file.write(piece); !written.ok()) return written;
    progress(file.num_bytes(), total_bytes);
  }
  const std::vector<std::byte> padding(aligned(num_bytes, kGgufDefaultAlignment) - num_bytes);
  return file.write(padding);
}

}  // namespace

std::vector<std::string> synth_architectures() {
  std::vector<std::string> names;
  for (const Shape& shape : kShapes) {
    const std::string name(shape.sizes.architecture);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

const LlamaSizes* shape_named(std::string_view architecture, std::string_view name) {
  for (const Shape& shape : kShapes) {
    if (shape.sizes.architecture == architecture && shape.name == name) return &shape.sizes;
  }
  return nullptr;
}

std::string shape_names(std::string_view architecture) {
  std::string names;
  for (const Shape& shape : kShapes) {
    if (shape.sizes.architecture == architecture)
      names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  return names;
}

Result<uint64_t> write_random_llama(const LlamaSizes& sizes, TensorType type, uint64_t seed,
                                    const std::string& path, const LoadProgressFn& progress,
                                    bool has_tokenizer) {
  const std::vector<RandomTensor> tensors = llama_tensors(sizes, type, type);
  const std::string head = file_head(sizes, tensors, has_tokenizer);
  uint64_t total_bytes = head.size();
  for (const RandomTensor& tensor : tensors)
    total_bytes += aligned(tensor.num_bytes(), kGgufDefaultAlignment);

  Result<NewFile> file = NewFile::create(path);
  if (!file.ok()) return file.error();
  if (const auto written = file->write(std::as_bytes(std::span(head))); !written.ok()) return written.error();
  std::mt19937_64 random(seed);
  for (const RandomTensor& tensor : tensors) {
    const auto written = write_tensor(tensor, random, total_bytes, progress, *file);
    if (!written.ok()) return written.error();
  }
  if (const auto finished = file->finish(); !finished.ok()) return finished.error();
  return total_bytes;
}

Result<void> synth(const SynthFlags& flags, std::ostream& out, std::ostream& progress) {
  const LlamaSizes* const sizes = shape_named(flags.architecture, flags.shape);
  if (sizes == nullptr) {
    return Error{ExitCode::kUsage, "--shape is " + flags.shape + "; with --arch " + flags.architecture +
                                       " it must be one of: " + shape_names(flags.architecture) + "."};
  }
  uint64_t num_tenths_told = 0;
  const auto tell = [&](uint64_t written_bytes, uint64_t total_bytes) {
    const uint64_t num_tenths = 10 * written_bytes / total_bytes;
    if (num_tenths == num_tenths_told) return;
    num_tenths_told = num_tenths;
    progress << flags.file << ": " << written_bytes << " of " << total_bytes << " bytes" << std::endl;
  };
  const Result<uint64_t> num_bytes =
      write_random_llama(*sizes, flags.type, flags.seed, flags.file, tell, flags.has_tokenizer);
  if (!num_bytes.ok()) return num_bytes.error();
  out << flags.file << " has the shape of " << flags.architecture << " " << flags.shape << " in "
      << type_name(flags.type) << ", " << *num_bytes << " bytes. Its weights are random, and so is its text; "
      << (flags.has_tokenizer ? "its tokens are bytes.\n" : "it has no tokenizer.\n");
  return {};
}

}  // namespace runnel
