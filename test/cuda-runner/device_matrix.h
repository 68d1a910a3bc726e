// A random matrix, in the layout of files and on the device.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cuda-runner/kernels/product.h"
#include "cuda-runner/packed_tensor.h"
#include "test/cuda-runner/on_device.h"
#include "test/fixtures/gguf_writer.h"

namespace runnel::test {

struct RandomMatrix {
  RandomMatrix(const TestStream& stream, TensorType type, uint32_t rows, uint32_t columns, std::mt19937& rng)
      : data(random_weights(type, uint64_t{rows} * columns, 0.3f, rng)),
        tensor{"t", type, 2, {columns, rows, 1, 1}, std::as_bytes(std::span(data))} {
    const PackedTensor packed({&tensor, 1});
    std::vector<uint32_t> all_quants;
    std::vector<uint16_t> all_scales;
    std::vector<uint32_t> tile_quants(packed.num_quant_words());
    std::vector<uint16_t> tile_scales(packed.num_scales());
    for (uint32_t tile = 0; tile < packed.num_tiles(); ++tile) {
      packed.pack(tile, tile_quants, tile_scales);
      all_quants.insert(all_quants.end(), tile_quants.begin(), tile_quants.end());
      all_scales.insert(all_scales.end(), tile_scales.begin(), tile_scales.end());
    }
    quants = std::make_unique<DeviceArray<uint32_t>>(stream, all_quants);
    scales = std::make_unique<DeviceArray<uint16_t>>(stream, all_scales);
  }

  DeviceMatrix on_device() const {
    return {tensor.type, static_cast<uint32_t>(tensor.rows()), static_cast<uint32_t>(tensor.columns()),
            quants->read_view(), scales->read_view()};
  }
  std::span<const std::byte> row(uint32_t index) const {
    const size_t bytes = data.size() / tensor.rows();
    return tensor.data.subspan(index * bytes, bytes);
  }

  std::string data;
  TensorView tensor;
  std::unique_ptr<DeviceArray<uint32_t>> quants;
  std::unique_ptr<DeviceArray<uint16_t>> scales;
};

}  // namespace runnel::test
