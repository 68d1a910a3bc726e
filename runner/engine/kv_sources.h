// The KV caches of other runners, in which this one looks for the blocks of a sequence that comes from there.
// It copies a block into its own cache and checks the copy.
//
// The other runner may be dead, or alive and writing. An entry whose seal is right is a whole one, and says
// which bytes belong to it. If these are overwritten while they are copied, the copy has another checksum.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "runner/engine/kv_index.h"
#include "runner/system/memory.h"
#include "runner/system/memory_file.h"

namespace runnel {

// A cache as it was when it was looked into.
class KvSource {
 public:
  // Nothing if the memory has no cache of this shape but for the number of blocks, which is the other
  // runner's.
  static std::optional<KvSource> look_into(const MemoryFile& memory, KvIndexShape shape);

  struct Found {
    uint32_t id;
    KvContent content;
  };
  // The block of the first group with these tokens and this salt that continues the content of this number in
  // that cache; 0: it is the first of a text.
  std::optional<Found> find(uint64_t hash, uint64_t previous_content, const std::string& salt,
                            std::span<const uint32_t> token_ids) const;
  // The block of another group with the content of this one.
  std::optional<Found> find_beside(const KvContent& first, uint32_t group) const;

  enum class Copy { kIntact, kReused, kDamaged };
  // kReused: the other runner has overwritten the block meanwhile. Unless it is kIntact, the copy is to be
  // forgotten.
  Copy copy(const Found& found, std::span<std::byte> to) const;

 private:
  // The first block with this hash whose content is_right accepts.
  template <typename IsRight>
  std::optional<Found> find_where(uint64_t hash, const IsRight& is_right) const;

  KvSource(Memory index, Memory blocks, const KvIndexShape& shape);

  Memory index_;
  Memory blocks_;
  KvIndexView view_;
  std::unordered_multimap<uint64_t, uint32_t> ids_;  // by hash, also of entries that are not whole
};

// Those that the process was given.
class KvSources {
 public:
  // descriptor: by which requests name the memory.
  void add(uint32_t descriptor, MemoryFile memory) {
    memories_.insert_or_assign(descriptor, std::move(memory));
  }
  // Closes the memory. Ignores other numbers.
  void release(uint32_t descriptor) { memories_.erase(descriptor); }
  // Nothing if the number is unknown, and as KvSource::look_into does.
  std::optional<KvSource> look_into(uint32_t descriptor, const KvIndexShape& shape) const;

 private:
  std::map<uint32_t, MemoryFile> memories_;
};

// The caches of other runners at one time. Each is looked into when it is first asked for, which reads all of
// its index, so that sequences which come together share a look.
class KvLook {
 public:
  KvLook() = default;  // there are no others
  // Both must outlive the look.
  KvLook(const KvSources& sources, const KvIndexShape& shape) : sources_(&sources), shape_(&shape) {}

  // Null where KvSources::look_into gives nothing.
  const KvSource* at(uint32_t descriptor);

 private:
  const KvSources* sources_ = nullptr;
  const KvIndexShape* shape_ = nullptr;
  std::map<uint32_t, std::optional<KvSource>> seen_;
};

}  // namespace runnel
