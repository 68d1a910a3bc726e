// The index of a KV cache that outlives its runner: what the next process finds.
#include "runner/engine/kv_index.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "runner/engine/kv_mapping.h"
#include "runner/engine/request.h"
#include "test/fixtures/frame_vectors.h"
#include "test/fixtures/kept_blocks.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

KvContent content_of(uint64_t number, const std::string& salt = "") {
  return {.hash = 100 + number,
          .content = number,
          .previous_content = number - 1,
          .salt = salt,
          .token_ids = count_from(static_cast<uint32_t>(number) * 10, kKeptBlockSize)};
}

// The next process reads the same, but for the checksum, which the writer has computed.
bool has_entry(const KvIndexView& index, uint32_t id, const KvContent& content) {
  std::optional<KvContent> found = index.read(id);
  if (!found || !KvIndex::is_intact(index.block(id), found->checksum)) return false;
  found->checksum = content.checksum;
  return *found == content;
}

void fill_block(const KeptBlocks& kept, uint32_t id, int value) {
  std::memset(kept.blocks().data() + id * kept.shape.block_bytes, value, kept.shape.block_bytes);
}

const nlohmann::json& golden_index() {
  static const nlohmann::json all =
      nlohmann::json::parse(std::ifstream(RUNNEL_SOURCE_DIR "/test/golden/kv-index.json"));
  return all;
}

KvIndexShape golden_shape() {
  const nlohmann::json& shape = golden_index().at("shape");
  return {.contents = shape.at("contents"),
          .block_size = shape.at("blockSize"),
          .block_bytes = shape.at("blockBytes"),
          .num_blocks = shape.at("numBlocks")};
}

uint64_t number_of(const nlohmann::json& digits) {
  return std::stoull(digits.get<std::string>());
}

KvContent golden_content(const nlohmann::json& entry) {
  return {.group = entry.at("group"),
          .hash = number_of(entry.at("hash")),
          .content = number_of(entry.at("content")),
          .previous_content = number_of(entry.at("previousContent")),
          .salt = entry.at("salt"),
          .token_ids = entry.at("ids"),
          .checksum = number_of(entry.at("checksum"))};
}

// The index that the gateway's tests have too, and blocks of zeros.
struct GoldenCache {
  GoldenCache() : index(KvIndexView::index_bytes(golden_shape())), blocks(512 * 3) {
    put(0, golden_index().at("header"));
    const size_t entry_bytes = (index.size() - KvIndexView::kHeaderBytes) / golden_shape().num_blocks;
    for (size_t id = 0; id < golden_index().at("bytes").size(); ++id)
      put(KvIndexView::kHeaderBytes + id * entry_bytes, golden_index().at("bytes")[id]);
  }
  void put(size_t at, const std::string& hex) {
    const std::string bytes = from_hex(hex);
    std::memcpy(index.data() + at, bytes.data(), bytes.size());
  }

  std::vector<std::byte> index;
  std::vector<std::byte> blocks;
};

// Runs fn in a process of its own, an instruction at a time, and calls look whenever it has changed the
// memory. Returns how often that was; nothing if this system forbids it.
template <typename Fn, typename Look>
std::optional<uint64_t> at_each_change(const KeptBlocks& kept, const Fn& fn, const Look& look) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    fn();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return std::nullopt;
  uint64_t num_changes = 0;
  std::vector<std::byte> before(kept.bytes().begin(), kept.bytes().end());
  while (true) {
    if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) FAIL("the process cannot be stepped");
    waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) break;
    if (std::memcmp(before.data(), kept.bytes().data(), before.size()) == 0) continue;
    before.assign(kept.bytes().begin(), kept.bytes().end());
    ++num_changes;
    look();
  }
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  return num_changes;
}

void skip_or_expect(std::optional<uint64_t> num_changes, uint64_t least) {
  if (!num_changes) {
    MESSAGE("SKIPPED: this system forbids to trace a process");
    return;
  }
  MESSAGE(*num_changes, " cut points");
  CHECK(*num_changes >= least);
}

}  // namespace

TEST_CASE("kv index: the next process finds what was published, and not what was invalidated") {
  const KeptBlocks kept;
  {
    KvIndex index = kept.open();
    fill_block(kept, 3, 3);
    fill_block(kept, 5, 5);
    index.publish(3, content_of(1));
    index.publish(5, content_of(2, std::string(kMaxCacheSaltBytes, 's')));
    index.publish(7, content_of(3));
    index.invalidate(7);
    index.set_used(5, 12);
  }
  const KvIndex next = kept.open();
  CHECK(has_entry(next, 3, content_of(1)));
  CHECK(has_entry(next, 5, content_of(2, std::string(kMaxCacheSaltBytes, 's'))));
  CHECK(next.used_at(5) == 12);
  CHECK_FALSE(next.read(7));
  CHECK(next.is_empty(7));
  CHECK_FALSE(next.read(0));
}

TEST_CASE("kv index: a block whose bytes have changed is not intact") {
  const KeptBlocks kept;
  KvIndex index = kept.open();
  index.publish(3, content_of(1));
  const uint64_t checksum = index.read(3)->checksum;
  CHECK(KvIndex::is_intact(index.block(3), checksum));
  fill_block(kept, 3, 1);
  CHECK_FALSE(KvIndex::is_intact(index.block(3), checksum));
}

TEST_CASE("kv index: a process with other contents or another size of blocks begins anew") {
  for (const bool differs_in_contents : {true, false}) {
    KeptBlocks kept;
    kept.open().publish(3, content_of(1));
    if (differs_in_contents)
      kept.shape.contents = "another model";
    else
      kept.shape.block_bytes /= 2;
    const KvIndex next = kept.open();
    CHECK(next.is_empty(3));
    CHECK(next.num_lost() == 0);
    // And what was there does not come back.
    kept.shape = KeptBlocks().shape;
    CHECK(kept.open().is_empty(3));
  }
}

TEST_CASE("kv index: a damaged header loses all entries, which are counted") {
  const KeptBlocks kept;
  {
    KvIndex index = kept.open();
    index.publish(3, content_of(1));
    index.publish(4, content_of(2));
  }
  kept.bytes()[20] ^= std::byte{1};
  const KvIndex next = kept.open();
  CHECK(next.num_lost() == 2);
  CHECK(next.is_empty(3));
  CHECK(kept.open().num_lost() == 0);
}

TEST_CASE("kv index: a death at any instruction leaves each entry whole or absent") {
  const KeptBlocks kept;
  const KvContent before = content_of(1, "a");
  const KvContent after = content_of(2, "b");
  const KvContent other = content_of(3);
  KvIndex index = kept.open();
  fill_block(kept, 5, 1);
  index.publish(5, before);
  index.publish(6, other);
  uint64_t num_found[3] = {};
  const auto num_changes = at_each_change(
      kept,
      [&] {
        index.invalidate(5);
        fill_block(kept, 5, 2);
        index.publish(5, after);
      },
      [&] {
        const KeptBlocks copy = kept;
        const KvIndex next = copy.open();
        CHECK(has_entry(next, 6, other));
        const bool is_before = has_entry(next, 5, before);
        const bool is_after = has_entry(next, 5, after);
        CHECK((is_before || is_after || !next.read(5)));
        ++num_found[is_before ? 0 : is_after ? 2 : 1];
      });
  // invalidate is one store, and so is the last one of publish.
  skip_or_expect(num_changes, 5);
  if (num_changes) CHECK(num_found[2] == 1);
}

TEST_CASE(
    "kv index: a death at any instruction of a new beginning leaves the old index, none, or the new one") {
  const KeptBlocks kept;
  kept.open().publish(5, content_of(1));
  KvIndexShape other = kept.shape;
  other.contents = "another model";
  const auto num_changes = at_each_change(
      kept, [&] { KvIndex(kept.index(), kept.blocks(), other); },
      [&] {
        const KeptBlocks copy = kept;
        const KvIndex next = copy.open();
        CHECK((has_entry(next, 5, content_of(1)) || next.is_empty(5)));
        CHECK(next.num_lost() == 0);
        const KeptBlocks second = kept;
        CHECK(KvIndex(second.index(), second.blocks(), other).is_empty(5));
      });
  // The header's seal, that of the entry, the header, its new seal. A copy is one change or more.
  skip_or_expect(num_changes, 4);
}

TEST_CASE("kv index: a death at any instruction of a block manager leaves nothing that is wrong") {
  constexpr uint32_t kNumBlocks = 8;
  const KeptBlocks kept(kNumBlocks);
  KeptLife life(kept);
  const std::vector<Sequence> texts = {text_of(1, 13), text_of(1, 9, "a"), text_of(50, 22), text_of(1, 11)};
  uint64_t num_found = 0;
  const auto num_changes = at_each_change(
      kept,
      [&] {
        // They take each other's blocks.
        for (Sequence text : texts) {
          life.fill(text);
          life.manager.deallocate(text);
        }
      },
      [&] {
        const KeptBlocks copy = kept;
        KeptLife next(copy);
        CHECK(next.manager.pool().num_dropped() == 0);
        next.manager.check_integrity({});
        for (const Sequence& text : texts) num_found += next.find(text);
      });
  skip_or_expect(num_changes, 100);
  if (num_changes) CHECK(num_found > 1000);
}

TEST_CASE(
    "kv mapping: the next process finds the number of blocks that it has to keep, and other contents bring "
    "their own") {
  Result<MemoryFile> memory = MemoryFile::create("test");
  REQUIRE(memory.ok());
  REQUIRE(memory->resize(uint64_t{64} << 20).ok());
  KvIndexShape shape = KeptBlocks().shape;
  {
    const auto first = KvMapping::open(*memory, shape);
    REQUIRE(first.ok());
    CHECK((*first)->blocks().size() == shape.num_blocks * shape.block_bytes);
    std::ranges::fill((*first)->blocks(), std::byte{7});
    (*first)->index().publish(15, content_of(1));
  }
  CHECK(KvMapping::kept_blocks(*memory, shape) == shape.num_blocks);
  {
    const auto next = KvMapping::open(*memory, shape);
    REQUIRE(next.ok());
    CHECK(has_entry((*next)->index(), 15, content_of(1)));
    CHECK((*next)->blocks()[100] == std::byte{7});
  }
  shape.num_blocks = 5;
  CHECK(KvMapping::kept_blocks(*memory, shape) == KeptBlocks().shape.num_blocks);
  shape.contents = "another model";
  CHECK(KvMapping::kept_blocks(*memory, shape) == 0);
  const auto other = KvMapping::open(*memory, shape);
  REQUIRE(other.ok());
  CHECK((*other)->index().num_blocks() == 5);
  CHECK((*other)->index().is_empty(3));
}

TEST_CASE("kv mapping: one that is too small is refused by name") {
  Result<MemoryFile> memory = MemoryFile::create("test");
  REQUIRE(memory.ok());
  REQUIRE(memory->resize(4096).ok());
  const auto refused = KvMapping::open(*memory, KeptBlocks().shape);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().exit_code == ExitCode::kTryAgain);
  CHECK(refused.error().message ==
        "--kv-fd has 4096 bytes; the KV cache and its index take 2098176. Give it more, or make the cache "
        "smaller.");
}

TEST_CASE("kv index: what the gateway writes is read") {
  const GoldenCache cache;
  const KvIndexView view(cache.index, cache.blocks, golden_shape());
  for (uint32_t id = 0; id < view.num_blocks(); ++id)
    CHECK(view.read(id) == golden_content(golden_index().at("entries")[id]));
}

TEST_CASE("kv index: the gateway's bytes are those that are written here") {
  GoldenCache cache;
  KvIndex index(cache.index, cache.blocks, golden_shape());
  for (uint32_t id = 0; id < index.num_blocks(); ++id) {
    KvContent content = golden_content(golden_index().at("entries")[id]);
    index.invalidate(id);
    CHECK(!index.read(id));
    index.publish(id, content);
    // The checksum is of the bytes; the file has 0.
    content.checksum = index.read(id)->checksum;
    CHECK(KvIndexView::is_intact(index.block(id), content.checksum));
    CHECK(index.read(id) == content);
  }
  CHECK(std::equal(cache.index.begin(), cache.index.begin() + KvIndexView::kHeaderBytes,
                   GoldenCache().index.begin()));
}

}  // namespace runnel
