// The memory of a KV cache that outlives its runner, mapped by one.
#pragma once

#include <cstdint>
#include <memory>

#include "runner/engine/kv_index.h"
#include "runner/result.h"
#include "runner/system/memory.h"

namespace runnel {

class KvMapping {
 public:
  // Where the blocks of such a cache begin.
  static uint64_t blocks_offset(const KvIndexShape& shape);
  // Blocks of the cache that another process has left there, if it is of this shape but for their number;
  // otherwise 0.
  static uint32_t kept_blocks(const MemoryFile& memory, KvIndexShape shape);
  // Maps the memory for a cache of this shape. Fails with kTryAgain if the memory is too small, and with
  // kSystem.
  static Result<std::unique_ptr<KvMapping>> open(const MemoryFile& memory, const KvIndexShape& shape);

  KvIndex& index() { return index_; }
  std::span<std::byte> blocks() const { return blocks_.span(); }

 private:
  KvMapping(Memory index, Memory blocks, const KvIndexShape& shape)
      : index_mapping_(std::move(index)),
        blocks_(std::move(blocks)),
        index_(index_mapping_.span(), blocks_.span(), shape) {}

  Memory index_mapping_;
  Memory blocks_;
  KvIndex index_;
};

}  // namespace runnel
