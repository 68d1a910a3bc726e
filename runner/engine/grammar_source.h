// A grammar as a request states it, not compiled yet: it describes all possible answers.
#pragma once

#include <cstdint>
#include <string>

#include "runner/result.h"

namespace runnel {

// Limit of the bytes of the source.
constexpr uint32_t kMaxGrammarBytes = 256u << 10;
// Limit of brackets of any kind inside each other.
constexpr uint32_t kMaxGrammarDepth = 128;

enum class GrammarKind : uint8_t {
  kUnknown,        // refused
  kJsonSchema,     // JSON that a JSON Schema describes
  kJsonObject,     // any JSON object; without a source
  kRegex,          // text that a regular expression matches as a whole
  kEbnf,           // rules in XGrammar's EBNF, from the rule named root on
  kStructuralTag,  // XGrammar's structural tag, as JSON
};

struct GrammarSource {
  GrammarKind kind = GrammarKind::kUnknown;
  bool strict = false;  // for a JSON Schema: properties and items that it does not name are not allowed
  std::string text = {};

  friend auto operator<=>(const GrammarSource&, const GrammarSource&) = default;
};

// Fails with kUsage and a sentence if the source is too long, too deep, missing, or not allowed for its kind.
Result<void> check_grammar(const GrammarSource& grammar);

}  // namespace runnel
