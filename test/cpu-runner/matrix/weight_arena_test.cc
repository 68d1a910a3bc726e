#include "cpu-runner/matrix/weight_arena.h"

#include <cstdint>

#include "test/unit_test.h"

namespace runnel {
namespace {

TEST_CASE("the expected weights share one zeroed mapping, aligned and in order") {
  WeightArena arena;
  constexpr uint64_t kBytes = uint64_t{8} << 20;
  REQUIRE(arena.expect(kBytes).ok());
  std::byte* const first = *arena.take(100, "a");
  std::byte* const second = *arena.take(kBytes - 128, "b");
  CHECK(reinterpret_cast<uintptr_t>(first) % Memory::kHugePageBytes == 0);
  CHECK(second == first + 128);
  CHECK(second[kBytes - 129] == std::byte{0});
  CHECK(arena.bytes() == kBytes);
}

TEST_CASE("weights beyond the expected size get memory too") {
  WeightArena arena;
  REQUIRE(arena.expect(1 << 20).ok());
  for (int i = 0; i < 5; ++i) {
    const Result<std::byte*> data = arena.take(1 << 20, "a weight");
    REQUIRE(data.ok());
    (*data)[(1 << 20) - 1] = std::byte{1};
  }
  WeightArena unannounced;
  CHECK(unannounced.take(1, "a weight").ok());
}

TEST_CASE("weights that no memory can hold are refused with their size") {
  WeightArena arena;
  const Result<void> refused = arena.expect(uint64_t{1} << 60);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().exit_code == ExitCode::kSystem);
  CHECK(refused.error().message.find("bytes for the model's weights") != std::string::npos);
  CHECK_FALSE(arena.take(uint64_t{1} << 60, "a weight").ok());
}

}  // namespace
}  // namespace runnel
