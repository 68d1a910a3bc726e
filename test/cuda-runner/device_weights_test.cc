// Stacked matrices on the device: which of them become one, and that each of them can be found again.
#include "cuda-runner/device_weights.h"

#include <memory>
#include <numeric>
#include <random>

#include "cuda-runner/kernels/embed.h"
#include "test/cuda-runner/on_device.h"
#include "test/fixtures/gguf_writer.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kColumns = 256;

struct Matrix {
  Matrix(TensorType type, uint32_t rows, std::mt19937& rng)
      : data(random_weights(type, uint64_t{rows} * kColumns, 0.3f, rng)),
        tensor{"t", type, 2, {kColumns, rows, 1, 1}, std::as_bytes(std::span(data))} {}

  std::string data;
  TensorView tensor;
};

struct Stack {
  explicit Stack(std::initializer_list<std::pair<TensorType, uint32_t>> shapes) {
    std::mt19937 rng(7);
    for (const auto& [type, rows] : shapes) {
      matrices.push_back(std::make_unique<Matrix>(type, rows, rng));
      tensors.push_back(matrices.back()->tensor);
    }
    weights.emplace(*DeviceWeights::create(stream, 2));
    handle = *weights->add_matrix(tensors);
  }

  const StackedMatrix& on_device() const { return weights->matrix(handle); }
  std::vector<uint32_t> rows() const {
    std::vector<uint32_t> rows;
    for (const UploadedMatrix& matrix : on_device()) rows.push_back(matrix.rows);
    return rows;
  }

  std::vector<std::unique_ptr<Matrix>> matrices;
  std::vector<TensorView> tensors;
  mutable Stream stream;
  std::optional<DeviceWeights> weights;
  WeightHandle handle;
};

TEST_CASE("device weights: adjacent matrices of one type are one, if each but the last fills its last tile") {
  using enum TensorType;
  CHECK(Stack({{kQ4_0, 128}, {kQ4_0, 64}, {kQ4_0, 40}}).rows() == std::vector<uint32_t>{232});
  CHECK(Stack({{kQ4_0, 128}, {kQ4_0, 64}, {kQ8_0, 64}}).rows() == std::vector<uint32_t>{192, 64});
  CHECK(Stack({{kQ4_0, 128}, {kQ8_0, 64}, {kQ4_0, 64}}).rows() == std::vector<uint32_t>{128, 64, 64});
  CHECK(Stack({{kQ4_0, 72}, {kQ4_0, 72}}).rows() == std::vector<uint32_t>{72, 72});
  CHECK(Stack({{kF16, 64}, {kF16, 32}, {kF16, 32}}).rows() == std::vector<uint32_t>{128});
}

TEST_CASE("device weights: a matrix that takes more than 16 GiB is refused before its values are read") {
  const auto bytes_of_rows = [](uint64_t rows) {
    const TensorView tensor{"large", TensorType::kQ8_0, 2, {1u << 19, rows, 1, 1}, {}};
    return DeviceWeights::matrix_bytes({&tensor, 1});
  };
  CHECK(bytes_of_rows(28 * 1024));
  const Result<uint64_t> refused = bytes_of_rows(32 * 1024);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        "tensor \"large\" takes 18253611008 bytes on a device; a matrix may take 17179869184.");
}

// All weights of a matrix, as embeddings of its rows.
std::vector<float> weights_of(const DeviceMatrix& matrix) {
  const TestStream stream;
  std::vector<uint32_t> rows(matrix.rows);
  std::iota(rows.begin(), rows.end(), 0u);
  const DeviceArray<uint32_t> ids(stream, rows);
  const DeviceArray<float> out(stream, size_t{matrix.rows} * kColumns);
  require_success(embed({.tokens = matrix}, ids.read_view(), ids.read_view(), matrix.rows,
                        {out.view(), kColumns}, stream));
  return out.values();
}

TEST_CASE("device weights: each stacked matrix has the weights of one that is alone") {
  using enum TensorType;
  for (const TensorType type : {kQ4_0, kQ4_K, kF16, kQ2_K}) {
    CAPTURE(type_name(type));
    const Stack stack({{type, 128}, {type, 64}, {kQ8_0, 40}});
    uint32_t first_row = 0;
    uint64_t bytes = 0;
    for (const TensorView& tensor : stack.tensors) {
      DeviceWeights alone = *DeviceWeights::create(stack.stream, 2);
      const WeightHandle handle = *alone.add_matrix({&tensor, 1});
      stack.stream.synchronize();
      const auto num_rows = static_cast<uint32_t>(tensor.rows());
      const DeviceMatrix part = part_of(stack.on_device(), first_row, num_rows);
      CHECK(weights_of(part) == weights_of(alone.matrix(handle)[0].view()));
      first_row += num_rows;
      bytes += alone.num_bytes();
    }
    CHECK(stack.weights->num_bytes() == bytes);
    CHECK(*DeviceWeights::matrix_bytes(stack.tensors) <= bytes);
  }
}

}  // namespace
}  // namespace runnel
