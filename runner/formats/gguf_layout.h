// What those who read GGUF files and those who write them both know.
#pragma once

#include <cstdint>

namespace runnel {

// Types of metadata values, by the format's own numbers.
enum GgufType : uint32_t {
  kGgufUint8 = 0,
  kGgufInt8 = 1,
  kGgufUint16 = 2,
  kGgufInt16 = 3,
  kGgufUint32 = 4,
  kGgufInt32 = 5,
  kGgufFloat32 = 6,
  kGgufBool = 7,
  kGgufString = 8,
  kGgufArray = 9,
  kGgufUint64 = 10,
  kGgufInt64 = 11,
  kGgufFloat64 = 12,
};

// Of the tensors' data, where the metadata says nothing of it.
inline constexpr uint64_t kGgufDefaultAlignment = 32;

constexpr uint64_t aligned(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace runnel
