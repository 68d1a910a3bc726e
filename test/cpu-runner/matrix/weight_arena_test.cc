#include "cpu-runner/matrix/weight_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/cpu-runner/threads_on_nodes.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
const std::string kModel = "xxh3-0123456789abcdef-1000-17-4711";

TEST_CASE("the expected weights share one zeroed mapping, aligned and in order") {
  WeightArena arena;
  constexpr uint64_t kBytes = 8 * kMiB;
  REQUIRE(arena.expect(kBytes, kModel).ok());
  std::byte* const first = *arena.take(100, "a");
  std::byte* const second = *arena.take(kBytes - 128, "b");
  CHECK(reinterpret_cast<uintptr_t>(first) % Memory::kHugePageBytes == 0);
  CHECK(second == first + 128);
  CHECK(second[kBytes - 129] == std::byte{0});
  CHECK(arena.bytes() == kBytes);
  CHECK_FALSE(arena.is_filled());
  CHECK(arena.finish().ok());
}

TEST_CASE("weights beyond the expected size get memory too") {
  WeightArena arena;
  REQUIRE(arena.expect(kMiB, kModel).ok());
  for (int i = 0; i < 5; ++i) {
    const Result<std::byte*> data = arena.take(kMiB, "a weight");
    REQUIRE(data.ok());
    (*data)[kMiB - 1] = std::byte{1};
  }
  WeightArena unannounced;
  CHECK(unannounced.take(1, "a weight").ok());
}

TEST_CASE("weights that no memory can hold are refused with their size") {
  WeightArena arena;
  const Result<void> refused = arena.expect(uint64_t{1} << 60, kModel);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().exit_code == ExitCode::kSystem);
  CHECK(refused.error().message.find("bytes for the model's weights") != std::string::npos);
  CHECK_FALSE(arena.take(uint64_t{1} << 60, "a weight").ok());
}

struct Piece {
  std::string name;
  uint64_t bytes;
};
// With 2 MiB expected, the third piece does not fit, and the fourth fits beside it.
constexpr uint64_t kExpected = 2 * kMiB;
const std::vector<Piece> kPieces = {{"a", 100}, {"b", kMiB}, {"c", 5 * kMiB + 1}, {"d", 3}};

class SharedArena {
 public:
  explicit SharedArena(MemoryFile file, uint32_t num_nodes = 1)
      : file_(std::move(file)), threads_(test::pool_on_nodes(4, num_nodes)) {}

  Result<void> expect(const std::string& model = kModel) { return arena_.expect(kExpected, model); }
  // Takes the pieces and calls each(index, data).
  Result<void> take(const std::vector<Piece>& pieces, const std::function<void(size_t, std::byte*)>& each) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      const Result<std::byte*> data = arena_.take(pieces[i].bytes, pieces[i].name);
      if (!data.ok()) return data.error();
      each(i, *data);
    }
    return arena_.finish();
  }
  const WeightArena& arena() const { return arena_; }
  const MemoryFile& file() const { return file_; }
  // The same file for another arena, as if it had been passed to another process.
  MemoryFile passed() const {
    Result<MemoryFile> file = MemoryFile::inherit(dup(file_.descriptor()), "--weights-fd", Seals::kAll);
    REQUIRE(file.ok());
    return *std::move(file);
  }

 private:
  MemoryFile file_;
  std::unique_ptr<ThreadPool> threads_;
  WeightArena arena_{file_, *threads_};
};

void ignore(size_t, std::byte*) {}

MemoryFile empty_file() {
  Result<MemoryFile> file = MemoryFile::create("runnel-test");
  REQUIRE(file.ok());
  return *std::move(file);
}

std::unique_ptr<SharedArena> packed(const std::vector<Piece>& pieces, uint32_t num_nodes = 1) {
  auto arena = std::make_unique<SharedArena>(empty_file(), num_nodes);
  REQUIRE(arena->expect().ok());
  REQUIRE_FALSE(arena->arena().is_filled());
  const Result<void> taken = arena->take(pieces, [&](size_t i, std::byte* data) {
    CHECK(std::all_of(data, data + pieces[i].bytes, [](std::byte byte) { return byte == std::byte{0}; }));
    std::memset(data, static_cast<int>(i) + 1, pieces[i].bytes);
  });
  REQUIRE(taken.ok());
  return arena;
}

TEST_CASE(
    "packed weights are sealed, stay readable, and are found in place by another arena, with any nodes") {
  for (const auto& [of_packer, of_user] : {std::pair(1u, 1u), std::pair(2u, 4u), std::pair(3u, 1u)}) {
    CAPTURE(of_packer);
    const std::unique_ptr<SharedArena> packer = packed(kPieces, of_packer);
    CHECK(packer->file().is_sealed());
    SharedArena user(packer->passed(), of_user);
    REQUIRE(user.expect().ok());
    CHECK(user.arena().is_filled());
    const Result<void> taken = user.take(kPieces, [&](size_t i, const std::byte* data) {
      CHECK(reinterpret_cast<uintptr_t>(data) % 64 == 0);
      CHECK(std::all_of(data, data + kPieces[i].bytes,
                        [&](std::byte byte) { return byte == std::byte(static_cast<uint8_t>(i + 1)); }));
    });
    CHECK(taken.ok());
    CHECK(user.arena().bytes() == packer->arena().bytes());
  }
}

// The pages of the file; a thread that writes to one that the system has not provided gets a SIGBUS.
uint64_t provided_bytes(const MemoryFile& file) {
  struct stat status {};
  REQUIRE(fstat(file.descriptor(), &status) == 0);
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

TEST_CASE(
    "with several nodes pages are provided piece by piece, in sections too, and with one many at once") {
  for (const uint32_t num_nodes : {1u, 2u, 4u}) {
    CAPTURE(num_nodes);
    const std::unique_ptr<ThreadPool> threads = test::pool_on_nodes(5, num_nodes);
    MemoryFile file = empty_file();
    WeightArena arena(file, *threads);
    constexpr uint64_t kAll = 64 * kMiB;
    REQUIRE(arena.expect(kAll, kModel).ok());
    uint64_t num_taken = 0;
    for (const uint32_t num_sections : {1u, 3u, 8u}) {
      const uint64_t bytes = 6 * kMiB * num_sections / 3;
      const Result<std::byte*> taken = arena.take(bytes, "a", num_sections);
      REQUIRE(taken.ok());
      num_taken += bytes;
      CHECK(provided_bytes(file) >= num_taken);
      if (num_nodes == 1)
        CHECK(provided_bytes(file) >= kAll);
      else
        CHECK(provided_bytes(file) <= num_taken + 2 * Memory::kHugePageBytes);
      std::memset(*taken, 1, bytes);
    }
  }
}

// Bytes of files in memory of this name that this process has mapped in huge pages.
uint64_t bytes_in_huge_pages(const std::string& name) {
  std::ifstream smaps("/proc/self/smaps");
  uint64_t bytes = 0;
  bool is_named = false;
  for (std::string line; std::getline(smaps, line);) {
    uint64_t kib = 0;
    if (line.find("/memfd:") != line.npos || line.find(':') > line.find(' '))
      is_named = line.find("/memfd:" + name) != line.npos;
    else if (is_named && std::sscanf(line.c_str(), "ShmemPmdMapped: %" SCNu64, &kib) == 1)
      bytes += kib * 1024;
  }
  return bytes;
}

// Whether the system makes a huge page of a file in memory (MADV_COLLAPSE).
bool collapses() {
  Result<MemoryFile> file = MemoryFile::create("runnel-probe");
  REQUIRE(file.ok());
  REQUIRE(file->resize(Memory::kHugePageBytes).ok());
  Result<Memory> memory = Memory::map(*file, 0, Memory::kHugePageBytes, Access::kWrite, "a test");
  REQUIRE(memory.ok());
  memory->data()[0] = std::byte{1};
  return madvise(memory->data(), memory->bytes(), 25) == 0;
}

TEST_CASE("packed weights lie in huge pages, for the one that packed them and for the next one") {
  if (!collapses()) {
    MESSAGE("not run: the system collapses no pages of files in memory");
    return;
  }
  const std::unique_ptr<SharedArena> packer = packed(kPieces);
  const uint64_t of_packer = bytes_in_huge_pages("runnel-test");
  CHECK(of_packer >= 6 * kMiB);
  SharedArena user(packer->passed());
  REQUIRE(user.expect().ok());
  REQUIRE(user.take(kPieces, ignore).ok());
  CHECK(bytes_in_huge_pages("runnel-test") == 2 * of_packer);
}

TEST_CASE("the arena that packed weights reads them where they were") {
  SharedArena arena(empty_file());
  REQUIRE(arena.expect().ok());
  std::vector<std::byte*> taken;
  REQUIRE(arena
              .take(kPieces,
                    [&](size_t i, std::byte* data) {
                      std::memset(data, static_cast<int>(i) + 1, kPieces[i].bytes);
                      taken.push_back(data);
                    })
              .ok());
  for (size_t i = 0; i < kPieces.size(); ++i) {
    CHECK(taken[i][0] == std::byte(static_cast<uint8_t>(i + 1)));
    CHECK(taken[i][kPieces[i].bytes - 1] == std::byte(static_cast<uint8_t>(i + 1)));
  }
}

// The sentence of a refusal, without its beginning and its advice.
std::string fault_of(const Result<void>& refused) {
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().exit_code == ExitCode::kTryAgain);
  const std::string& message = refused.error().message;
  REQUIRE(message.starts_with("--weights-fd "));
  const std::string advice = ". Start without it, and the weights are packed anew.";
  REQUIRE(message.ends_with(advice));
  const size_t begin = message.find(' ', std::string("--weights-fd ").size()) + 1;
  return message.substr(begin, message.size() - advice.size() - begin);
}

// A sealed file that begins with this header.
MemoryFile file_with(const WeightsHeader& header, uint64_t bytes = 8 * kMiB) {
  MemoryFile file = empty_file();
  REQUIRE(file.resize(bytes).ok());
  REQUIRE(pwrite(file.descriptor(), &header, sizeof header, 0) == sizeof header);
  REQUIRE(file.seal(Seals::kAll).ok());
  return file;
}

WeightsHeader good_header() {
  const std::unique_ptr<SharedArena> packer = packed(kPieces);
  WeightsHeader header;
  REQUIRE(pread(packer->file().descriptor(), &header, sizeof header, 0) == sizeof header);
  return header;
}

std::string fault_with(const std::function<void(WeightsHeader&)>& change) {
  WeightsHeader header = good_header();
  change(header);
  SharedArena user(file_with(header));
  return fault_of(user.expect());
}

TEST_CASE("packed weights of another kind, layout or model are refused by name before they are used") {
  CHECK(fault_with([](WeightsHeader& header) { header.magic[0] = 'X'; }) == "holds no weights");
  CHECK(fault_with([](WeightsHeader& header) { header.layout += 1; }) ==
        "has weights in layout " + std::to_string(kWeightsLayout + 1) + ", and this runner reads " +
            std::to_string(kWeightsLayout));
  const std::string other = "has the weights of another model than " + kModel;
  CHECK(fault_with([](WeightsHeader& header) { header.identity[3] ^= 1; }) == other);
  CHECK(fault_with([](WeightsHeader& header) { header.identity_bytes -= 1; }) == other);
  CHECK(fault_with([](WeightsHeader& header) { header.identity_bytes = ~0u; }) == other);
  CHECK(fault_with([](WeightsHeader& header) { header.num_bytes = 9 * kMiB; }) ==
        "has 8388608 bytes of 9437184");
  SharedArena of_zeros(file_with({}));
  CHECK(fault_of(of_zeros.expect()) == "holds no weights");
  MemoryFile nothing = empty_file();
  REQUIRE(nothing.seal(Seals::kAll).ok());
  SharedArena of_nothing(std::move(nothing));
  CHECK(fault_of(of_nothing.expect()) == "is too short for a header");
  SharedArena of_other_model(packed(kPieces)->passed());
  CHECK(fault_of(of_other_model.expect("xxh3-other")) == "has the weights of another model than xxh3-other");
}

TEST_CASE("packed weights that end before those of the model are refused") {
  WeightsHeader header = good_header();
  header.num_bytes = 4 * kMiB;
  SharedArena user(file_with(header, 4 * kMiB));
  REQUIRE(user.expect().ok());
  CHECK(fault_of(user.take(kPieces, ignore)) == "ends before c");
}

TEST_CASE("packed weights in another order, of other names or sizes, or more of them are refused") {
  const std::unique_ptr<SharedArena> packer = packed(kPieces);
  const std::string fault = "holds other matrices, or in another order, than this runner takes of the model";
  const std::vector<std::vector<Piece>> others = {
      {kPieces[1], kPieces[0], kPieces[2], kPieces[3]},
      {kPieces[0], kPieces[1], kPieces[2], {"e", 3}},
      {kPieces[0], kPieces[1], kPieces[2], {"d", 200}},
      {{"a", kMiB}, {"b", 100}, kPieces[2], kPieces[3]},  // the same names, and as many bytes in all
      {kPieces[0], kPieces[1], kPieces[2]},
  };
  for (const std::vector<Piece>& pieces : others) {
    SharedArena user(packer->passed());
    REQUIRE(user.expect().ok());
    CHECK(fault_of(user.take(pieces, ignore)) == fault);
  }
}

TEST_CASE("where the system has no room for a file in memory, the weights are the process's own") {
  MemoryFile fixed = empty_file();
  REQUIRE(fcntl(fixed.descriptor(), F_ADD_SEALS, F_SEAL_GROW) == 0);
  SharedArena arena(std::move(fixed));
  REQUIRE(arena.expect().ok());
  CHECK(arena.take(kPieces, ignore).ok());
  CHECK_FALSE(arena.file().is_sealed());
}

}  // namespace
}  // namespace runnel
