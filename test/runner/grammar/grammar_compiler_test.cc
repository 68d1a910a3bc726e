#include "runner/grammar/grammar_compiler.h"

#include <atomic>

#include "test/fixtures/byte_vocabulary.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

GrammarSource pattern(const std::string& text) {
  return {.kind = GrammarKind::kRegex, .text = text};
}

// Waits until `count` compiled grammars are taken.
std::vector<GrammarCompiler::Compiled> take(GrammarCompiler& compiler, size_t count) {
  std::vector<GrammarCompiler::Compiled> all;
  while (all.size() < count) {
    compiler.wait(std::chrono::milliseconds(1000));
    for (GrammarCompiler::Compiled& compiled : compiler.take()) all.push_back(std::move(compiled));
  }
  return all;
}

TEST_CASE("grammar compiler: each request gets what its source is compiled to, or why it is not") {
  std::atomic<uint32_t> num_calls = 0;
  GrammarCompiler compiler(test::byte_spellings(), test::byte_vocab_size(), [&] { ++num_calls; });
  compiler.submit(1, pattern("a+"));
  compiler.submit(2, pattern("a("));
  compiler.submit(3, pattern("a+"));
  std::shared_ptr<const CompiledGrammar> of_first;
  for (const auto& [request_id, grammar] : take(compiler, 3)) {
    CAPTURE(request_id);
    CHECK(grammar.ok() == (request_id != 2));
    if (!grammar.ok()) continue;
    if (!of_first) of_first = *grammar;
    CHECK(*grammar == of_first);
  }
  CHECK(num_calls >= 1);
  // The grammar is cached now, so it is there at once.
  compiler.submit(4, pattern("a+"));
  compiler.submit(5, pattern("a("));
  const auto known = compiler.take();
  REQUIRE(known.size() == 2);
  CHECK(known[0].request_id == 4);
  CHECK(*known[0].grammar == of_first);
  CHECK_FALSE(known[1].grammar.ok());
}

TEST_CASE("grammar compiler: forgotten requests report nothing, and a request can be awaited") {
  GrammarCompiler compiler(test::byte_spellings(), test::byte_vocab_size(), [] {});
  compiler.submit(1, pattern("(a|b){1,200}"));
  compiler.submit(2, pattern("b+"));
  compiler.submit(3, pattern("c+"));
  compiler.forget(1);
  compiler.forget(2);
  CHECK(compiler.wait_for(3).ok());
  CHECK(compiler.take().empty());
}

}  // namespace
}  // namespace runnel
