// Rotated queries and stored keys and values: they have the bits of the CPU and of the reference.
#include "cuda-runner/kernels/rope_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "cuda-runner/kernels/rope_angles.h"
#include "test/cuda-runner/cpu_twin.h"
#include "test/cuda-runner/device_ready.h"
#include "test/cuda-runner/device_sequences.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr KvType kCacheTypes[] = {KvType::kF16, KvType::kF32, KvType::kQ8_0};

template <typename V>
V load(const std::vector<uint8_t>& bytes, size_t first) {
  V value;
  std::memcpy(&value, bytes.data() + first, sizeof(V));
  return value;
}

// The stored value with this index in a run. For Q8_0 it is scaled by the half at offset `scale` of the run.
float stored(const DeviceKv& kv, const std::vector<uint8_t>& bytes, size_t run, uint32_t index,
             uint32_t scale) {
  if (kv.type == KvType::kF32) return load<float>(bytes, run + 4 * index);
  if (kv.type == KvType::kF16) return half_to_float(load<uint16_t>(bytes, run + 2 * index));
  return half_to_float(load<uint16_t>(bytes, run + scale)) * load<int8_t>(bytes, run + index);
}

struct Stored {
  std::vector<float> key;
  std::vector<float> value;
};

// The key and value of one head at one position, read by the layout of device_kv.h.
Stored stored_at(const DeviceKv& kv, const std::vector<uint8_t>& bytes, size_t keys, uint32_t in_block) {
  Stored out;
  for (uint32_t column = 0; column < kv.head_dim; ++column) {
    const uint32_t key = kv.key_octet(column / 8, in_block) * 8 + column % 8;
    const uint32_t value = kv.value_octet(in_block / 8, column) * 8 + in_block % 8;
    out.key.push_back(stored(kv, bytes, keys, key, kv.key_scale(column, in_block)));
    out.value.push_back(stored(kv, bytes, keys + kv.run_bytes(), value,
                               kv.value_scales(in_block / 8, column) + 2 * (in_block % 8)));
  }
  return out;
}

std::vector<float> as_stored(KvType type, std::span<const float> row) {
  std::vector<float> wanted = reference::as_stored(type, row);
  // The bytes of Q8_0 have no -0.
  for (float& value : wanted) value = type == KvType::kQ8_0 ? value + 0.0f : value;
  return wanted;
}

std::vector<double> frequencies_of(const Rope& rope) {
  std::vector<double> frequencies;
  for (uint32_t pair = 0; pair < rope.rotary_dim / 2; ++pair)
    frequencies.push_back(exp_f64(-2.0 * pair / rope.rotary_dim * log_f64(10000.0)));
  return frequencies;
}

struct RopeCase {
  KvType type;
  AttentionShape shape;
  Rope rope;
  uint32_t block_size;
  float magnitude = 1.0f;
  bool has_norms = false;
};

void check_rope_store(const TestStream& stream, const RopeCase& wanted_case, std::mt19937& rng) {
  const auto& [type, shape, rope, block_size, magnitude, has_norms] = wanted_case;
  CAPTURE(kv_type_name(type));
  CAPTURE(shape.head_dim);
  CAPTURE(rope.rotary_dim);
  CAPTURE(rope.interleaved);
  CAPTURE(block_size);
  CAPTURE(magnitude);
  const DeviceSequences sequences(stream, type, shape, block_size, {70, 9}, rng);
  const std::vector<RowPlace> rows = {{0, 0}, {0, 1}, {0, 63}, {1, 8}, {0, 69}};
  const auto num_rows = static_cast<uint32_t>(rows.size());
  const uint32_t stride = sequences.qkv_stride();
  std::vector<float> wanted = random_floats(rows.size() * stride, rng, magnitude);
  const DeviceArray<float> qkv(stream, wanted);
  const DeviceStep step = sequences.step(rows);
  const DeviceArray<double> frequencies(stream, frequencies_of(rope));
  const DeviceArray<float> angles(stream, rows.size() * rope.rotary_dim);
  require_success(rope_angles(step.positions.read_view(), num_rows, frequencies.read_view(),
                              rope.rotary_dim / 2, 1.0, angles.view(), stream));
  constexpr uint32_t kLayer = 1;
  const std::vector<float> gain = random_floats(shape.head_dim, rng);
  const DeviceArray<float> gains(stream, gain);
  constexpr float kEpsilon = 1e-6f;
  const HeadNorm norm{has_norms, gains.read_view(), kEpsilon};
  require_success(rope_store(shape, {rope, {norm, norm}, angles.read_view()}, step.view(), num_rows,
                             {qkv.view(), stride}, sequences.kv(), kLayer, stream));

  const std::vector<float> turns = angles.values();
  const std::vector<uint8_t> bytes = sequences.bytes();
  const DeviceKv& kv = sequences.kv();
  for (uint32_t row = 0; row < num_rows; ++row) {
    const std::span<const float> turn = std::span(turns).subspan(row * rope.rotary_dim, rope.rotary_dim);
    const std::span<float> heads = std::span(wanted).subspan(row * stride, stride);
    for (uint32_t head = 0; has_norms && head < shape.num_heads + shape.num_kv_heads; ++head) {
      const std::span<float> values = heads.subspan(head * shape.head_dim, shape.head_dim);
      std::ranges::copy(reference::norm(values, gain, kEpsilon), values.begin());
    }
    for (uint32_t head = 0; head < shape.num_heads; ++head)
      cpu_rotate(heads.subspan(head * shape.head_dim, shape.head_dim), turn, rope.interleaved);
    for (uint32_t head = 0; head < shape.num_kv_heads; ++head) {
      std::vector<float> key(heads.begin() + (shape.num_heads + head) * shape.head_dim,
                             heads.begin() + (shape.num_heads + head + 1) * shape.head_dim);
      cpu_rotate(key, turn, rope.interleaved);
      const std::span<const float> value =
          heads.subspan((shape.num_heads + shape.num_kv_heads + head) * shape.head_dim, shape.head_dim);
      const Stored found = stored_at(kv, bytes, kv.keys_of(kLayer, sequences.block_of(rows[row]), head),
                                     kv.position_in_block(rows[row].position));
      REQUIRE(bits_of(found.key) == bits_of(as_stored(type, key)));
      REQUIRE(bits_of(found.value) == bits_of(as_stored(type, value)));
    }
  }
  REQUIRE(bits_of(qkv.values()) == bits_of(wanted));  // queries are rotated, and norms are applied, in place

  // Nothing else was written. A row takes a multiple of 8 columns.
  const size_t row_bytes = kv.run_bytes() >> kv.block_shift;
  const auto num_touched = std::ranges::count_if(bytes, [](uint8_t byte) { return byte != 0xff; });
  REQUIRE(static_cast<size_t>(num_touched) <= rows.size() * shape.num_kv_heads * 2 * row_bytes);
}

TEST_CASE("rope_store: queries and stored keys and values have the CPU's bits, for both kinds of pairs") {
  const TestStream stream;
  std::mt19937 rng(33);
  for (const KvType type : kCacheTypes) {
    for (const bool interleaved : {false, true}) {
      for (const uint32_t head_dim : {4u, 20u, 32u, 64u, 96u, 256u}) {
        if (type == KvType::kQ8_0 && head_dim % 32 != 0) continue;
        const AttentionShape shape{3, 1, head_dim, 1.0f};
        check_rope_store(stream, {type, shape, {head_dim, interleaved}, 32}, rng);
        check_rope_store(stream, {type, shape, {head_dim / 4 * 2, interleaved}, 16, 1.0f, true}, rng);
        check_rope_store(stream, {type, {8, 4, head_dim, 1.0f}, {head_dim / 4 * 2, interleaved}, 8}, rng);
      }
    }
    for (const uint32_t block_size : {16u, 64u, 128u, 256u})
      check_rope_store(stream, {type, {2, 2, 64, 1.0f}, {64, false}, block_size}, rng);
  }
}

TEST_CASE("rope_store: values of every magnitude are rounded as on the CPU") {
  const TestStream stream;
  std::mt19937 rng(34);
  for (const KvType type : kCacheTypes) {
    // If the largest value of a block is below 7.7e-3, the scale of Q8_0 is a subnormal half; below 3.8e-6 it
    // is 0.
    for (const float magnitude : {1e4f, 1e-2f, 1e-4f, 1e-5f, 3e-6f, 1e-6f, 1e-8f, 0.0f})
      check_rope_store(stream, {type, {1, 1, 64, 1.0f}, {64, false}, 16, magnitude}, rng);
  }
}

TEST_CASE("rope_store: a NaN or oversized value is not lost in a block of others") {
  const TestStream stream;
  std::mt19937 rng(35);
  for (const KvType type : kCacheTypes) {
    for (const float bad : {NAN, HUGE_VALF, -HUGE_VALF}) {
      const AttentionShape shape{1, 1, 32, 1.0f};
      const DeviceSequences sequences(stream, type, shape, 8, {1}, rng);
      std::vector<float> row(sequences.qkv_stride(), 1.0f);
      row[64 + 13] = bad;
      const DeviceArray<float> qkv(stream, row);
      const DeviceStep step = sequences.step({{0, 0}});
      require_success(rope_store(shape, {{0, false}, {}, {}}, step.view(), 1,
                                 {qkv.view(), sequences.qkv_stride()}, sequences.kv(), 0, stream));
      const size_t keys = sequences.kv().keys_of(0, sequences.block_of({0, 0}), 0);
      CHECK_FALSE(std::isfinite(stored_at(sequences.kv(), sequences.bytes(), keys, 0).value[13]));
    }
  }
}

}  // namespace
}  // namespace runnel
