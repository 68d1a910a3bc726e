#include "cuda-runner/kv_memory.h"

#include <bit>
#include <string>
#include <utility>

#include "runner/check.h"

namespace runnel {
namespace {

// Without its memory.
DeviceKv layout_of(const KvShape& shape, KvType type) {
  DeviceKv kv{};
  kv.type = type;
  kv.num_kv_heads = shape.num_kv_heads;
  kv.head_dim = shape.head_dim;
  kv.block_shift = static_cast<uint32_t>(std::countr_zero(shape.block_size));
  kv.num_blocks = shape.num_blocks + 1;
  return kv;
}

}  // namespace

uint64_t KvMemory::block_bytes(const KvShape& shape, KvType type) {
  return uint64_t{2} * shape.num_layers * shape.num_kv_heads * layout_of(shape, type).run_bytes();
}

Result<KvMemory> KvMemory::allocate(const KvShape& shape, KvType type, Stream& stream) {
  CHECK(std::has_single_bit(shape.block_size) && shape.block_size >= 8 && shape.block_size <= 256);
  CHECK(shape.num_blocks > 0 && shape.max_positions > 0);
  if (shape.head_dim > kMaxDeviceHeadDim) {
    return Error{ExitCode::kBadModel, "The model has attention heads of " + std::to_string(shape.head_dim) +
                                          " values; the GPU backend supports at most " +
                                          std::to_string(kMaxDeviceHeadDim) + "."};
  }
  if (type == KvType::kQ8_0 && shape.head_dim % kKvScaleColumns != 0) {
    return Error{ExitCode::kUsage, "--kv-cache-type is q8_0, which stores heads in blocks of " +
                                       std::to_string(kKvScaleColumns) + " values; the model's have " +
                                       std::to_string(shape.head_dim) + ". Start with f16 or f32."};
  }
  uint64_t bytes;
  if (__builtin_mul_overflow(block_bytes(shape, type), uint64_t{shape.num_blocks} + 1, &bytes)) {
    return Error{ExitCode::kSystem, "A KV cache of " + std::to_string(shape.num_blocks) + " blocks of " +
                                        std::to_string(block_bytes(shape, type)) +
                                        " bytes is larger than any memory."};
  }
  Result<DeviceBuffer<uint8_t>> memory = DeviceBuffer<uint8_t>::allocate(bytes, "the KV cache");
  if (!memory) return memory.error();
  stream.fill_with_zeros(*memory);
  return KvMemory(shape, type, *std::move(memory));
}

DeviceKv KvMemory::view() {
  DeviceKv kv = layout_of(shape_, type_);
  kv.bytes = bytes_.view();
  return kv;
}

}  // namespace runnel
