// Weights on the device have the bytes that packing one tile after the other gives.
#include <numeric>
#include <random>

#include "cuda-runner/packed_tensor.h"
#include "cuda-runner/weight_upload.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

struct RandomMatrix {
  RandomMatrix(TensorType type, uint64_t rows, uint64_t columns)
      : data(rows * columns / block_weights(type) * block_bytes(type)),
        view{"blk.0.weight", type, 2, {columns, rows, 1, 1}, data} {
    std::mt19937 random(static_cast<uint32_t>(rows));
    for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  }

  std::vector<std::byte> data;
  TensorView view;
};

template <typename T>
std::vector<T> values_of(Stream& stream, const DeviceBuffer<T>& buffer) {
  std::vector<T> values(buffer.size());
  if (!values.empty()) stream.download(std::span(values), buffer, 0);
  stream.synchronize();
  return values;
}

bool is_as_packed(Stream& stream, const UploadedMatrix& uploaded, const TensorView& tensor) {
  const PackedTensor packed({&tensor, 1});
  std::vector<uint32_t> quants(packed.num_tiles() * packed.num_quant_words());
  std::vector<uint16_t> scales(packed.num_tiles() * packed.num_scales());
  for (uint32_t tile = 0; tile < packed.num_tiles(); ++tile)
    packed.pack(tile, std::span(quants).subspan(tile * packed.num_quant_words(), packed.num_quant_words()),
                std::span(scales).subspan(tile * packed.num_scales(), packed.num_scales()));
  return values_of(stream, uploaded.quants) == quants && values_of(stream, uploaded.scales) == scales;
}

TEST_CASE("weight upload: matrices of any size arrive, whatever the number of threads") {
  using enum TensorType;
  constexpr size_t kWordBytes = 4;
  const RandomMatrix matrices[] = {
      {kQ4_0, 1, 32},
      // Each piece is used more than twice.
      {kQ4_1, 110 * 32 * WeightUpload::kPieces + 5, 1024},
      // A tile with more bytes than a piece.
      {kF32, 70, 2 * WeightUpload::kPieceBytes / kWarpTileRows / kWordBytes},
      {kQ8_0, 100, 64},
      {kQ4_K, 1000, 512},
      {kF16, 33, 8},
  };
  for (const uint32_t num_threads : {1u, 5u}) {
    CAPTURE(num_threads);
    Stream stream;
    Result<WeightUpload> upload = WeightUpload::create(stream, num_threads);
    REQUIRE(upload);
    std::vector<UploadedMatrix> uploaded;
    std::vector<float> norm(300);
    for (size_t i = 0; i < norm.size(); ++i) norm[i] = static_cast<float>(i);
    std::vector<DeviceBuffer<float>> norms;
    for (const RandomMatrix& matrix : matrices) {
      uploaded.push_back(*upload->matrix({&matrix.view, 1}));
      norms.push_back(*upload->vector("norm", norm));
    }
    for (size_t i = 0; i < uploaded.size(); ++i) {
      CAPTURE(i);
      CHECK(is_as_packed(stream, uploaded[i], matrices[i].view));
      CHECK(values_of(stream, norms[i]) == norm);
    }
  }
}

TEST_CASE("weight upload: a vector that is longer than a piece arrives, and so does what follows") {
  Stream stream;
  Result<WeightUpload> upload = WeightUpload::create(stream, 2);
  REQUIRE(upload);
  std::vector<float> values(WeightUpload::kPieceBytes / sizeof(float) + 1);
  std::iota(values.begin(), values.end(), 0.0f);
  const RandomMatrix matrix(TensorType::kQ4_1, 100, 64);
  const DeviceBuffer<float> vector = *upload->vector("long", values);
  const UploadedMatrix uploaded = *upload->matrix({&matrix.view, 1});
  CHECK(values_of(stream, vector) == values);
  CHECK(is_as_packed(stream, uploaded, matrix.view));
}

}  // namespace
}  // namespace runnel
