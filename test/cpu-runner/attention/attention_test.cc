// Whole attention over the paged cache has the bits of the scalar reference, for random sequences in random
// chunks, several in a batch, with any number of threads and every table of kernels.
#include "cpu-runner/attention/attention.h"

#include <algorithm>
#include <random>
#include <vector>

#include "runner/models/rope.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/fixtures/attention_reference.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kMaxRows = 64;
constexpr uint32_t kMaxPositions = 900;
// The blocks of another group are not there, so a read of them is an error.
constexpr KvPlace kPlace{.group = 1, .layer = 1};

// The keys and values of one sequence, as the reference reads them: (positions, head_dim) for each KV head.
struct Stored {
  std::vector<std::vector<float>> keys;
  std::vector<std::vector<float>> values;
  std::vector<std::vector<uint32_t>> block_tables = {{}, {}};
  uint32_t num_positions = 0;
};

struct AttentionCase {
  KvType type;
  uint32_t num_kv_heads;
  uint32_t queries_per_kv;
  uint32_t head_dim;
  uint32_t block_size;
  uint32_t window;
  uint32_t num_threads;
  const Kernels* kernels;
  bool has_sinks = false;

  AttentionShape shape() const {
    return {num_kv_heads * queries_per_kv, num_kv_heads, head_dim, 0.2f, window};
  }
};

class AttentionSubject {
 public:
  AttentionSubject(const AttentionCase& subject, uint32_t num_sequences, std::mt19937& rng)
      : case_(subject),
        rng_(rng),
        threads_(*ThreadPool::create(subject.num_threads)),
        qkv_(kMaxRows, (subject.queries_per_kv + 2) * subject.num_kv_heads * subject.head_dim),
        out_(kMaxRows, subject.queries_per_kv * subject.num_kv_heads * subject.head_dim),
        sinks_(subject.has_sinks ? random_floats(subject.queries_per_kv * subject.num_kv_heads, rng, 3.0f)
                                 : std::vector<float>()),
        sequences_(num_sequences) {
    const uint32_t blocks_each = (kMaxPositions + subject.block_size - 1) / subject.block_size;
    const KvShape shape{.num_layers = 2,
                        .num_kv_heads = subject.num_kv_heads,
                        .head_dim = subject.head_dim,
                        .block_size = subject.block_size,
                        .num_blocks = blocks_each * num_sequences,
                        .num_heads = subject.num_kv_heads * subject.queries_per_kv,
                        .max_positions = kMaxPositions};
    cache_ = *KvCache::allocate(shape, subject.type);
    workspace_ = *AttentionWorkspace::allocate(shape, subject.num_threads, kMaxRows);
    std::vector<uint32_t> blocks(shape.num_blocks);
    for (uint32_t i = 0; i < shape.num_blocks; ++i) blocks[i] = i;
    std::ranges::shuffle(blocks, rng);
    for (uint32_t i = 0; i < num_sequences; ++i) {
      sequences_[i].block_tables[kPlace.group].assign(blocks.begin() + i * blocks_each,
                                                      blocks.begin() + (i + 1) * blocks_each);
      sequences_[i].keys.resize(subject.num_kv_heads);
      sequences_[i].values.resize(subject.num_kv_heads);
    }
  }

  // Computes the next num_rows[i] rows of sequence i; with 0 it is not in the batch. Compares some rows with
  // the reference, among them always the last of each sequence.
  void step(std::span<const uint32_t> num_rows) {
    Batch batch;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      if (num_rows[i] == 0) continue;
      const uint32_t first = sequences_[i].num_positions;
      batch.sequences.push_back({batch.num_rows(), num_rows[i], first, sequences_[i].block_tables});
      for (uint32_t row = 0; row < num_rows[i]; ++row) {
        batch.token_ids.push_back(0);
        batch.positions.push_back(first + row);
      }
    }
    std::normal_distribution<float> normal;
    for (uint32_t row = 0; row < batch.num_rows(); ++row)
      std::generate_n(qkv_.row(row), qkv_.width(), [&] { return normal(rng_); });
    const Executor executor{*case_.kernels, *threads_};
    const AttentionShape shape = case_.shape();
    const RopeSpec rope = rope_spec({case_.head_dim, false}, 10000.0);
    angles_.prepare(batch.positions, rope, *threads_);
    rope_and_store(executor, batch, kPlace, shape, {rope.pairs, angles_}, cache_, qkv_);
    remember(batch, num_rows);
    attend_rows(executor, batch, kPlace, shape, sinks_, cache_, workspace_, qkv_, out_);
    size_t share = 0;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      if (num_rows[i] == 0) continue;
      const BatchSequence& rows = batch.sequences[share++];
      check(i, rows, rows.num_rows - 1);
      check(i, rows, static_cast<uint32_t>(rng_() % rows.num_rows));
    }
  }

  uint32_t num_left(size_t sequence) const { return kMaxPositions - sequences_[sequence].num_positions; }

 private:
  std::span<const float> part(uint32_t row, uint32_t head) const {
    return {qkv_.row(row) + size_t{head} * case_.head_dim, case_.head_dim};
  }

  // Records the keys and values of the batch. The keys were rotated in place.
  void remember(const Batch& batch, std::span<const uint32_t> num_rows) {
    size_t share = 0;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      if (num_rows[i] == 0) continue;
      const BatchSequence& rows = batch.sequences[share++];
      Stored& stored = sequences_[i];
      for (uint32_t row = rows.first_row; row < rows.first_row + rows.num_rows; ++row) {
        for (uint32_t head = 0; head < case_.num_kv_heads; ++head) {
          const uint32_t key = case_.num_kv_heads * case_.queries_per_kv + head;
          std::ranges::copy(reference::as_stored(case_.type, part(row, key)),
                            std::back_inserter(stored.keys[head]));
          std::ranges::copy(reference::as_stored(case_.type, part(row, key + case_.num_kv_heads)),
                            std::back_inserter(stored.values[head]));
        }
      }
      stored.num_positions += rows.num_rows;
    }
  }

  void check(size_t sequence, const BatchSequence& rows, uint32_t index) {
    const uint32_t row = rows.first_row + index;
    const uint32_t position = rows.first_position + index;
    const uint32_t query = rng_() % (case_.num_kv_heads * case_.queries_per_kv);
    const uint32_t kv_head = query / case_.queries_per_kv;
    const size_t num_values = size_t{position + 1} * case_.head_dim;
    const std::vector<float> wanted = reference::attend(
        part(row, query), std::span(sequences_[sequence].keys[kv_head]).first(num_values),
        std::span(sequences_[sequence].values[kv_head]).first(num_values), first_seen(position, case_.window),
        case_.shape().scale, /*softcap=*/0.0f, sinks_.empty() ? nullptr : &sinks_[query]);
    CAPTURE(position);
    CAPTURE(query);
    REQUIRE(same_bits({out_.row(row) + size_t{query} * case_.head_dim, case_.head_dim}, wanted));
    Activation ready(1, out_.width());
    std::copy_n(out_.row(row), out_.width(), ready.row(0));
    make_ready({*case_.kernels, *threads_}, ready, 0);
    for (uint32_t column = 0; column < out_.width(); column += kBlockColumns)
      REQUIRE(std::memcmp(out_.block(row, column), ready.block(0, column), sizeof(ReadyBlock)) == 0);
  }

  AttentionCase case_;
  std::mt19937& rng_;
  std::unique_ptr<ThreadPool> threads_;
  KvCache cache_;
  AttentionWorkspace workspace_;
  RopeAngles angles_;
  Activation qkv_;
  Activation out_;
  std::vector<float> sinks_;  // of the heads of queries, or none
  std::vector<Stored> sequences_;
};

template <typename T, size_t kSize>
T one_of(const T (&choices)[kSize], std::mt19937& rng) {
  return choices[rng() % kSize];
}

AttentionCase random_case(std::mt19937& rng) {
  constexpr KvType kTypes[] = {KvType::kF16, KvType::kF32, KvType::kQ8_0};
  constexpr uint32_t kHeadDims[] = {64, 80, 128, 256, 6, 24, 32, 96};
  constexpr uint32_t kBlockSizes[] = {8, 16, 32, 64, 128, 256};
  constexpr uint32_t kWindows[] = {0, 0, 0, 1, 37, 256, 300};
  const std::vector<const Kernels*> tables = kernel_tables();
  AttentionCase one{.type = one_of(kTypes, rng),
                    .num_kv_heads = 1 + static_cast<uint32_t>(rng() % 3),
                    .queries_per_kv = 1 + static_cast<uint32_t>(rng() % 8),
                    .head_dim = one_of(kHeadDims, rng),
                    .block_size = one_of(kBlockSizes, rng),
                    .window = one_of(kWindows, rng),
                    .num_threads = 1 + static_cast<uint32_t>(rng() % 5),
                    .kernels = tables[rng() % tables.size()]};
  if (one.type == KvType::kQ8_0) one.head_dim = (one.head_dim + 31) / 32 * 32;
  if (rng() % 8 == 0)
    one.queries_per_kv = 26 + static_cast<uint32_t>(rng() % 8);  // more than one call of a kernel takes
  one.has_sinks = rng() % 3 == 0;
  return one;
}

TEST_CASE(
    "attention has the bits of the reference, however its sequences are cut and whatever is beside them") {
  constexpr uint32_t kSeed = 41;
  CAPTURE(kSeed);
  std::mt19937 rng(kSeed);
  for (uint32_t trial = 0; trial < 60; ++trial) {
    const AttentionCase one = random_case(rng);
    const uint32_t num_sequences = 1 + rng() % 3;
    CAPTURE(trial);
    CAPTURE(one.kernels->name);
    CAPTURE(kv_type_name(one.type));
    CAPTURE(one.num_kv_heads);
    CAPTURE(one.queries_per_kv);
    CAPTURE(one.head_dim);
    CAPTURE(one.block_size);
    CAPTURE(one.window);
    CAPTURE(one.num_threads);
    CAPTURE(one.has_sinks);
    AttentionSubject subject(one, num_sequences, rng);
    // The first steps have large chunks, so that later rows see many positions.
    for (uint32_t step = 0; step < 16; ++step) {
      std::vector<uint32_t> num_rows(num_sequences);
      for (uint32_t i = 0; i < num_sequences; ++i) {
        const uint32_t at_most = step < 10 ? kMaxRows / num_sequences : rng() % 2 == 0 ? 1 : 9;
        num_rows[i] =
            std::min(rng() % 5 == 0 ? 0 : 1 + static_cast<uint32_t>(rng() % at_most), subject.num_left(i));
      }
      if (std::ranges::max(num_rows) > 0) subject.step(num_rows);
    }
  }
}

}  // namespace
}  // namespace runnel
