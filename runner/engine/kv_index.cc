#include "runner/engine/kv_index.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>

#include "runner/check.h"
#include "runner/engine/request.h"

namespace runnel {
namespace {

// "RNLKV" and the version of the layout below.
constexpr uint64_t kVersion = 0x0002'564b'4c4e'52;
constexpr uint64_t kEntryAlignment = 64;

// The header page. The seal covers all that follows it.
struct Header {
  uint64_t seal;
  uint64_t version;
  uint64_t epoch;
  uint64_t block_bytes;
  uint32_t block_size;
  uint32_t num_blocks;
  uint32_t contents_bytes;
  uint32_t zero;
  char contents[kMaxContentsBytes];
};
static_assert(sizeof(Header) <= KvIndexView::kHeaderBytes &&
              std::has_unique_object_representations_v<Header>);

// An entry; token ids follow. The seal covers all from hash on.
struct Entry {
  uint64_t seal;
  uint64_t used_at;
  uint64_t hash;
  uint64_t content;
  uint64_t previous_content;
  uint64_t checksum;
  uint32_t salt_bytes;
  uint32_t group;
  char salt[kMaxCacheSaltBytes];
};
static_assert(std::has_unique_object_representations_v<Entry>);
constexpr size_t kSealedFrom = offsetof(Entry, hash);

uint64_t entry_bytes_of(uint32_t block_size) {
  const uint64_t bytes = sizeof(Entry) + uint64_t{block_size} * sizeof(uint32_t);
  return (bytes + kEntryAlignment - 1) / kEntryAlignment * kEntryAlignment;
}

// A checksum that is never 0, which means that nothing is there.
uint64_t nonzero(uint64_t checksum) {
  return checksum == 0 ? 1 : checksum;
}

uint64_t seal_of_header(const Header& header) {
  const auto bytes = std::as_bytes(std::span(&header, 1)).subspan(sizeof header.seal);
  return nonzero(XXH64(bytes.data(), bytes.size(), 0));
}

// Another process may be writing to it.
uint64_t load(const std::byte* word) {
  return std::atomic_ref(*const_cast<uint64_t*>(reinterpret_cast<const uint64_t*>(word)))
      .load(std::memory_order_acquire);
}

std::atomic_ref<uint64_t> word(std::byte* at) {
  return std::atomic_ref(*reinterpret_cast<uint64_t*>(at));
}

// The word is 0 before anything that this process stores later.
void clear(std::byte* seal) {
  word(seal).store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
}

// The header, if it is of the shape but for the number of blocks.
std::optional<Header> header_in(std::span<const std::byte> memory, const KvIndexShape& shape) {
  CHECK(memory.size() >= KvIndexView::kHeaderBytes && shape.contents.size() <= kMaxContentsBytes);
  Header header;
  std::memcpy(&header, memory.data(), sizeof header);
  if (header.seal != seal_of_header(header) || header.version != kVersion) return std::nullopt;
  if (header.block_bytes != shape.block_bytes || header.block_size != shape.block_size) return std::nullopt;
  if (header.contents_bytes > kMaxContentsBytes || header.num_blocks == 0 || header.epoch == 0)
    return std::nullopt;
  if (std::string_view(header.contents, header.contents_bytes) != shape.contents) return std::nullopt;
  return header;
}

uint64_t new_epoch() {
  std::random_device random;
  return nonzero(uint64_t{random()} << 32 | random());
}

}  // namespace

uint64_t KvIndexView::index_bytes(const KvIndexShape& shape) {
  return kHeaderBytes + shape.num_blocks * entry_bytes_of(shape.block_size);
}

std::optional<uint32_t> KvIndexView::num_blocks_in(std::span<const std::byte> header,
                                                   const KvIndexShape& shape) {
  const std::optional<Header> found = header_in(header, shape);
  return found ? std::optional(found->num_blocks) : std::nullopt;
}

KvIndexView::KvIndexView(std::span<const std::byte> index, std::span<const std::byte> blocks,
                         const KvIndexShape& shape)
    : index_(index), blocks_(blocks), shape_(shape), entry_bytes_(entry_bytes_of(shape.block_size)) {
  CHECK(index.size() >= index_bytes(shape) && blocks.size() >= shape.num_blocks * shape.block_bytes);
  const std::optional<Header> header = header_in(index, shape);
  if (header && header->num_blocks == shape.num_blocks) epoch_ = header->epoch;
}

const std::byte* KvIndexView::entry_of(uint32_t id) const {
  CHECK(id < shape_.num_blocks);
  return index_.data() + kHeaderBytes + id * entry_bytes_;
}

uint64_t KvIndexView::seal_of(std::span<const std::byte> entry, uint32_t id) const {
  const std::span<const std::byte> sealed = entry.subspan(kSealedFrom);
  return nonzero(XXH64(sealed.data(), sealed.size(), epoch_ + id));
}

std::optional<KvContent> KvIndexView::read(uint32_t id) const {
  const std::byte* const from = entry_of(id);
  const uint64_t seal = load(from);
  if (seal == 0 || epoch_ == 0) return std::nullopt;
  // A copy, since the entry may change while it is read.
  std::vector<std::byte> bytes(from, from + entry_bytes_);
  if (seal != seal_of(bytes, id)) return std::nullopt;
  Entry entry;
  std::memcpy(&entry, bytes.data(), sizeof entry);
  if (entry.salt_bytes > kMaxCacheSaltBytes) return std::nullopt;
  KvContent content{.group = entry.group,
                    .hash = entry.hash,
                    .content = entry.content,
                    .previous_content = entry.previous_content,
                    .salt = std::string(entry.salt, entry.salt_bytes),
                    .token_ids = std::vector<uint32_t>(shape_.block_size),
                    .checksum = entry.checksum};
  std::memcpy(content.token_ids.data(), bytes.data() + sizeof entry, shape_.block_size * sizeof(uint32_t));
  return content;
}

bool KvIndexView::is_empty(uint32_t id) const {
  return load(entry_of(id)) == 0;
}

uint64_t KvIndexView::unchecked_hash(uint32_t id) const {
  return load(entry_of(id) + offsetof(Entry, hash));
}

bool KvIndexView::is_intact(std::span<const std::byte> bytes, uint64_t checksum) {
  return XXH3_64bits(bytes.data(), bytes.size()) == checksum;
}

uint64_t KvIndexView::used_at(uint32_t id) const {
  return load(entry_of(id) + offsetof(Entry, used_at));
}

std::span<const std::byte> KvIndexView::block(uint32_t id) const {
  CHECK(id < shape_.num_blocks);
  return blocks_.subspan(id * shape_.block_bytes, shape_.block_bytes);
}

KvIndex::KvIndex(std::span<std::byte> index, std::span<std::byte> blocks, const KvIndexShape& shape)
    : KvIndexView(index, blocks, shape), writable_(index), writable_blocks_(blocks) {
  if (epoch_ == 0) begin();
}

void KvIndex::begin() {
  Header before;
  std::memcpy(&before, writable_.data(), sizeof before);
  Header header{.seal = 0,
                .version = kVersion,
                .epoch = new_epoch(),
                .block_bytes = shape_.block_bytes,
                .block_size = shape_.block_size,
                .num_blocks = shape_.num_blocks,
                .contents_bytes = static_cast<uint32_t>(shape_.contents.size()),
                .zero = 0,
                .contents = {}};
  shape_.contents.copy(header.contents, kMaxContentsBytes);
  header.seal = seal_of_header(header);
  clear(writable_.data());
  // The entries that are there would never be right in this epoch. They are cleared so that they do not count
  // as damaged. In a new memory there are none, and its pages are left alone.
  const bool was_damaged = before.seal != 0 && before.seal != seal_of_header(before);
  for (uint32_t id = 0; before.version != 0 && id < shape_.num_blocks; ++id) {
    if (was_damaged && !is_empty(id)) ++num_lost_;
    invalidate(id);
  }
  constexpr size_t kSeal = sizeof header.seal;
  std::memcpy(writable_.data() + kSeal, reinterpret_cast<const std::byte*>(&header) + kSeal,
              sizeof header - kSeal);
  word(writable_.data()).store(header.seal, std::memory_order_release);
  epoch_ = header.epoch;
}

std::byte* KvIndex::writable_entry(uint32_t id) const {
  return writable_.data() + (entry_of(id) - index_.data());
}

void KvIndex::invalidate(uint32_t id) {
  clear(writable_entry(id));
}

std::span<std::byte> KvIndex::writable_block(uint32_t id) const {
  return writable_blocks_.subspan(id * shape_.block_bytes, shape_.block_bytes);
}

void KvIndex::publish(uint32_t id, const KvContent& content) {
  CHECK(content.token_ids.size() == shape_.block_size && content.salt.size() <= kMaxCacheSaltBytes);
  std::byte* const to = writable_entry(id);
  const std::span<const std::byte> bytes = block(id);
  Entry entry{.seal = 0,
              .used_at = 0,
              .hash = content.hash,
              .content = content.content,
              .previous_content = content.previous_content,
              .checksum = XXH3_64bits(bytes.data(), bytes.size()),
              .salt_bytes = static_cast<uint32_t>(content.salt.size()),
              .group = content.group,
              .salt = {}};
  content.salt.copy(entry.salt, kMaxCacheSaltBytes);
  std::memcpy(to + kSealedFrom, reinterpret_cast<const std::byte*>(&entry) + kSealedFrom,
              sizeof entry - kSealedFrom);
  std::memcpy(to + sizeof entry, content.token_ids.data(), shape_.block_size * sizeof(uint32_t));
  word(to).store(seal_of({to, entry_bytes_}, id), std::memory_order_release);
}

void KvIndex::set_used(uint32_t id, uint64_t used_at) {
  word(writable_entry(id) + offsetof(Entry, used_at)).store(used_at, std::memory_order_relaxed);
}

}  // namespace runnel
