#include "cpu-runner/matrix/matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "cpu-runner/matrix/product_pieces.h"
#include "runner/check.h"
#include "runner/formats/dequantize.h"
#include "runner/formats/in_quotes.h"
#include "runner/formats/quant_block_reader.h"

namespace runnel {
namespace {

constexpr uint32_t kSegmentBlocks = kSegmentColumns / kBlockColumns;
static_assert(kBlockColumns == kQuantBlockWeights);

// Where the parts of a block of one row lie in a tile.
template <TensorType kType>
class BlockPlace {
 public:
  BlockPlace(size_t block, uint32_t row)
      : segment_(block / kSegmentBlocks * kLayout.segment()),
        block_(segment_ + kLayout.head + block % kSegmentBlocks * kLayout.block),
        row_(row) {}

  // Calls copy(offset in the tile, part of the block) for each part. copy may read or write the part.
  template <typename Block, typename Copy>
  void for_each_part(Block& block, std::array<uint8_t, 2>& sub_scales, QuantWords<kType>& words,
                     const Copy& copy) const {
    const size_t scale = (kNumSubScales > 0 ? segment_ : block_) + row_ * sizeof(uint16_t);
    copy(scale, block.scale);
    if constexpr (kFormat.has_minimum) copy(scale + kLayout.minima, block.minimum);
    if constexpr (kNumSubScales == 1) copy(block_ + row_, sub_scales[0]);
    if constexpr (kNumSubScales == 1 && kFormat.has_minimum)
      copy(block_ + kLayout.sub_minima + row_, sub_scales[1]);
    if constexpr (kNumSubScales == 2) copy(block_ + 2 * row_, sub_scales);
    for (size_t i = 0; i < words.size(); ++i)
      copy(block_ + kLayout.words + (i * kTileRows + row_) * sizeof(uint32_t), words[i]);
  }

 private:
  static constexpr QuantFormat kFormat = quant_format(kType);
  static constexpr SegmentLayout kLayout = segment_layout(kFormat);
  static constexpr uint32_t kNumSubScales = kFormat.num_sub_scales;

  size_t segment_;
  size_t block_;
  size_t row_;
};

template <TensorType kType>
void place_block(size_t index, uint32_t row, const QuantBlock& block, std::byte* tile) {
  std::array<uint8_t, 2> sub_scales = pack_sub_scales<kType>(block);
  QuantWords<kType> words = pack_codes<kType>(block);
  BlockPlace<kType>(index, row).for_each_part(block, sub_scales, words, [&](size_t to, const auto& part) {
    std::memcpy(tile + to, &part, sizeof(part));
  });
}

template <TensorType kType>
QuantBlock block_at(size_t index, uint32_t row, const std::byte* tile) {
  QuantBlock block{};
  std::array<uint8_t, 2> sub_scales = pack_sub_scales<kType>({});
  QuantWords<kType> words;
  BlockPlace<kType>(index, row).for_each_part(block, sub_scales, words, [&](size_t from, auto& part) {
    std::memcpy(&part, tile + from, sizeof(part));
  });
  unpack_sub_scales<kType>(sub_scales, block);
  unpack_codes<kType>(words, block);
  return block;
}

// rows: the rows of the file, from the first row of the tile on.
void place_blocks(const TiledWeights& weights, const std::byte* rows, size_t row_bytes, uint32_t num_rows,
                  std::byte* tile) {
  with_quantised_type(weights.type, [&](auto type) {
    for (size_t block = 0; block < weights.columns / kBlockColumns; ++block) {
      for (uint32_t row = 0; row < num_rows; ++row)
        place_block<type>(block, row, read_block<type>(rows + row * row_bytes, block), tile);
    }
  });
}

void place_values(const TiledWeights& weights, const std::byte* rows, size_t row_bytes, uint32_t num_rows,
                  std::byte* tile) {
  const size_t value_bytes = block_bytes(weights.type);
  for (size_t k = 0; k < weights.columns; ++k) {
    for (uint32_t row = 0; row < num_rows; ++row) {
      std::memcpy(tile + (k * kTileRows + row) * value_bytes, rows + row * row_bytes + k * value_bytes,
                  value_bytes);
    }
  }
}

size_t tile_bytes_of(TensorType type, uint32_t columns) {
  if (!is_quantised(type)) return size_t{columns} * kTileRows * block_bytes(type);
  return with_quantised_type(type, [&](auto constant) -> size_t {
    constexpr SegmentLayout kLayout = segment_layout(quant_format(constant));
    const size_t num_segments = (size_t{columns} + kSegmentColumns - 1) / kSegmentColumns;
    return num_segments * kLayout.head + columns / kBlockColumns * size_t{kLayout.block};
  });
}

}  // namespace

uint32_t StackedMatrix::rows() const {
  uint32_t sum = 0;
  for (const TiledMatrix& part : parts) sum += part.rows();
  return sum;
}

Result<uint64_t> TiledMatrix::bytes_of(const TensorView& tensor) {
  constexpr uint64_t kMaxSize = uint64_t{1} << 30;  // limit of rows and columns, so that indices fit 32 bits
  if (tensor.num_dims != 2 || tensor.rows() > kMaxSize || tensor.columns() > kMaxSize) {
    return Error{ExitCode::kBadModel, "tensor " + in_quotes(tensor.name) +
                                          " must have two dimensions of at most " + std::to_string(kMaxSize) +
                                          "."};
  }
  const uint64_t num_tiles = (tensor.rows() + kTileRows - 1) / kTileRows;
  return WeightArena::bytes_taken(tile_bytes_of(tensor.type, static_cast<uint32_t>(tensor.columns())) *
                                  num_tiles);
}

Result<TiledMatrix> TiledMatrix::from_tensor(const TensorView& tensor, WeightArena& arena,
                                             ThreadPool& threads) {
  const Result<uint64_t> bytes = bytes_of(tensor);
  if (!bytes) return bytes.error();
  TiledMatrix matrix;
  matrix.rows_ = static_cast<uint32_t>(tensor.rows());
  const auto columns = static_cast<uint32_t>(tensor.columns());
  matrix.weights_ = {.type = tensor.type,
                     .tiles = nullptr,
                     .tile_bytes = tile_bytes_of(tensor.type, columns),
                     .columns = columns};
  const TiledWeights& weights = matrix.weights_;
  const size_t row_bytes = size_t{columns} / block_weights(tensor.type) * block_bytes(tensor.type);
  const Result<std::byte*> tiles =
      arena.take(*bytes, "tensor " + in_quotes(tensor.name), tensor.num_sections);
  if (!tiles) return tiles.error();
  matrix.weights_.tiles = *tiles;
  if (arena.is_filled()) return matrix;

  CHECK(tensor.data.size() == row_bytes * matrix.rows_ && matrix.rows_ % tensor.num_sections == 0);
  // Memory comes from the node whose thread writes to it first, so each node packs its own tiles.
  const uint32_t section_rows = matrix.rows_ / tensor.num_sections;
  std::vector<PieceList::Product> sections;
  for (uint32_t section = 0; section < tensor.num_sections; ++section)
    sections.push_back({{section * section_rows, section_rows}, {0, 1}});
  const PieceList pieces(sections, threads.num_nodes());
  threads.run_on_nodes(pieces.ends(), [&](uint32_t index, uint32_t) {
    const Piece piece = pieces[index].piece;
    const std::byte* rows = tensor.data.data() + size_t{piece.tile} * kTileRows * row_bytes;
    std::byte* to = *tiles + piece.tile * weights.tile_bytes;
    const auto place = is_quantised(weights.type) ? place_blocks : place_values;
    place(weights, rows, row_bytes, piece.num_outputs, to);
  });
  return matrix;
}

void TiledMatrix::copy_row(uint32_t row, std::span<float> out) const {
  CHECK(row < rows_ && out.size() == columns());
  const std::byte* tile = weights_.tiles + row / kTileRows * weights_.tile_bytes;
  const uint32_t row_in_tile = row % kTileRows;
  if (!is_quantised(weights_.type)) {
    const size_t value_bytes = block_bytes(weights_.type);
    for (size_t k = 0; k < columns(); ++k) {
      const std::byte* value = tile + (k * kTileRows + row_in_tile) * value_bytes;
      dequantize_row(weights_.type, {value, value_bytes}, out.subspan(k, 1));
    }
    return;
  }
  with_quantised_type(weights_.type, [&](auto type) {
    for (size_t block = 0; block < columns() / kBlockColumns; ++block) {
      dequantize_block(type, block_at<type>(block, row_in_tile, tile),
                       out.subspan(block * kBlockColumns).first<kBlockColumns>());
    }
  });
}

}  // namespace runnel
