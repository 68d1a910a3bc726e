// Compiled grammars by their sources, those used last; also that a source does not compile, so that one that
// takes long to fail does so once.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include "runner/grammar/compiled_grammar.h"
#include "runner/grammar_source.h"

namespace runnel {

using CompileResult = Result<std::shared_ptr<const CompiledGrammar>>;

// Sources and what they were compiled to together, and how many.
constexpr size_t kMaxGrammarCacheBytes = size_t{64} << 20;
constexpr size_t kMaxCachedGrammars = 1024;

class GrammarCache {
 public:
  // None if it is not there.
  std::optional<CompileResult> find(const GrammarSource& source);
  // What is there of the same source stays.
  void add(const GrammarSource& source, const CompileResult& result);

  size_t num_bytes() const { return num_bytes_; }
  size_t size() const { return places_.size(); }

 private:
  struct Entry {
    GrammarSource source;
    CompileResult result;
    size_t num_bytes;
  };
  using Entries = std::list<Entry>;

  Entries entries_;  // the one used last comes first
  std::map<GrammarSource, Entries::iterator> places_;
  size_t num_bytes_ = 0;
};

}  // namespace runnel
