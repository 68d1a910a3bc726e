#include "cpu-runner/matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "runner/check.h"
#include "runner/formats/dequantize.h"
#include "runner/formats/half.h"
#include "runner/formats/quoted.h"

namespace runnel {
namespace {

constexpr size_t kScalesBytes = kTileRows * sizeof(uint16_t);

uint32_t num_scales(TensorType type) {
  return type == TensorType::kQ4_1 ? 2 : 1;
}
uint32_t quant_bits(TensorType type) {
  return type == TensorType::kQ8_0 ? 8 : 4;
}

// Where weight k of a row lies among the quants of its block: which 32-bit word, and from which bit on.
struct QuantPlace {
  size_t word;
  uint32_t shift;
};

QuantPlace quant_place(TensorType type, uint32_t k, uint32_t row_in_tile) {
  const uint32_t group_k = 32 / quant_bits(type);
  return {size_t{k / group_k} * kTileRows + row_in_tile, k % group_k * quant_bits(type)};
}

// Bytes of a tile's block of 32 k.
size_t tile_block_bytes(TensorType type) {
  return size_t{block_bytes(type)} * kTileRows;
}

// Puts one row of the file into its place in a tile that is all zeros.
void place_quantised_row(TensorType type, const std::byte* row, uint32_t num_blocks, uint32_t row_in_tile,
                         std::byte* tile) {
  std::array<int8_t, kBlockColumns> quants;
  const uint32_t mask = (uint32_t{1} << quant_bits(type)) - 1;
  for (uint32_t block = 0; block < num_blocks; ++block) {
    const std::byte* from = row + size_t{block} * block_bytes(type);
    std::byte* to = tile + block * tile_block_bytes(type);
    for (uint32_t i = 0; i < num_scales(type); ++i) {
      std::memcpy(to + i * kScalesBytes + row_in_tile * 2, from + i * 2, 2);
    }
    unpack_block(type, from, quants);
    auto* words = reinterpret_cast<uint32_t*>(to + num_scales(type) * kScalesBytes);
    for (uint32_t k = 0; k < kBlockColumns; ++k) {
      const QuantPlace place = quant_place(type, k, row_in_tile);
      words[place.word] |= (static_cast<uint32_t>(quants[k]) & mask) << place.shift;
    }
  }
}

void place_float_row(const std::byte* row, uint32_t columns, size_t value_bytes, uint32_t row_in_tile,
                     std::byte* tile) {
  for (size_t k = 0; k < columns; ++k) {
    std::memcpy(tile + (k * kTileRows + row_in_tile) * value_bytes, row + k * value_bytes, value_bytes);
  }
}

float copy_quantised(TensorType type, const std::byte* block, uint32_t k, uint32_t row_in_tile) {
  const auto half_at = [&](uint32_t index) {
    uint16_t half;
    std::memcpy(&half, block + index * kScalesBytes + row_in_tile * 2, 2);
    return half_to_float(half);
  };
  const auto* words = reinterpret_cast<const uint32_t*>(block + num_scales(type) * kScalesBytes);
  const QuantPlace place = quant_place(type, k, row_in_tile);
  const uint32_t bits = words[place.word] >> place.shift;
  switch (type) {
    case TensorType::kQ4_0:
      return half_at(0) * static_cast<float>(static_cast<int32_t>(bits << 28) >> 28);
    case TensorType::kQ4_1:
      return half_at(0) * static_cast<float>(bits & 15) + half_at(1);
    default:
      return half_at(0) * static_cast<float>(static_cast<int8_t>(bits & 255));
  }
}

}  // namespace

uint32_t StackedMatrix::rows() const {
  uint32_t sum = 0;
  for (const TiledMatrix& part : parts) sum += part.rows();
  return sum;
}

Result<TiledMatrix> TiledMatrix::from_tensor(const TensorView& tensor, ThreadPool& threads) {
  constexpr uint64_t kMaxSize = uint64_t{1} << 30;  // of either side: indices stay in 32 bits
  if (tensor.num_dims != 2 || tensor.rows() > kMaxSize || tensor.columns() > kMaxSize) {
    return Error{ExitCode::kBadModel,
                 "tensor " + quoted(tensor.name) + " is no matrix of a size that can be multiplied."};
  }
  const auto rows = static_cast<uint32_t>(tensor.rows());
  const auto columns = static_cast<uint32_t>(tensor.columns());
  const size_t row_bytes = size_t{columns} / block_weights(tensor.type) * block_bytes(tensor.type);
  CHECK(tensor.data.size() == row_bytes * rows);

  TiledMatrix matrix;
  matrix.rows_ = rows;
  const size_t tile_bytes = row_bytes * kTileRows;
  Result<Memory> memory = Memory::allocate(tile_bytes * matrix.num_tiles(), "tensor " + quoted(tensor.name));
  if (!memory) return memory.error();
  matrix.memory_ = *std::move(memory);
  matrix.weights_ = {tensor.type, matrix.memory_.data(), tile_bytes, columns};

  threads.parallel_for(matrix.num_tiles(), [&](uint32_t tile) {
    std::byte* to = matrix.memory_.data() + tile * tile_bytes;
    const uint32_t first = tile * kTileRows;
    for (uint32_t row = first; row < std::min(first + kTileRows, rows); ++row) {
      const std::byte* from = tensor.data.data() + row * row_bytes;
      if (is_quantised(tensor.type)) {
        place_quantised_row(tensor.type, from, columns / kBlockColumns, row - first, to);
      } else {
        place_float_row(from, columns, block_bytes(tensor.type), row - first, to);
      }
    }
  });
  return matrix;
}

void TiledMatrix::copy_row(uint32_t row, std::span<float> out) const {
  CHECK(row < rows_ && out.size() == columns());
  const std::byte* tile = weights_.tiles + row / kTileRows * weights_.tile_bytes;
  const uint32_t row_in_tile = row % kTileRows;
  for (uint32_t k = 0; k < columns(); ++k) {
    if (is_quantised(weights_.type)) {
      const std::byte* block = tile + k / kBlockColumns * tile_block_bytes(weights_.type);
      out[k] = copy_quantised(weights_.type, block, k % kBlockColumns, row_in_tile);
    } else {
      const size_t value_bytes = block_bytes(weights_.type);
      const std::byte* value = tile + (size_t{k} * kTileRows + row_in_tile) * value_bytes;
      dequantize_row(weights_.type, {value, value_bytes}, out.subspan(k, 1));
    }
  }
}

}  // namespace runnel
