// Grammars compiled against a vocabulary by XGrammar, and the masks that they make. This is the one place
// that knows XGrammar: what it throws becomes an Error here, and what it may take is bounded here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runner/grammar_source.h"
#include "runner/result.h"
#include "runner/token_mask.h"

namespace runnel {

// What compiling one grammar may take, of memory at any time and of processor time.
constexpr size_t kMaxCompileBytes = size_t{256} << 20;
constexpr int kMaxCompileMs = 10'000;
// What is left when it is done, of one and of all that are cached or in use.
constexpr size_t kMaxCompiledBytes = size_t{48} << 20;
constexpr size_t kMaxAllCompiledBytes = size_t{256} << 20;
// What one request's place in its grammar may take, and the processor time for one mask.
constexpr size_t kMaxMatcherBytes = size_t{16} << 20;
constexpr int kMaxMaskMs = 500;
// Whitespace that JSON has at most at each place where it may have any.
constexpr int kMaxJsonWhitespace = 20;

class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;

  // Memory that it holds, the vocabulary not counted.
  virtual size_t num_bytes() const = 0;
  // For one request. A stop id is allowed exactly where the grammar may end, whatever its spelling. Fails
  // with kUsage.
  virtual Result<std::shared_ptr<TokenMask>> mask(std::span<const uint32_t> stop_ids) const = 0;
};

// How the ids of a model are spelled, made ready for grammars. Any thread may use it.
class GrammarVocabulary {
 public:
  virtual ~GrammarVocabulary() = default;

  // spellings: of ids from 0 on; no spelling: no grammar draws it. Ids from there to vocab_size have none.
  // Takes as long as sorting them.
  static std::unique_ptr<GrammarVocabulary> prepare(std::vector<std::string> spellings, uint32_t vocab_size);

  // Fails with kUsage and a sentence that says what is wrong with the source, or which bound it is over; with
  // kSystem if kMaxAllCompiledBytes are in use. Needs a DeepThread's stack.
  virtual Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSource& source) const = 0;
};

}  // namespace runnel
