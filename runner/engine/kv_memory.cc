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

}  // namespace

Result<std::unique_ptr<KvMemory>> KvMemory::open(const SealedMemory& memory, const KvIndexShape& wanted) {
  KvIndexShape shape = wanted;
  const auto blocks_offset = [&] { return aligned(KvIndexView::index_bytes(shape)); };
  const auto needed = [&] { return blocks_offset() + shape.num_blocks * shape.block_bytes; };
  if (memory.num_bytes() >= KvIndexView::kHeaderBytes) {
    const Result<SharedMapping> header = memory.map(0, KvIndexView::kHeaderBytes, Access::kRead);
    if (!header.ok()) return header.error();
    shape.num_blocks = KvIndexView::num_blocks_in(header->bytes(), shape).value_or(wanted.num_blocks);
    if (needed() > memory.num_bytes()) shape.num_blocks = wanted.num_blocks;
  }
  if (needed() > memory.num_bytes()) {
    return Error{ExitCode::kTryAgain, "--kv-fd has " + std::to_string(memory.num_bytes()) +
                                          " bytes; the KV cache and its index take " +
                                          std::to_string(needed()) +
                                          ". Give it more, or make the cache smaller."};
  }
  Result<SharedMapping> index = memory.map(0, blocks_offset(), Access::kWrite);
  if (!index.ok()) return index.error();
  Result<SharedMapping> blocks = memory.map(blocks_offset(), needed() - blocks_offset(), Access::kWrite);
  if (!blocks.ok()) return blocks.error();
  return std::unique_ptr<KvMemory>(new KvMemory(*std::move(index), *std::move(blocks), shape));
}

}  // namespace runnel
