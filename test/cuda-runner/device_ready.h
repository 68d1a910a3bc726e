// Rows on the device that are ready for a product.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "cuda-runner/kernels/ready_rows.h"
#include "test/cuda-runner/on_device.h"
#include "test/fixtures/product_reference.h"

namespace runnel::test {

inline std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

struct DeviceReady {
  DeviceReady(const TestStream& stream, const reference::Ready& ready)
      : width(ready.width),
        stride(ready.stride),
        capacity(capacity_of(num_rows_of(ready))),
        values(stream, ready.values),
        quants(stream, bytes_by_block(ready)),
        scales(stream, by_block(ready, ready.scales)),
        scaled_sums(stream, by_block(ready, scaled_sums_of(ready))),
        half_sums(stream, by_block(ready, ready.half_sums)) {}
  DeviceReady(const TestStream& stream, uint32_t width_of, uint32_t num_rows)
      : DeviceReady(stream, reference::ready(std::vector<float>(size_t{num_rows} * width_of), width_of)) {}

  ReadyRows view() const {
    return {.values = values.view(),
            .quants = quants.view(),
            .scales = scales.view(),
            .scaled_sums = scaled_sums.view(),
            .half_sums = half_sums.view(),
            .width = width,
            .stride = stride,
            .row_capacity = capacity};
  }

  // Whether all bits are equal.
  bool is(const reference::Ready& wanted) const {
    return bits_of(values.values()) == bits_of(wanted.values) && quants.values() == bytes_by_block(wanted) &&
           bits_of(scales.values()) == bits_of(by_block(wanted, wanted.scales)) &&
           bits_of(scaled_sums.values()) == bits_of(by_block(wanted, scaled_sums_of(wanted))) &&
           half_sums.values() == by_block(wanted, wanted.half_sums);
  }

  static uint32_t capacity_of(uint32_t num_rows) {
    return (num_rows + kRowGroup - 1) / kRowGroup * kRowGroup;
  }
  static uint32_t num_rows_of(const reference::Ready& ready) {
    return static_cast<uint32_t>(ready.values.size() / ready.stride);
  }
  // (num_rows, blocks) as (blocks, capacity).
  template <typename T>
  static std::vector<T> by_block(const reference::Ready& ready, const std::vector<T>& rows) {
    const uint32_t num_rows = num_rows_of(ready);
    const uint32_t num_blocks = ready.stride / kBlockColumns;
    std::vector<T> blocks(size_t{num_blocks} * capacity_of(num_rows));
    for (uint32_t row = 0; row < num_rows; ++row)
      for (uint32_t block = 0; block < num_blocks; ++block)
        blocks[size_t{block} * capacity_of(num_rows) + row] = rows[size_t{row} * num_blocks + block];
    return blocks;
  }
  static std::vector<int8_t> bytes_by_block(const reference::Ready& ready) {
    const uint32_t num_rows = num_rows_of(ready);
    std::vector<int8_t> bytes(size_t{ready.stride} * capacity_of(num_rows));
    for (size_t i = 0; i < ready.quants.size(); ++i) {
      const size_t row = i / ready.stride;
      const uint32_t column = i % ready.stride;
      const size_t block = size_t{column / kBlockColumns} * capacity_of(num_rows) + row;
      bytes[block * kBlockColumns + ready_byte(column % kBlockColumns)] = ready.quants[i];
    }
    return bytes;
  }
  static std::vector<float> scaled_sums_of(const reference::Ready& ready) {
    std::vector<float> scaled;
    for (size_t i = 0; i < ready.sums.size(); ++i)
      scaled.push_back(ready.scales[i] * static_cast<float>(ready.sums[i]));
    return scaled;
  }

  uint32_t width;
  uint32_t stride;
  uint32_t capacity;
  DeviceArray<float> values;
  DeviceArray<int8_t> quants;
  DeviceArray<float> scales;
  DeviceArray<float> scaled_sums;
  DeviceArray<int32_t> half_sums;
};

}  // namespace runnel::test
