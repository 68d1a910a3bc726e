#include "runner/formats/arrangement.h"

#include <algorithm>
#include <cstring>

#include "runner/check.h"

namespace runnel {
namespace {

// The row of the file that becomes row `row` in GGUF's order.
uint64_t halved_row(uint64_t row, uint64_t head_rows) {
  const uint64_t in_head = row % head_rows;
  return row - in_head + in_head % 2 * (head_rows / 2) + in_head / 2;
}

// Of one matrix. from: (columns, step * rows), from the first value of its first row on.
void transpose(const std::byte* from, uint64_t columns, uint64_t rows, uint32_t step, size_t value_bytes,
               std::byte* to) {
  constexpr uint64_t kSide = 64;  // side of a square that fits the cache
  for (uint64_t first_row = 0; first_row < rows; first_row += kSide) {
    for (uint64_t first = 0; first < columns; first += kSide) {
      for (uint64_t row = first_row; row < std::min(first_row + kSide, rows); ++row) {
        for (uint64_t column = first; column < std::min(first + kSide, columns); ++column) {
          std::memcpy(to + (row * columns + column) * value_bytes,
                      from + (column * rows + row) * step * value_bytes, value_bytes);
        }
      }
    }
  }
}

// A block of GGUF's is the scale and 16 bytes, of which byte i has weights i and i + 16. What is stored has
// weights 2i and 2i + 1 in byte i.
std::vector<std::byte> with_scales(const TensorView& tensor, const Arrangement& arrangement) {
  constexpr size_t kCodeBytes = 16;
  const uint64_t blocks_of_row = tensor.columns() / block_weights(TensorType::kMXFP4);
  const uint64_t num_blocks = tensor.rows() * blocks_of_row;
  CHECK(tensor.type == TensorType::kMXFP4 && arrangement.scales.size() == num_blocks * arrangement.step);
  CHECK(tensor.data.size() == arrangement.scales.size() * kCodeBytes);
  std::vector<std::byte> blocks(num_blocks * block_bytes(TensorType::kMXFP4));
  std::byte* to = blocks.data();
  for (uint64_t block = 0; block < num_blocks; ++block) {
    const uint64_t row = block / blocks_of_row * arrangement.step + arrangement.first;
    const uint64_t stored = row * blocks_of_row + block % blocks_of_row;
    const std::byte* const codes = tensor.data.data() + stored * kCodeBytes;
    const auto code = [&](size_t weight) { return codes[weight / 2] >> (weight % 2 * 4) & std::byte{0xf}; };
    *to++ = arrangement.scales[stored];
    for (size_t i = 0; i < kCodeBytes; ++i) *to++ = code(i) | code(i + kCodeBytes) << 4;
  }
  return blocks;
}

}  // namespace

std::vector<std::byte> arranged(const TensorView& tensor, const Arrangement& arrangement) {
  if (arrangement.kind == Arrangement::kMxfp4Blocks) return with_scales(tensor, arrangement);
  CHECK(!is_quantised(tensor.type));
  const size_t value_bytes = block_bytes(tensor.type);
  const uint64_t columns = tensor.columns();
  std::vector<std::byte> values(columns * tensor.rows() * value_bytes);
  CHECK(tensor.data.size() == values.size() * arrangement.step);
  const std::byte* const from = tensor.data.data() + arrangement.first * value_bytes;
  if (arrangement.kind == Arrangement::kTransposed) {
    const size_t matrix_bytes = columns * tensor.shape[1] * value_bytes;
    for (size_t at = 0; at < values.size(); at += matrix_bytes)
      transpose(from + at * arrangement.step, columns, tensor.shape[1], arrangement.step, value_bytes,
                values.data() + at);
    return values;
  }
  if (arrangement.kind == Arrangement::kInterleaved) {
    for (size_t at = 0; at < values.size(); at += value_bytes)
      std::memcpy(values.data() + at, from + at * arrangement.step, value_bytes);
    return values;
  }
  if (arrangement.kind != Arrangement::kHalvedHeads) {
    std::ranges::copy(tensor.data, values.begin());
    return values;
  }
  // In a vector each value is a row.
  const uint64_t rows = tensor.num_dims == 1 ? tensor.columns() : tensor.rows();
  CHECK(arrangement.head_rows % 2 == 0 && rows % arrangement.head_rows == 0);
  const size_t row_bytes = values.size() / rows;
  for (uint64_t row = 0; row < rows; ++row) {
    std::memcpy(values.data() + row * row_bytes,
                tensor.data.data() + halved_row(row, arrangement.head_rows) * row_bytes, row_bytes);
  }
  return values;
}

}  // namespace runnel
