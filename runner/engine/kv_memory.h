// The memory of a KV cache that outlives its runner, mapped by one.
#pragma once

#include <cstdint>
#include <memory>

#include "runner/engine/kv_index.h"
#include "runner/result.h"
#include "runner/system/sealed_memory.h"

namespace runnel {

class KvMemory {
 public:
  // Maps the memory for a cache of this shape. If it has one of the same shape but for the number of blocks,
  // that number is kept: the runner before has chosen it. Fails with kTryAgain if the memory is too small,
  // and with kSystem.
  static Result<std::unique_ptr<KvMemory>> open(const SealedMemory& memory, const KvIndexShape& shape);

  KvIndex& index() { return index_; }
  std::span<std::byte> blocks() const { return blocks_.bytes(); }

 private:
  KvMemory(SharedMapping index, SharedMapping blocks, const KvIndexShape& shape)
      : index_mapping_(std::move(index)),
        blocks_(std::move(blocks)),
        index_(index_mapping_.bytes(), blocks_.bytes(), shape) {}

  SharedMapping index_mapping_;
  SharedMapping blocks_;
  KvIndex index_;
};

}  // namespace runnel
