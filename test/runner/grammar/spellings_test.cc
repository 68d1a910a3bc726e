#include "runner/grammar/spellings.h"

#include <string>

#include "test/unit_test.h"

namespace runnel {
namespace {

// The refusal of the last chunk. The chunks before it must be accepted.
std::string refusal_of_chunks(const std::vector<SpellingChunk>& chunks) {
  Spellings spellings(10);
  for (size_t i = 0; i + 1 < chunks.size(); ++i) REQUIRE(spellings.add(chunks[i]).ok());
  const Result<void> added = spellings.add(chunks.back());
  if (added.ok()) return "";
  CHECK(added.error().exit_code == ExitCode::kProtocol);
  return added.error().message;
}

TEST_CASE("spellings: come in chunks, with empty ones and any bytes") {
  Spellings spellings(10);
  CHECK(spellings.add({3, 4, 0, {0, 3}, {"\0\xff\n", 3}}).ok());
  CHECK_FALSE(spellings.is_complete());
  CHECK(spellings.add({3, 4, 2, {1}, "a"}).ok());
  REQUIRE(spellings.is_complete());
  CHECK(spellings.take() == std::vector<std::string>{"", std::string("\0\xff\n", 3), "a"});
}

TEST_CASE("spellings: chunks that were not announced or exceed a limit are refused by name") {
  CHECK(refusal_of_chunks({{0, 0, 0, {0}, ""}}) ==
        "A Vocabulary has num_tokens 0; the limit is 10. It is at least 1.");
  CHECK(refusal_of_chunks({{11, 0, 0, {0}, ""}}) ==
        "A Vocabulary has num_tokens 11; the limit is 10. It is at least 1.");
  CHECK(refusal_of_chunks({{1, kMaxSpellingBytes + 1, 0, {0}, ""}}) ==
        "A Vocabulary has num_bytes 33554433; the limit is 33554432.");
  CHECK(refusal_of_chunks({{2, 2, 0, {1}, "a"}, {3, 2, 1, {1}, "b"}}) ==
        "A Vocabulary announces other sizes than the first.");
  CHECK(refusal_of_chunks({{2, 2, 0, {1}, "a"}, {2, 2, 0, {1}, "b"}}) ==
        "A Vocabulary has first_id 0; the next is 1.");
  CHECK(refusal_of_chunks({{2, 2, 0, {}, ""}}) == "A Vocabulary has 0 lengths; 2 tokens are left.");
  CHECK(refusal_of_chunks({{2, 3, 0, {1, 1, 1}, "abc"}}) == "A Vocabulary has 3 lengths; 2 tokens are left.");
  CHECK(refusal_of_chunks({{2, 2, 0, {1, 2}, "ab"}}) == "A Vocabulary has fewer bytes than its lengths say.");
  CHECK(refusal_of_chunks({{2, 2, 0, {1}, "ab"}}) == "A Vocabulary has more bytes than its lengths say.");
  CHECK(refusal_of_chunks({{1, 1, 0, {0}, ""}}) ==
        "A Vocabulary does not have exactly the 1 bytes announced.");
  CHECK(refusal_of_chunks({{3, 1, 0, {1, 1}, "ab"}}) ==
        "A Vocabulary does not have exactly the 1 bytes announced.");
  const std::string longest(kMaxTokenBytes + 1, 'a');
  CHECK(refusal_of_chunks({{1, kMaxTokenBytes + 1, 0, {kMaxTokenBytes + 1}, longest}}) ==
        "A Vocabulary has a length 4097; the limit is 4096.");
  CHECK(refusal_of_chunks({{1, 1, 0, {1}, "a"}, {1, 1, 1, {1}, "a"}}) ==
        "A Vocabulary came after all 1 tokens had been sent.");
}

}  // namespace
}  // namespace runnel
