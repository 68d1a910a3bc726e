#include "runner/engine/kv_memory.h"

#include <string>

namespace runnel {
namespace {

using Access = SealedMemory::Access;

// A block may lie in pages of this size.
constexpr uint64_t kBlocksAlignment = uint64_t{2} << 20;

uint64_t aligned(uint64_t bytes) {
  return (bytes + kBlocksAlignment - 1) / kBlocksAlignment * kBlocksAlignment;
}

uint64_t needed_bytes(const KvIndexShape& shape) {
  return aligned(KvIndexView::index_bytes(shape)) + shape.num_blocks * shape.block_bytes;
}

}  // namespace

uint32_t KvMemory::kept_blocks(const SealedMemory& memory, KvIndexShape shape) {
  if (memory.num_bytes() < KvIndexView::kHeaderBytes) return 0;
  const Result<SharedMapping> header = memory.map(0, KvIndexView::kHeaderBytes, Access::kRead);
  if (!header.ok()) return 0;
  shape.num_blocks = KvIndexView::num_blocks_in(header->bytes(), shape).value_or(0);
  return needed_bytes(shape) <= memory.num_bytes() ? shape.num_blocks : 0;
}

Result<std::unique_ptr<KvMemory>> KvMemory::open(const SealedMemory& memory, const KvIndexShape& shape) {
  const uint64_t needed = needed_bytes(shape);
  if (needed > memory.num_bytes()) {
    return Error{ExitCode::kTryAgain, "--kv-fd has " + std::to_string(memory.num_bytes()) +
                                          " bytes; the KV cache and its index take " +
                                          std::to_string(needed) +
                                          ". Give it more, or make the cache smaller."};
  }
  const uint64_t blocks_offset = aligned(KvIndexView::index_bytes(shape));
  Result<SharedMapping> index = memory.map(0, blocks_offset, Access::kWrite);
  if (!index.ok()) return index.error();
  Result<SharedMapping> blocks = memory.map(blocks_offset, needed - blocks_offset, Access::kWrite);
  if (!blocks.ok()) return blocks.error();
  return std::unique_ptr<KvMemory>(new KvMemory(*std::move(index), *std::move(blocks), shape));
}

}  // namespace runnel
