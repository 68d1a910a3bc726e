#include "cpu-runner/matrix/weight_arena.h"

#define XXH_INLINE_ALL
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "cpu-runner/matrix/node_parts.h"
#include "runner/check.h"
#include "runner/system/process_memory.h"

namespace runnel {
namespace {

constexpr char kMagic[] = "RUNNELW";
constexpr uint64_t kHuge = Memory::kHugePageBytes;
// Pages are provided for this many bytes at once: enough for all threads, little enough that loading makes
// visible progress.
constexpr uint64_t kProvidedAtOnce = uint64_t{256} << 20;
// Numbers that headers of older systems lack.
constexpr int kPopulateRead = 22;   // MADV_POPULATE_READ, from Linux 5.14 on
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, from Linux 5.14 on
constexpr int kCollapse = 25;       // MADV_COLLAPSE, from Linux 6.1 on

constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

void warn(const std::string& sentence) {
  std::fprintf(stderr, "%s The weights stay this process's own.\n", sentence.c_str());
}

struct Part {
  uint64_t begin;
  uint64_t end;
};

// Adds parts for a node's threads, made of its pages, which are given by their first bytes. A part is one run
// of pages and as long as possible, because a call of the system for a single page takes long too.
void add_parts(std::span<const uint64_t> pages, uint32_t num_threads, std::vector<Part>& parts) {
  const uint64_t part_bytes = (pages.size() + num_threads - 1) / num_threads * kHuge;
  for (size_t i = 0; i < pages.size(); ++i) {
    const bool goes_on =
        i > 0 && parts.back().end == pages[i] && parts.back().end - parts.back().begin < part_bytes;
    if (goes_on)
      parts.back().end += kHuge;
    else
      parts.push_back({pages[i], pages[i] + kHuge});
  }
}

}  // namespace

Result<void> WeightArena::expect(uint64_t tensor_bytes, const std::string& identity) {
  identity_ = identity;
  if (is_filled()) {
    if (const auto mapped = map_sealed(identity); !mapped) return mapped;
  }
  // Pages that nobody writes to cost nothing, so there is ample room for filling up.
  const uint64_t header = shared_ == nullptr ? 0 : kHeaderBytes;
  const Result<void> added = add_segment(header + tensor_bytes + tensor_bytes / 16, "the model's weights");
  if (!added) {
    if (shared_ == nullptr || is_filled()) return added;
    warn(added.error().message);
    shared_ = nullptr;
    return expect(tensor_bytes, identity);
  }
  num_taken_ = header;
  num_expected_ = header + tensor_bytes;
  return {};
}

Result<std::byte*> WeightArena::take(uint64_t bytes, const std::string& purpose, uint32_t num_sections) {
  const uint64_t size = bytes_taken(bytes);
  if (segments_.empty() || size > segments_.back().bytes - num_taken_) {
    // Small matrices may take several times their size in the file.
    if (const auto added = add_segment(std::max(size, kHuge), purpose); !added) return added.error();
  }
  const Segment& segment = segments_.back();
  const uint64_t begin = num_taken_;
  num_taken_ += size;
  bytes_ += size;
  fingerprint_ = XXH64(purpose.data(), purpose.size(), fingerprint_ ^ size);
  if (!is_filled()) {
    const Piece piece{begin, num_taken_, std::max(uint64_t{1}, bytes / num_sections)};
    if (const auto provided = provide_pages(piece); !provided) return provided.error();
    return segment.memory.data() + begin;
  }
  if (segment.offset + num_taken_ > sealed_.bytes()) return refusal("ends before " + purpose);
  return sealed_.data() + segment.offset + begin;
}

Result<void> WeightArena::finish() {
  if (shared_ == nullptr) return {};
  if (!is_filled()) {
    seal();
    return {};
  }
  WeightsHeader header;
  std::memcpy(&header, sealed_.data(), sizeof(header));
  if (header.num_bytes != segments_.back().offset + num_taken_ || header.fingerprint != fingerprint_)
    return refusal("holds other matrices, or in another order, than this runner takes of the model");
  return {};
}

Result<void> WeightArena::add_segment(uint64_t bytes, const std::string& purpose) {
  const uint64_t offset =
      segments_.empty() ? 0 : segments_.back().offset + round_up(segments_.back().bytes, kHuge);
  Memory memory;
  if (!is_filled()) {
    if (shared_ != nullptr) {
      if (const auto grown = shared_->resize(offset + bytes); !grown) return grown;
    }
    Result<Memory> mapped = shared_ == nullptr
                                ? Memory::allocate(bytes, purpose)
                                : Memory::map(*shared_, offset, bytes, Access::kWrite, purpose);
    if (!mapped) return mapped.error();
    memory = *std::move(mapped);
    memory.advise(Pages::kHuge);
  }
  segments_.push_back({std::move(memory), offset, bytes});
  num_taken_ = num_expected_ = num_provided_ = 0;
  return {};
}

// Each fault of a sealed file is one of whoever passed it, so nothing of it is used.
Result<void> WeightArena::map_sealed(const std::string& identity) {
  if (shared_->bytes() < kHeaderBytes) return refusal("is too short for a header");
  Result<Memory> mapped = Memory::map(*shared_, 0, shared_->bytes(), Access::kRead, "the model's weights");
  if (!mapped) return mapped.error();
  sealed_ = *std::move(mapped);
  sealed_.advise(Pages::kHuge);
  WeightsHeader header;
  std::memcpy(&header, sealed_.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) return refusal("holds no weights");
  if (header.layout != kWeightsLayout) {
    return refusal("has weights in layout " + std::to_string(header.layout) + ", and this runner reads " +
                   std::to_string(kWeightsLayout));
  }
  const std::string_view found(header.identity,
                               std::min<size_t>(header.identity_bytes, sizeof(header.identity)));
  if (found != identity) return refusal("has the weights of another model than " + identity);
  if (header.num_bytes > shared_->bytes()) {
    return refusal("has " + std::to_string(shared_->bytes()) + " bytes of " +
                   std::to_string(header.num_bytes));
  }
  fill_page_table(sealed_.data(), header.num_bytes);
  return {};
}

// Fills the last segment of a file with pages up to the end of the piece at least. A file in memory has small
// pages unless an administrator chose otherwise (/sys/kernel/mm/transparent_hugepage/shmem_enabled), but a
// process may ask for parts that exist to be collapsed into huge pages. A part of which one page exists, and
// which is not in a page table, is collapsed as fast as memory of its own gets huge pages. What cannot be
// collapsed gets small pages. Pages are provided here and not by the first write, because a write to a page
// that the system does not have is a SIGBUS. With one node many are provided at once, before it is known what
// lies in them; with several, each node provides those of its part of the piece.
Result<void> WeightArena::provide_pages(const Piece& piece) {
  if (shared_ == nullptr || piece.end <= num_provided_) return {};
  const Segment& segment = segments_.back();
  const uint32_t num_nodes = threads_->num_nodes();
  const uint64_t begin = num_provided_;
  const uint64_t ahead = num_nodes == 1 ? std::min(begin + kProvidedAtOnce, num_expected_) : 0;
  num_provided_ = std::min(round_up(std::max(piece.end, ahead), kHuge), segment.bytes);
  std::vector<std::vector<uint64_t>> pages(num_nodes);
  for (uint64_t page = begin; page < num_provided_; page += kHuge) {
    const uint64_t in_section = (std::max(page, piece.begin) - piece.begin) % piece.section_bytes;
    pages[node_of(in_section, piece.section_bytes, num_nodes)].push_back(page);
  }
  std::vector<Part> parts;
  std::vector<uint32_t> ends;
  for (uint32_t node = 0; node < num_nodes; ++node) {
    add_parts(pages[node], threads_->num_threads_of(node), parts);
    ends.push_back(static_cast<uint32_t>(parts.size()));
  }
  std::atomic<int> error = 0;
  std::atomic<uint64_t> num_in_small_pages = 0;
  threads_->run_on_nodes(ends, [&](uint32_t i, uint32_t) {
    const uint64_t from = parts[i].begin;
    const uint64_t to = std::min(parts[i].end, num_provided_);
    for (uint64_t page = from; page < to; page += kHuge) {
      if (pwrite(shared_->descriptor(), "", 1, static_cast<off_t>(segment.offset + page)) != 1) error = errno;
    }
    // EINVAL: the system collapses nothing; whoever asks for shared weights knows that.
    if (madvise(segment.memory.data() + from, to - from, kCollapse) != 0 && errno != EINVAL)
      num_in_small_pages += to - from;
    // EINVAL: the system is too old.
    if (madvise(segment.memory.data() + from, to - from, kPopulateWrite) != 0 && errno != EINVAL)
      error = errno;
  });
  num_in_small_pages_ += num_in_small_pages;
  if (error == 0) return {};
  return Error{ExitCode::kSystem,
               "The system refuses pages for the model's weights: " + std::string(std::strerror(error)) + ".",
               MemoryShortage{num_provided_ - begin, available_memory_bytes()}};
}

void WeightArena::seal() {
  const uint64_t num_bytes = segments_.back().offset + num_taken_;
  WeightsHeader header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.layout = kWeightsLayout;
  CHECK(identity_.size() <= sizeof(header.identity));
  header.identity_bytes = static_cast<uint32_t>(identity_.size());
  std::memcpy(header.identity, identity_.data(), identity_.size());
  header.num_bytes = num_bytes;
  header.fingerprint = fingerprint_;
  std::memcpy(segments_.front().memory.data(), &header, sizeof(header));

  if (num_in_small_pages_ > 0) {
    std::fprintf(
        stderr,
        "The system has no huge pages for up to %llu of %llu bytes of the weights; tokens take longer "
        "until the next start.\n",
        static_cast<unsigned long long>(num_in_small_pages_), static_cast<unsigned long long>(num_bytes));
  }
  Result<void> sealed = shared_->resize(round_up(num_bytes, kHuge));
  for (Segment& segment : segments_)
    if (sealed) sealed = segment.memory.give_up_writing(*shared_, segment.offset);
  if (sealed) sealed = shared_->seal(Seals::kAll);
  if (!sealed) warn(sealed.error().message);
  for (const Segment& segment : segments_)
    fill_page_table(segment.memory.data(), std::min(segment.bytes, num_bytes - segment.offset));
}

// By all threads at once, and before the first step instead of in it.
void WeightArena::fill_page_table(const std::byte* data, uint64_t num_bytes) {
  if (num_bytes == 0) return;
  const uint64_t part = round_up((num_bytes + threads_->num_threads() - 1) / threads_->num_threads(), kHuge);
  threads_->parallel_for(static_cast<uint32_t>((num_bytes + part - 1) / part), [&](uint32_t i) {
    madvise(const_cast<std::byte*>(data) + i * part, std::min(part, num_bytes - i * part), kPopulateRead);
  });
}

Error WeightArena::refusal(const std::string& fault) const {
  return {ExitCode::kTryAgain, "--weights-fd " + std::to_string(shared_->descriptor()) + " " + fault +
                                   ". Start without it, and the weights are packed anew."};
}

}  // namespace runnel
