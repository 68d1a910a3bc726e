// Grammars that XGrammar has compiled for a vocabulary, and the masks that they give. Only these files know
// XGrammar: they turn its exceptions into Errors, and bound its memory and time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runner/engine/grammar_source.h"
#include "runner/result.h"
#include "runner/sampling/token_mask.h"

namespace runnel {

// Limits of compiling one grammar: memory at any time, and processor time.
constexpr size_t kMaxCompileBytes = size_t{256} << 20;
constexpr std::chrono::milliseconds kMaxCompileTime{10'000};
// Limits of the memory of one compiled grammar, and of all that are cached or in use.
constexpr size_t kMaxCompiledBytes = size_t{48} << 20;
constexpr size_t kMaxAllCompiledBytes = size_t{256} << 20;
// Limit of the memory of one request's place in its grammar.
constexpr size_t kMaxMatcherBytes = size_t{16} << 20;
// Limits of the processor time of one mask, and of all masks of a request.
struct MaskLimits {
  std::chrono::milliseconds one{500};
  std::chrono::milliseconds request{30'000};
};
// Limit of the whitespace at each place where JSON may have any.
constexpr int kMaxJsonWhitespace = 20;

class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;

  // Memory in bytes, without the vocabulary.
  virtual size_t num_bytes() const = 0;
  // A mask for one request. A stop id is allowed exactly where the grammar may end, whatever its spelling is.
  // Fails with kUsage if a mask of this grammar has exceeded a limit of time, unless its masks are quick and
  // were only many. Masks of one grammar may be filled at the same time.
  virtual Result<std::shared_ptr<TokenMask>> mask(std::span<const uint32_t> stop_ids,
                                                  const MaskLimits& limits = {}) const = 0;
};

// The spellings of a model's ids, prepared for grammars. Any thread may use it.
class GrammarVocabulary {
 public:
  virtual ~GrammarVocabulary() = default;

  // spellings are those of the ids from 0 on. A grammar never draws an id with an empty spelling. Ids from
  // spellings.size() to vocab_size have none. Takes as long as sorting the spellings.
  static std::unique_ptr<GrammarVocabulary> prepare(std::vector<std::string> spellings, uint32_t vocab_size);

  // Fails with kUsage and a sentence that says what is wrong with the source, or which limit it exceeds, and
  // with kSystem if all compiled grammars would exceed kMaxAllCompiledBytes. Needs the stack of a DeepThread.
  virtual Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSource& source) const = 0;
};

}  // namespace runnel
