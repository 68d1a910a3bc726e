#include "runner/engine/grammar_source.h"

#include <algorithm>
#include <string_view>

namespace runnel {
namespace {

// Counts brackets wherever they stand, also in quotes: a text that is not deep here is not deep in any of the
// languages. Texts that only look deep because of their strings are refused too.
uint32_t depth_of(std::string_view text) {
  uint32_t depth = 0;
  uint32_t deepest = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;  // an escaped bracket does not count
    } else if (text[i] == '(' || text[i] == '[' || text[i] == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (text[i] == ')' || text[i] == ']' || text[i] == '}') {
      depth -= depth > 0;
    }
  }
  return deepest;
}

Error refusal(const std::string& sentence) {
  return {ExitCode::kUsage, sentence};
}

}  // namespace

Result<void> check_grammar(const GrammarSource& grammar) {
  const std::string& text = grammar.text;
  if (grammar.kind == GrammarKind::kUnknown)
    return refusal("grammar.kind is not one that this runner knows.");
  if (grammar.kind == GrammarKind::kJsonObject) {
    if (text.empty()) return {};
    return refusal("grammar.source must be empty for GRAMMAR_KIND_JSON_OBJECT; it has " +
                   std::to_string(text.size()) + " bytes.");
  }
  if (text.empty())
    return refusal("grammar.source is empty; it may be empty only for GRAMMAR_KIND_JSON_OBJECT.");
  if (text.size() > kMaxGrammarBytes) {
    return refusal("grammar.source has " + std::to_string(text.size()) + " bytes; the limit is " +
                   std::to_string(kMaxGrammarBytes) + ".");
  }
  if (const uint32_t depth = depth_of(text); depth > kMaxGrammarDepth) {
    return refusal("grammar.source has brackets " + std::to_string(depth) +
                   " deep inside each other; the limit is " + std::to_string(kMaxGrammarDepth) + ".");
  }
  return {};
}

}  // namespace runnel
