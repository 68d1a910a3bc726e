#include "runner/grammar/grammar_cache.h"

#include <string>

#include "test/unit_test.h"

namespace runnel {
namespace {

class FakeGrammar final : public CompiledGrammar {
 public:
  explicit FakeGrammar(size_t num_bytes) : num_bytes_(num_bytes) {}
  size_t num_bytes() const override { return num_bytes_; }
  Result<std::shared_ptr<TokenMask>> mask(std::span<const uint32_t>, const MaskLimits&) const override {
    return std::shared_ptr<TokenMask>();
  }

 private:
  size_t num_bytes_;
};

GrammarSource numbered(size_t number) {
  return {.kind = GrammarKind::kRegex, .text = std::to_string(number)};
}
CompileResult of_bytes(size_t num_bytes) {
  return std::shared_ptr<const CompiledGrammar>(std::make_shared<FakeGrammar>(num_bytes));
}

TEST_CASE("grammar cache: sources differ by kind, strictness and text") {
  GrammarCache cache;
  cache.add({.kind = GrammarKind::kJsonSchema, .strict = true, .text = "{}"}, of_bytes(10));
  CHECK(cache.find({.kind = GrammarKind::kJsonSchema, .strict = true, .text = "{}"}));
  CHECK_FALSE(cache.find({.kind = GrammarKind::kJsonSchema, .text = "{}"}));
  CHECK_FALSE(cache.find({.kind = GrammarKind::kRegex, .strict = true, .text = "{}"}));
  CHECK_FALSE(cache.find({.kind = GrammarKind::kJsonSchema, .strict = true, .text = "{ }"}));
}

TEST_CASE("grammar cache: keeps those used last, by bytes and by number") {
  GrammarCache cache;
  const size_t quarter = kMaxGrammarCacheBytes / 4;
  for (size_t i = 0; i < 3; ++i) cache.add(numbered(i), of_bytes(quarter));
  CHECK(cache.find(numbered(0)));
  cache.add(numbered(3), of_bytes(quarter));
  CHECK_FALSE(cache.find(numbered(1)));
  CHECK(cache.find(numbered(0)));
  CHECK(cache.find(numbered(2)));
  for (size_t i = 100; i < 100 + 2 * kMaxCachedGrammars; ++i) cache.add(numbered(i), of_bytes(1));
  CHECK(cache.size() == kMaxCachedGrammars);
  CHECK(cache.num_bytes() < kMaxGrammarCacheBytes);
  CHECK_FALSE(cache.find(numbered(0)));
}

TEST_CASE("grammar cache: a grammar larger than the cache is not kept; a refusal is") {
  GrammarCache cache;
  cache.add(numbered(1), of_bytes(kMaxGrammarCacheBytes));
  CHECK(cache.size() == 0);
  CHECK(cache.num_bytes() == 0);
  cache.add(numbered(2), Error{ExitCode::kUsage, "No."});
  CHECK(cache.find(numbered(2))->error().message == "No.");
}

}  // namespace
}  // namespace runnel
