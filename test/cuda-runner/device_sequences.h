// Sequences in a paged cache on the device. Their blocks are in random order, and all other values of the
// cache are NaN.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "cuda-runner/kernels/device_kv.h"
#include "cuda-runner/kernels/rope_store.h"
#include "cuda-runner/kernels/step_rows.h"
#include "test/cuda-runner/on_device.h"
#include "test/fixtures/attention_reference.h"
#include "test/fixtures/random_floats.h"

namespace runnel::test {

// A row of a step.
struct RowPlace {
  uint32_t sequence;
  uint32_t position;
};

// The rows of a step on the device, as kernels read them.
struct DeviceStep {
  DeviceStep(const TestStream& stream, const std::vector<RowPlace>& rows,
             const std::vector<uint32_t>& block_tables, uint32_t stride)
      : positions(stream, rows.size()),
        sequences(stream, rows.size()),
        tables(stream, block_tables),
        table_stride(stride) {
    move_to(rows);
  }
  void move_to(const std::vector<RowPlace>& rows) const {
    std::vector<uint32_t> at, of;
    for (const RowPlace& row : rows) {
      at.push_back(row.position);
      of.push_back(row.sequence);
    }
    positions.set(at);
    sequences.set(of);
  }
  StepRows view() const {
    return {positions.read_view(), sequences.read_view(), tables.read_view(), table_stride};
  }

  DeviceArray<uint32_t> positions;
  DeviceArray<uint32_t> sequences;
  DeviceArray<uint32_t> tables;
  uint32_t table_stride;
};

class DeviceSequences {
 public:
  static constexpr uint32_t kNumLayers = 2;
  static constexpr uint32_t kNoBlock = 0xffffffff;

  DeviceSequences(const TestStream& stream, KvType type, const AttentionShape& shape, uint32_t block_size,
                  const std::vector<uint32_t>& lengths, std::mt19937& rng)
      : stream_(stream), shape_(shape), lengths_(lengths) {
    uint32_t num_blocks = 1;  // one block belongs to no sequence
    for (const uint32_t length : lengths) {
      const uint32_t held = (length + block_size - 1) / block_size;
      num_blocks += held;
      table_stride_ = std::max(table_stride_, held + 1);
    }
    std::vector<uint32_t> free(num_blocks);
    std::iota(free.begin(), free.end(), 0);
    std::ranges::shuffle(free, rng);
    block_tables_.assign(lengths.size() * table_stride_, kNoBlock);
    for (size_t i = 0; i < lengths.size(); ++i) {
      for (uint32_t block = 0; block * block_size < lengths[i]; ++block) {
        block_tables_[i * table_stride_ + block] = free.back();
        free.pop_back();
      }
    }
    kv_ = {type,           shape.num_kv_heads,
           shape.head_dim, static_cast<uint32_t>(std::countr_zero(block_size)),
           num_blocks,     {}};
    const size_t num_bytes = kv_.keys_of(kNumLayers, 0, 0);
    bytes_ = std::make_unique<DeviceArray<uint8_t>>(stream, std::vector<uint8_t>(num_bytes, 0xff));
    kv_.bytes = bytes_->view();
  }

  const DeviceKv& kv() const { return kv_; }
  std::vector<uint8_t> bytes() const { return bytes_->values(); }
  uint32_t qkv_stride() const { return (shape_.num_heads + 2 * shape_.num_kv_heads) * shape_.head_dim; }
  uint32_t block_of(const RowPlace& row) const {
    return block_tables_[row.sequence * table_stride_ + (row.position >> kv_.block_shift)];
  }
  std::vector<RowPlace> all_rows() const {
    std::vector<RowPlace> rows;
    for (uint32_t i = 0; i < lengths_.size(); ++i) {
      for (uint32_t position = 0; position < lengths_[i]; ++position) rows.push_back({i, position});
    }
    return rows;
  }
  // A step of these rows. Its tables lack the blocks that no row sees.
  DeviceStep step(const std::vector<RowPlace>& rows) const {
    std::vector<uint32_t> held = block_tables_;
    for (uint32_t i = 0; shape_.window > 0 && i < lengths_.size(); ++i) {
      uint32_t first_seen = lengths_[i];
      for (const RowPlace& row : rows)
        if (row.sequence == i) first_seen = std::min(first_seen, this->first_seen(row.position));
      for (uint32_t block = 0; block < first_seen >> kv_.block_shift; ++block)
        held[i * table_stride_ + block] = kNoBlock;
    }
    return DeviceStep(stream_, rows, held, table_stride_);
  }
  uint32_t first_seen(uint32_t position) const {
    return shape_.window == 0 || position < shape_.window ? 0 : position - shape_.window + 1;
  }

  // Stores random keys and values at all positions, without norms and rotation.
  void fill(uint32_t layer, std::mt19937& rng) {
    const std::vector<RowPlace> rows = all_rows();
    qkv_ = random_floats(rows.size() * qkv_stride(), rng);
    const DeviceStep step(stream_, rows, block_tables_, table_stride_);
    const DeviceArray<float> qkv(stream_, qkv_);
    require_success(rope_store(shape_, {{0, false}, {}, {}}, step.view(), static_cast<uint32_t>(rows.size()),
                               {qkv.view(), qkv_stride()}, kv_, layer, stream_));
    stream_.synchronize();
  }
  // (position of the row + 1, head_dim): the keys and values of one KV head as they were given to fill().
  struct Seen {
    std::vector<float> keys;
    std::vector<float> values;
  };
  Seen seen_by(const RowPlace& row, uint32_t kv_head) const {
    Seen seen;
    const size_t first_row = std::accumulate(lengths_.begin(), lengths_.begin() + row.sequence, size_t{0});
    for (uint32_t position = 0; position <= row.position; ++position) {
      const auto key = qkv_.begin() + (first_row + position) * qkv_stride() +
                       (shape_.num_heads + kv_head) * shape_.head_dim;
      const auto value = key + shape_.num_kv_heads * shape_.head_dim;
      seen.keys.insert(seen.keys.end(), key, key + shape_.head_dim);
      seen.values.insert(seen.values.end(), value, value + shape_.head_dim);
    }
    return seen;
  }
  Seen stored_and_seen_by(const RowPlace& row, uint32_t kv_head) const {
    Seen seen = seen_by(row, kv_head);
    for (std::vector<float>* all : {&seen.keys, &seen.values}) {
      for (size_t first = 0; first < all->size(); first += shape_.head_dim) {
        const std::span<float> one = std::span(*all).subspan(first, shape_.head_dim);
        std::ranges::copy(reference::as_stored(kv_.type, one), one.begin());
      }
    }
    return seen;
  }

 private:
  const TestStream& stream_;
  AttentionShape shape_;
  std::vector<uint32_t> lengths_;
  uint32_t table_stride_ = 0;
  std::vector<uint32_t> block_tables_;
  DeviceKv kv_{};
  std::unique_ptr<DeviceArray<uint8_t>> bytes_;
  std::vector<float> qkv_;
};

}  // namespace runnel::test
