#include "cuda-runner/weight_upload.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cuda-runner/packed_tensor.h"
#include "runner/check.h"
#include "runner/formats/in_quotes.h"

namespace runnel {
namespace {

constexpr size_t kPieceAlignment = 16;

// Adds the time of its life to a sum.
class Waiting {
 public:
  explicit Waiting(std::chrono::nanoseconds& sum) : sum_(sum) {}
  ~Waiting() { sum_ += std::chrono::steady_clock::now() - began_at_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::chrono::nanoseconds& sum_;
  const std::chrono::steady_clock::time_point began_at_ = std::chrono::steady_clock::now();
};

size_t tile_bytes_of(const PackedTensor& packed) {
  return packed.num_quant_words() * sizeof(uint32_t) + packed.num_scales() * sizeof(uint16_t);
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

Result<WeightUpload> WeightUpload::create(Stream& stream, uint32_t num_threads) {
  WeightUpload upload(stream);
  Result<std::unique_ptr<PackingThreads>> threads = PackingThreads::start(num_threads);
  if (!threads) return threads.error();
  upload.threads_ = *std::move(threads);
  if (const auto room = upload.make_room(kPieceBytes); !room) return room.error();
  return upload;
}

Result<void> WeightUpload::make_room(size_t piece_bytes) {
  if (piece_bytes <= piece_bytes_) return {};
  for (size_t piece = 0; piece < kPieces; ++piece) wait_for_copy(piece);
  memory_ = PinnedBuffer<std::byte>();
  piece_bytes_ = (piece_bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
  Result<PinnedBuffer<std::byte>> memory =
      PinnedBuffer<std::byte>::allocate(kPieces * piece_bytes_, "the upload of weights");
  if (!memory) return memory.error();
  memory_ = *std::move(memory);
  return {};
}

template <typename T>
std::span<T> WeightUpload::memory_of(size_t piece, size_t first_byte, size_t count) {
  const std::span<std::byte> bytes = memory_.span().subspan(piece * piece_bytes_, piece_bytes_);
  return {reinterpret_cast<T*>(bytes.subspan(first_byte, count * sizeof(T)).data()), count};
}

void WeightUpload::wait_for_copy(size_t piece) {
  if (!pieces_[piece].is_used) return;
  const Waiting waiting(waited_for_copies_);
  pieces_[piece].copied.synchronize();
}

void WeightUpload::mark_used(size_t piece) {
  pieces_[piece].copied.record(*stream_);
  pieces_[piece].is_used = true;
}

Result<DeviceBuffer<float>> WeightUpload::vector(const std::string& name, std::span<const float> values) {
  Result<DeviceBuffer<float>> buffer =
      DeviceBuffer<float>::allocate(values.size(), "tensor " + in_quotes(name));
  if (!buffer) return buffer.error();
  if (const auto room = make_room(values.size_bytes()); !room) return room.error();
  const size_t piece = std::exchange(next_, (next_ + 1) % kPieces);
  wait_for_copy(piece);
  const std::span<float> memory = memory_of<float>(piece, 0, values.size());
  std::ranges::copy(values, memory.begin());
  stream_->upload(*buffer, 0, PinnedPart<float>{memory});
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
  if (const auto room = make_room(tile_bytes_of(packed)); !room) return room.error();

  // Each piece has the quants of its tiles, then their scales.
  const auto piece_tiles = static_cast<uint32_t>(piece_bytes_ / tile_bytes_of(packed));
  const uint32_t num_pieces = (packed.num_tiles() + piece_tiles - 1) / piece_tiles;
  const auto number_of = [&](uint32_t piece) { return (next_ + piece) % kPieces; };
  const auto end_of = [&](uint32_t piece) { return std::min((piece + 1) * piece_tiles, packed.num_tiles()); };
  const auto quants_of = [&](uint32_t piece, uint32_t first, uint32_t count) {
    return memory_of<uint32_t>(number_of(piece), first * tile_quants * sizeof(uint32_t), count * tile_quants);
  };
  const auto scales_of = [&](uint32_t piece, uint32_t first, uint32_t count) {
    const size_t first_byte = piece_tiles * tile_quants * sizeof(uint32_t);
    return memory_of<uint16_t>(number_of(piece), first_byte + first * tile_scales * sizeof(uint16_t),
                               count * tile_scales);
  };
  threads_->begin(packed.num_tiles(), [&](uint32_t tile) {
    const uint32_t piece = tile / piece_tiles;
    packed.pack(tile, quants_of(piece, tile % piece_tiles, 1), scales_of(piece, tile % piece_tiles, 1));
  });
  uint32_t num_allowed = 0;
  for (uint32_t piece = 0; piece < num_pieces; ++piece) {
    // The copy of the piece before is not waited for, so that the device always has one.
    for (; num_allowed < num_pieces && num_allowed + 1 < piece + kPieces; ++num_allowed)
      wait_for_copy(number_of(num_allowed));
    threads_->allow(end_of(num_allowed - 1));
    {
      const Waiting waiting(waited_for_packing_);
      threads_->wait_for(end_of(piece));
    }
    const uint32_t first = piece * piece_tiles;
    const uint32_t count = end_of(piece) - first;
    stream_->upload(*quants, first * tile_quants, PinnedPart<uint32_t>{quants_of(piece, 0, count)});
    if (tile_scales > 0)
      stream_->upload(*scales, first * tile_scales, PinnedPart<uint16_t>{scales_of(piece, 0, count)});
    mark_used(number_of(piece));
  }
  next_ = number_of(num_pieces);
  return UploadedMatrix{.type = packed.type(),
                        .rows = packed.rows(),
                        .columns = packed.columns(),
                        .quants = *std::move(quants),
                        .scales = *std::move(scales)};
}

}  // namespace runnel
