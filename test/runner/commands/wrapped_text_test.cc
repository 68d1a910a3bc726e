#include "runner/commands/wrapped_text.h"

#include "test/unit_test.h"

namespace runnel {
namespace {

TEST_CASE("wrapped text: lines are as long as they may be, and no longer") {
  CHECK(wrapped("", 5).empty());
  CHECK(wrapped("ab cd", 5) == "ab cd");
  CHECK(wrapped("ab cde", 5) == "ab\ncde");
  CHECK(wrapped("a b c d", 3) == "a b\nc d");
}

TEST_CASE("wrapped text: a word longer than a line gets its own line") {
  CHECK(wrapped("abcdef g", 3) == "abcdef\ng");
  CHECK(wrapped("a bcdef g", 3) == "a\nbcdef\ng");
}

}  // namespace
}  // namespace runnel
