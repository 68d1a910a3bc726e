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
  // Blocks of the cache that another process has left there, if it is of this shape but for their number;
  // otherwise 0.
  static uint32_t kept_blocks(const SealedMemory& memory, KvIndexShape shape);
  // Maps the memory for a cache of this shape. Fails with kTryAgain if the memory is too small, and with
  // kSystem.
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
