#include "runner/commands/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "runner/commands/layer_watch.h"
#include "runner/formats/new_file.h"
#include "runner/models/kv_groups.h"
#include "runner/models/registry.h"
#include "runner/models/rope.h"

namespace runnel {
namespace {

using nlohmann::ordered_json;

// The files in a folder.
class CheckpointFolder {
 public:
  static Result<CheckpointFolder> create(const std::string& path) {
    std::error_code fault;
    std::filesystem::create_directories(path, fault);
    if (fault)
      return Error{ExitCode::kNoPermission, "Creating " + path + " failed: " + fault.message() + "."};
    return CheckpointFolder(path);
  }

  // finish() returns the first error of these calls.
  void add(uint32_t checkpoint, const std::string& name, const std::vector<uint64_t>& shape,
           std::span<const float> values) {
    if (!status_) return;
    const std::string file = name + ".f32";
    tensors_.push_back({{"checkpoint", checkpoint}, {"name", name}, {"shape", shape}, {"file", file}});
    status_ = write(file, std::as_bytes(values));
  }

  Result<void> finish(ordered_json index) {
    if (!status_) return status_;
    index["tensors"] = tensors_;
    const std::string text = index.dump(1) + "\n";
    return write("index.json", std::as_bytes(std::span(text)));
  }

 private:
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}

  Result<void> write(const std::string& name, std::span<const std::byte> bytes) {
    Result<NewFile> file = NewFile::create(path_ + "/" + name);
    if (!file.ok()) return file.error();
    if (const auto written = file->write(bytes); !written.ok()) return written;
    return file->finish();
  }

  std::string path_;
  ordered_json tensors_ = ordered_json::array();
  Result<void> status_;
};

// A single sequence.
class LoneSequence {
 public:
  LoneSequence(Model& model, std::vector<std::vector<uint32_t>> block_tables)
      : model_(model), block_tables_(std::move(block_tables)) {}

  // The logits after each of these ids, which follow the ids of the calls before.
  std::vector<float> logits_of(std::span<const uint32_t> ids) {
    Batch batch;
    const auto count = static_cast<uint32_t>(ids.size());
    batch.token_ids.assign(ids.begin(), ids.end());
    for (uint32_t i = 0; i < count; ++i) batch.positions.push_back(num_done_ + i);
    batch.sequences.push_back({0, count, num_done_, block_tables_});
    model_.forward(batch, [](Batch&) {});
    num_done_ += count;
    std::vector<HeadRow> rows;
    for (uint32_t row = 0; row < count; ++row) rows.push_back({.row = row, .wants_logits = true});
    LogitRows& found = model_.logits(rows);
    std::vector<float> logits;
    for (uint32_t row = 0; row < count; ++row) std::ranges::copy(found.row(row), std::back_inserter(logits));
    return logits;
  }

 private:
  Model& model_;
  std::vector<std::vector<uint32_t>> block_tables_;
  uint32_t num_done_ = 0;
};

// Columns first to first + width - 1 of each row.
std::vector<float> columns_of(std::span<const float> rows, size_t row_width, size_t first, size_t width) {
  std::vector<float> columns;
  for (size_t row = 0; row < rows.size(); row += row_width)
    columns.insert(columns.end(), rows.begin() + row + first, rows.begin() + row + first + width);
  return columns;
}

// scale * q . k, capped if the model says so; (heads, n, n).
std::vector<float> scores_of(std::span<const float> queries, std::span<const float> keys,
                             const AttentionShape& shape) {
  const size_t num_rows = queries.size() / (size_t{shape.num_heads} * shape.head_dim);
  std::vector<float> scores;
  for (size_t head = 0; head < shape.num_heads; ++head) {
    const size_t kv_head = head / (shape.num_heads / shape.num_kv_heads);
    for (size_t i = 0; i < num_rows; ++i) {
      for (size_t j = 0; j < num_rows; ++j) {
        const float* query = queries.data() + (i * shape.num_heads + head) * shape.head_dim;
        const float* key = keys.data() + (j * shape.num_kv_heads + kv_head) * shape.head_dim;
        double sum = 0.0;
        for (size_t d = 0; d < shape.head_dim; ++d) sum += double{query[d]} * double{key[d]};
        const auto score = static_cast<float>(sum * double{shape.scale});
        scores.push_back(shape.softcap == 0.0f ? score : soft_capped(score, shape.softcap));
      }
    }
  }
  return scores;
}

std::vector<float> softmax_of(std::span<const float> logits, double temperature) {
  const double largest = std::ranges::max(logits);
  std::vector<double> weights;
  double sum = 0.0;
  for (const float logit : logits) {
    weights.push_back(std::exp((double{logit} - largest) / temperature));
    sum += weights.back();
  }
  std::vector<float> probabilities;
  for (const double weight : weights) probabilities.push_back(static_cast<float>(weight / sum));
  return probabilities;
}

uint32_t argmax_of(std::span<const float> logits) {
  return static_cast<uint32_t>(std::ranges::max_element(logits) - logits.begin());
}

void add_layer(const LayerWatch& watch, uint64_t num_rows, CheckpointFolder& folder) {
  const AttentionShape& shape = watch.attention();
  const uint64_t heads = shape.num_heads;
  const uint64_t kv_heads = shape.num_kv_heads;
  const uint64_t dim = shape.head_dim;
  const size_t qkv_width = (heads + 2 * kv_heads) * dim;
  const auto& values = watch.values();
  const auto add_rows = [&](uint32_t checkpoint, const std::string& name) {
    if (const auto found = values.find(name); found != values.end())
      folder.add(checkpoint, name, {num_rows, found->second.size() / num_rows}, found->second);
  };
  const std::vector<float>& qkv = values.at("qkv");
  const std::vector<float>& cache = values.at("cache");
  const std::vector<float> queries = columns_of(qkv, qkv_width, 0, heads * dim);
  add_rows(1, "norm");
  folder.add(2, "q", {num_rows, heads, dim}, queries);
  if (!watch.changes_keys())
    folder.add(2, "k", {num_rows, kv_heads, dim}, columns_of(qkv, qkv_width, heads * dim, kv_heads * dim));
  folder.add(2, "v", {num_rows, kv_heads, dim},
             columns_of(qkv, qkv_width, (heads + kv_heads) * dim, kv_heads * dim));
  folder.add(3, "cache", {2, num_rows, kv_heads, dim}, cache);
  std::vector<float> scores = scores_of(queries, std::span(cache).first(cache.size() / 2), shape);
  folder.add(4, "scores", {heads, num_rows, num_rows}, scores);
  for (size_t i = 0; i < scores.size(); ++i) {
    const size_t query = i / num_rows % num_rows;
    const size_t key = i % num_rows;
    const bool is_seen = key <= query && (shape.window == 0 || query - key < shape.window);
    if (!is_seen) scores[i] = -HUGE_VALF;
  }
  folder.add(4, "masked", {heads, num_rows, num_rows}, scores);
  add_rows(5, "attended");
  add_rows(5, "attention");
  add_rows(6, "ffn_norm");
  add_rows(6, "gated");
  add_rows(6, "ffn");
  add_rows(7, "block");
}

}  // namespace

Result<void> checkpoint(const EngineFlags& engine, std::unique_ptr<Backend> backend,
                        const CheckpointFlags& flags, std::ostream& out) {
  if (const auto checked = check_block_size(engine.block_size); !checked.ok()) return checked;
  const Result<ModelFile> file = read_model_file(engine);
  if (!file.ok()) return file.error();
  const auto num_ids = static_cast<uint32_t>(flags.token_ids.size());
  LayerWatch watch(*backend);
  const auto model = load_model(*file, engine.architecture, engine.max_model_len, watch,
                                {.max_rows = num_ids, .max_head_rows = num_ids}, {});
  if (!model.ok()) return model.error();
  const ModelConfig& config = (*model)->config();
  if (config.is_encoder) {
    return Error{ExitCode::kUsage,
                 "--model " + engine.model + " is an encoder; checkpoint writes the steps of decoders only."};
  }
  const uint64_t num_positions = uint64_t{num_ids} + flags.max_tokens;
  if (num_positions > config.max_positions) {
    return Error{ExitCode::kUsage, "--tokens and --max-tokens are " + std::to_string(num_positions) +
                                       " positions; the model has " + std::to_string(config.max_positions) +
                                       "."};
  }
  for (const uint32_t id : flags.token_ids) {
    if (id < config.vocab_size) continue;
    return Error{ExitCode::kUsage, "--tokens has " + std::to_string(id) + "; the model's ids are below " +
                                       std::to_string(config.vocab_size) + "."};
  }
  const auto num_blocks = static_cast<uint32_t>((num_positions + engine.block_size - 1) / engine.block_size);
  const auto num_groups = static_cast<uint32_t>(kv_groups_of(config).windows.size());
  const auto allocated = watch.allocate_kv(
      kv_shape_of(config, engine.block_size, num_groups * num_blocks, static_cast<uint32_t>(num_positions)));
  if (!allocated.ok()) return allocated.error();
  Result<CheckpointFolder> folder = CheckpointFolder::create(flags.out);
  if (!folder.ok()) return folder.error();

  LoneSequence sequence(**model, consecutive_tables(num_groups, 0, num_blocks));
  const std::vector<float> logits = sequence.logits_of(flags.token_ids);
  std::vector<float> last(logits.end() - config.vocab_size, logits.end());
  add_layer(watch, num_ids, *folder);
  folder->add(8, "logits", {num_ids, config.vocab_size}, logits);
  folder->add(9, "last_logits", {config.vocab_size}, last);
  for (const auto& [name, temperature] :
       {std::pair("softmax_0.5", 0.5), {"softmax_0.8", 0.8}, {"softmax_1.0", 1.0}, {"softmax_2.0", 2.0}})
    folder->add(11, name, {config.vocab_size}, softmax_of(last, temperature));
  const uint32_t argmax = argmax_of(last);
  std::vector<uint32_t> greedy;
  while (greedy.size() < flags.max_tokens) {
    greedy.push_back(argmax_of(last));
    last = sequence.logits_of(std::span(greedy).last(1));
  }
  const auto finished = folder->finish({{"model", engine.model},
                                        {"architecture", config.architecture},
                                        {"numerics", backend->numerics_id() + rope_suffix(config)},
                                        {"device", backend->device().name()},
                                        {"token_ids", flags.token_ids},
                                        {"argmax", argmax},
                                        {"greedy", greedy}});
  if (!finished.ok()) return finished;
  out << "Checkpoints of " << engine.model << " are in " << flags.out << ".\n";
  return {};
}

}  // namespace runnel
