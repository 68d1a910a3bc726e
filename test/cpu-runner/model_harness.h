// A model on a CPU backend with a small KV cache, and what a scheduler would do for it: blocks and batches.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "runner/models/registry.h"
#include "test/cpu-runner/cpu_backend_of.h"
#include "test/unit_test.h"

namespace runnel::test {

struct HarnessOptions {
  uint32_t num_threads = 1;
  uint32_t block_size = 32;
  bool portable = false;
  uint32_t shuffle_seed = 0;  // 0: blocks are handed out in order
  KvType kv_type = KvType::kF16;
};

// A sequence that is being computed, in pieces of any size.
struct Stream {
  std::vector<uint32_t> token_ids;
  uint32_t num_done = 0;
  std::vector<uint32_t> block_table;
  std::vector<std::vector<float>> logits;  // of each position
};

class ModelHarness {
 public:
  static constexpr uint32_t kMaxRows = 256;
  static constexpr uint32_t kCacheTokens = 2048;

  ModelHarness(const std::string& path, const HarnessOptions& options) : options_(options) {
    Result<GgufFile> file = GgufFile::open(path);
    if (!file) FAIL(file.error().message);
    auto backend =
        cpu_backend_of({.num_threads = options.num_threads, .kv_type = options.kv_type}, options.portable);
    REQUIRE(backend.ok());
    backend_ = *std::move(backend);
    backend_->set_max_rows(kMaxRows, kMaxRows);
    auto model = load_model(*file, "llama", *backend_, {});
    if (!model) FAIL(model.error().message);
    model_ = *std::move(model);
    const ModelConfig& config = model_->config();
    const uint32_t num_blocks = kCacheTokens / options.block_size;
    const auto cache = backend_->allocate_kv(
        {config.num_layers, config.num_kv_heads, config.head_dim, options.block_size, num_blocks});
    if (!cache.ok()) FAIL(cache.error().message);
    free_blocks_.resize(num_blocks);
    std::iota(free_blocks_.rbegin(), free_blocks_.rend(), 0u);
    if (options.shuffle_seed != 0) std::ranges::shuffle(free_blocks_, std::mt19937(options.shuffle_seed));
  }

  Backend& backend() { return *backend_; }
  const ModelConfig& config() const { return model_->config(); }

  // Computes num_rows more rows of each stream in one batch, and keeps their logits.
  struct Share {
    Stream* stream;
    uint32_t num_rows;
  };
  void step(const std::vector<Share>& shares) {
    Batch batch;
    for (const auto& [stream, num_rows] : shares) {
      const uint32_t first_row = batch.num_rows();
      for (uint32_t i = 0; i < num_rows; ++i) {
        batch.token_ids.push_back(stream->token_ids[stream->num_done + i]);
        batch.positions.push_back(stream->num_done + i);
      }
      while (stream->block_table.size() * options_.block_size < stream->num_done + num_rows) {
        stream->block_table.push_back(free_blocks_.back());
        free_blocks_.pop_back();
      }
      batch.sequences.push_back({first_row, num_rows, stream->num_done, stream->block_table});
    }
    model_->forward(batch, [](Batch&) {});
    std::vector<uint32_t> rows(batch.num_rows());
    std::iota(rows.begin(), rows.end(), 0u);
    const std::span<const float> logits = model_->logits(rows);
    uint32_t row = 0;
    for (const auto& [stream, num_rows] : shares) {
      for (uint32_t i = 0; i < num_rows; ++i, ++row) {
        const auto one = logits.subspan(size_t{row} * config().vocab_size, config().vocab_size);
        stream->logits.emplace_back(one.begin(), one.end());
      }
      stream->num_done += num_rows;
      give_back_unseen(*stream);
    }
  }

  // All of one sequence, chunk rows at a time.
  std::vector<std::vector<float>> run(const std::vector<uint32_t>& token_ids, uint32_t chunk) {
    Stream stream{token_ids, 0, {}, {}};
    while (stream.num_done < token_ids.size()) {
      step({{&stream, std::min(chunk, static_cast<uint32_t>(token_ids.size()) - stream.num_done)}});
    }
    release(stream);
    return stream.logits;
  }

  void release(Stream& stream) {
    for (const uint32_t block : stream.block_table)
      if (block != kNoBlock) free_blocks_.insert(free_blocks_.begin(), block);
    stream.block_table.clear();
  }

 private:
  static constexpr uint32_t kNoBlock = 0xffffffff;  // whoever reads it leaves the cache

  // The next row sees the window's last positions, its own among them.
  void give_back_unseen(Stream& stream) {
    const uint32_t window = config().sliding_window;
    if (window == 0 || stream.num_done < window) return;
    const uint32_t num_unseen = (stream.num_done - window + 1) / options_.block_size;
    for (uint32_t i = 0; i < num_unseen; ++i) {
      if (stream.block_table[i] != kNoBlock) free_blocks_.insert(free_blocks_.begin(), stream.block_table[i]);
      stream.block_table[i] = kNoBlock;
    }
  }

  HarnessOptions options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::vector<uint32_t> free_blocks_;
};

}  // namespace runnel::test
