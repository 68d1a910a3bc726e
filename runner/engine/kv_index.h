// The index of a KV cache that outlives its runner. Cache and index lie in one memory (MemoryFile), which
// the next runner maps again, so that its BlockPool knows the blocks that the dead runner has filled. The
// index is only written to and read back at the start: a running BlockPool trusts its own memory. Other
// runners read it while it is written to (KvSources).
//
//   header page | an entry for each block | to a multiple of 2 MiB | the blocks
//
// A process can die at any instruction, so an entry is whole or absent at each of them. Its first word, the
// seal, is a checksum of all its other words; an entry whose seal is wrong is absent. The order of stores is:
//
//   invalidate   seal = 0;  then everything that is stored to the block or the entry (release fence)
//   publish      the bytes of the block, the words of the entry;  then seal = checksum (release store)
//
// So a seal that is right stands for words that are complete, and for a block that nobody has written to
// since. The stores of one process become visible in their order, also to a process that starts after its
// death.
//
// The seal is keyed by the header's epoch, a random number. A runner to which the header means nothing
// (another model, type, size of blocks) writes one of its own, and all entries are absent.
//
// Checksums find stray writes and flipped bits, not contents that somebody wrote with their checksum: whoever
// can write to the memory is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/result.h"

namespace runnel {

// What all entries of an index have in common.
struct KvIndexShape {
  // All that the bytes of a block depend on besides its salt and ids: arithmetic, weights, layout.
  std::string contents;
  uint32_t block_size;  // tokens
  uint64_t block_bytes;
  uint32_t num_blocks;
};

// Limit of KvIndexShape::contents.
constexpr uint32_t kMaxContentsBytes = 1024;

// Part of KvIndexShape::contents: changes with the order of the bytes in a block
// (cpu-runner/attention/kv_cache.h). Blocks outlive the program that computed them.
constexpr uint32_t kKvBlockLayout = 1;

// The content of a block, as BlockPool knows it.
struct KvContent {
  uint32_t group = 0;  // of layers
  uint64_t hash = 0;
  uint64_t content = 0;
  uint64_t previous_content = 0;
  std::string salt = {};
  std::vector<uint32_t> token_ids = {};
  uint64_t checksum = 0;  // of the bytes; publish computes it

  bool operator==(const KvContent&) const = default;
};

// Reads an index. Another process may be writing to it meanwhile.
class KvIndexView {
 public:
  static constexpr uint64_t kHeaderBytes = 4096;

  // Bytes of the index of this shape: header and entries.
  static uint64_t index_bytes(const KvIndexShape& shape);
  // The number of blocks of the index behind this header, if it is of the shape but for that number.
  static std::optional<uint32_t> num_blocks_in(std::span<const std::byte> header, const KvIndexShape& shape);

  // index has index_bytes(shape), and blocks num_blocks * block_bytes.
  KvIndexView(std::span<const std::byte> index, std::span<const std::byte> blocks, const KvIndexShape& shape);

  const KvIndexShape& shape() const { return shape_; }
  uint32_t num_blocks() const { return shape_.num_blocks; }
  // What the entry of the block says; nothing if it is absent.
  std::optional<KvContent> read(uint32_t id) const;
  // Whether nothing was published for the block, or it was invalidated.
  bool is_empty(uint32_t id) const;
  // The hash that stands in the entry. Only read tells whether the entry is whole.
  uint64_t unchecked_hash(uint32_t id) const;
  // Whether these bytes have the checksum of a published block.
  static bool is_intact(std::span<const std::byte> bytes, uint64_t checksum);
  // When the block was held last, as set_used says.
  uint64_t used_at(uint32_t id) const;
  std::span<const std::byte> block(uint32_t id) const;

 protected:
  const std::byte* entry_of(uint32_t id) const;
  // The seal that these bytes of an entry should have.
  uint64_t seal_of(std::span<const std::byte> entry, uint32_t id) const;

  std::span<const std::byte> index_;
  std::span<const std::byte> blocks_;
  KvIndexShape shape_;
  uint64_t entry_bytes_;
  uint64_t epoch_ = 0;  // of the header; 0: it is of another shape, and there are no entries
};

// Writes an index, which must belong to this process alone.
class KvIndex : public KvIndexView {
 public:
  // In used_at: a sequence holds the block.
  static constexpr uint64_t kHeld = std::numeric_limits<uint64_t>::max();

  // Keeps the entries of an index of this shape, and begins a new one in place of any other.
  KvIndex(std::span<std::byte> index, std::span<std::byte> blocks, const KvIndexShape& shape);

  // Entries that were lost because the header was damaged.
  uint64_t num_lost() const { return num_lost_; }

  // Call it before anything is written to the block.
  void invalidate(uint32_t id);
  std::span<std::byte> writable_block(uint32_t id) const;
  // The block has been written. Its entry must be absent.
  void publish(uint32_t id, const KvContent& content);
  // Any order in which blocks should be reused; no seal covers it.
  void set_used(uint32_t id, uint64_t used_at);

 private:
  void begin();
  std::byte* writable_entry(uint32_t id) const;

  std::span<std::byte> writable_;
  std::span<std::byte> writable_blocks_;
  uint64_t num_lost_ = 0;
};

}  // namespace runnel
