// A grammar as a request names it, not compiled yet: all that the answer may be.
#pragma once

#include <cstdint>
#include <string>

#include "runner/result.h"

namespace runnel {

// Of the source.
constexpr uint32_t kMaxGrammarBytes = 256u << 10;
// Of brackets inside each other, of any kind.
constexpr uint32_t kMaxGrammarDepth = 128;

enum class GrammarKind : uint8_t {
  kUnknown,        // refused
  kJsonSchema,     // JSON that a JSON Schema describes
  kJsonObject,     // any JSON object; there is no source
  kRegex,          // text that a regular expression matches as a whole
  kEbnf,           // rules in XGrammar's EBNF, from the one named root
  kStructuralTag,  // XGrammar's structural tag, as JSON
};

struct GrammarSource {
  GrammarKind kind = GrammarKind::kUnknown;
  bool strict = false;  // of a JSON Schema: properties and items that it does not name are not allowed
  std::string text = {};

  friend auto operator<=>(const GrammarSource&, const GrammarSource&) = default;
};

// Fails with kUsage and a sentence: too long, too deep, not there, or not wanted.
Result<void> check_grammar(const GrammarSource& grammar);

}  // namespace runnel
