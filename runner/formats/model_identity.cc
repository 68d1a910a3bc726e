#include "runner/formats/model_identity.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cinttypes>
#include <cstdio>

namespace runnel {

uint64_t hash_of_head(std::span<const std::byte> head) {
  return XXH3_64bits(head.data(), head.size());
}

uint64_t hash_of_part(uint64_t hash, const MappedFile& file, std::span<const std::byte> head) {
  const std::array<uint64_t, 5> facts = {hash, hash_of_head(head), file.bytes().size(),
                                         static_cast<uint64_t>(file.modified_ns()), file.inode()};
  return XXH3_64bits(facts.data(), sizeof(facts));
}

std::string identity_of(uint64_t hash, const MappedFile& file) {
  char text[128];
  std::snprintf(text, sizeof(text), "xxh3-%016" PRIx64 "-%zu-%" PRId64 "-%" PRIu64, hash, file.bytes().size(),
                file.modified_ns(), file.inode());
  return text;
}

}  // namespace runnel
