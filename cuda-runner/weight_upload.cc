#include "cuda-runner/weight_upload.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cuda-runner/packed_tensor.h"
#include "runner/check.h"
#include "runner/formats/in_quotes.h"

namespace runnel {
namespace {

// The bytes of one copy. A larger tile is copied as a whole all the same.
constexpr size_t kCopyBytes = size_t{1} << 20;
constexpr const char* kWhat = "the upload of weights";

template <typename T>
Result<void> grow(PinnedBuffer<T>& buffer, size_t count) {
  if (buffer.span().size() >= count) return {};
  Result<PinnedBuffer<T>> larger = PinnedBuffer<T>::allocate(count, kWhat);
  if (!larger) return larger.error();
  buffer = *std::move(larger);
  return {};
}

}  // namespace

DeviceMatrix UploadedMatrix::view_of(uint32_t first, uint32_t count) const {
  CHECK(first % kWarpTileRows == 0 && first <= rows && count <= rows - first);
  const auto tiles = [](uint32_t num_rows) { return (num_rows + kWarpTileRows - 1) / kWarpTileRows; };
  const auto part_of = [&](const auto& buffer) {
    const size_t tile_size = buffer.size() / tiles(rows);
    return buffer.view().from(tiles(first) * tile_size, tiles(count) * tile_size);
  };
  return {type, count, columns, part_of(quants), part_of(scales)};
}

Result<WeightUpload> WeightUpload::create(Stream& stream) {
  WeightUpload upload(stream);
  for (Piece& piece : upload.pieces_) {
    if (const auto grown = upload.make_room(piece, kCopyBytes / sizeof(uint32_t), 0); !grown)
      return grown.error();
  }
  return upload;
}

Result<void> WeightUpload::make_room(Piece& piece, size_t num_quant_words, size_t num_scales) {
  if (const auto grown = grow(piece.quants, num_quant_words); !grown) return grown;
  return grow(piece.scales, num_scales);
}

void WeightUpload::wait_for(Piece& piece) {
  if (piece.is_used) piece.copied.synchronize();
}

void WeightUpload::mark_used(Piece& piece) {
  piece.copied.record(*stream_);
  piece.is_used = true;
}

Result<DeviceBuffer<float>> WeightUpload::vector(const std::string& name, std::span<const float> values) {
  Result<DeviceBuffer<float>> buffer =
      DeviceBuffer<float>::allocate(values.size(), "tensor " + in_quotes(name));
  if (!buffer) return buffer.error();
  Piece& piece = pieces_.front();
  wait_for(piece);
  if (const auto grown = grow(piece.values, values.size()); !grown) return grown.error();
  std::ranges::copy(values, piece.values.span().begin());
  stream_->upload(*buffer, 0, piece.values.part(0, values.size()));
  mark_used(piece);
  return buffer;
}

uint64_t WeightUpload::bytes_of(std::span<const TensorView> stacked) {
  const PackedTensor packed(stacked);
  return device_bytes(packed.num_quant_words() * packed.num_tiles(), sizeof(uint32_t)) +
         device_bytes(packed.num_scales() * packed.num_tiles(), sizeof(uint16_t));
}

Result<UploadedMatrix> WeightUpload::matrix(std::span<const TensorView> stacked) {
  const PackedTensor packed(stacked);
  const size_t tile_quants = packed.num_quant_words();
  const size_t tile_scales = packed.num_scales();
  const std::string what = "tensor " + in_quotes(stacked.front().name);
  auto quants = DeviceBuffer<uint32_t>::allocate(tile_quants * packed.num_tiles(), what);
  if (!quants) return quants.error();
  auto scales = DeviceBuffer<uint16_t>::allocate(tile_scales * packed.num_tiles(), what);
  if (!scales) return scales.error();

  const size_t tile_bytes = tile_quants * sizeof(uint32_t) + tile_scales * sizeof(uint16_t);
  const auto tiles_at_once = static_cast<uint32_t>(std::max<size_t>(kCopyBytes / tile_bytes, 1));
  for (uint32_t first = 0, turn = 0; first < packed.num_tiles(); first += tiles_at_once, ++turn) {
    const uint32_t count = std::min(tiles_at_once, packed.num_tiles() - first);
    Piece& piece = pieces_[turn % pieces_.size()];
    wait_for(piece);
    if (const auto grown = make_room(piece, tile_quants * count, tile_scales * count); !grown)
      return grown.error();
    const std::span<uint32_t> piece_quants = piece.quants.span().first(tile_quants * count);
    const std::span<uint16_t> piece_scales = piece.scales.span().first(tile_scales * count);
    for (uint32_t i = 0; i < count; ++i) {
      packed.pack(first + i, piece_quants.subspan(i * tile_quants, tile_quants),
                  piece_scales.subspan(i * tile_scales, tile_scales));
    }
    stream_->upload(*quants, first * tile_quants, piece.quants.part(0, piece_quants.size()));
    if (tile_scales > 0)
      stream_->upload(*scales, first * tile_scales, piece.scales.part(0, piece_scales.size()));
    mark_used(piece);
  }
  return UploadedMatrix{.type = packed.type(),
                        .rows = packed.rows(),
                        .columns = packed.columns(),
                        .quants = *std::move(quants),
                        .scales = *std::move(scales)};
}

}  // namespace runnel
