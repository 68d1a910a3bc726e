#include "runner/engine/kv_mapping.h"

#include <string>

namespace runnel {
namespace {

constexpr const char* kPurpose = "the KV cache";
// A block may lie in pages of this size.
constexpr uint64_t kBlocksAlignment = Memory::kHugePageBytes;

uint64_t needed_bytes(const KvIndexShape& shape) {
  return KvMapping::blocks_offset(shape) + shape.num_blocks * shape.block_bytes;
}

}  // namespace

uint64_t KvMapping::blocks_offset(const KvIndexShape& shape) {
  return (KvIndexView::index_bytes(shape) + kBlocksAlignment - 1) / kBlocksAlignment * kBlocksAlignment;
}

uint32_t KvMapping::kept_blocks(const MemoryFile& memory, KvIndexShape shape) {
  if (memory.bytes() < KvIndexView::kHeaderBytes) return 0;
  const Result<Memory> header = Memory::map(memory, 0, KvIndexView::kHeaderBytes, Access::kRead, kPurpose);
  if (!header.ok()) return 0;
  shape.num_blocks = KvIndexView::num_blocks_in(header->span(), shape).value_or(0);
  return needed_bytes(shape) <= memory.bytes() ? shape.num_blocks : 0;
}

Result<std::unique_ptr<KvMapping>> KvMapping::open(const MemoryFile& memory, const KvIndexShape& shape) {
  const uint64_t needed = needed_bytes(shape);
  if (needed > memory.bytes()) {
    return Error{ExitCode::kTryAgain, "--kv-fd has " + std::to_string(memory.bytes()) +
                                          " bytes; the KV cache and its index take " +
                                          std::to_string(needed) +
                                          ". Give it more, or make the cache smaller."};
  }
  const uint64_t offset = blocks_offset(shape);
  Result<Memory> index = Memory::map(memory, 0, offset, Access::kWrite, kPurpose);
  if (!index.ok()) return index.error();
  Result<Memory> blocks = Memory::map(memory, offset, needed - offset, Access::kWrite, kPurpose);
  if (!blocks.ok()) return blocks.error();
  // A token waits for the page that it is the first one in, so a page is no larger than a block.
  if (shape.block_bytes >= Memory::kHugePageBytes) blocks->advise(Pages::kHuge);
  return std::unique_ptr<KvMapping>(new KvMapping(*std::move(index), *std::move(blocks), shape));
}

}  // namespace runnel
