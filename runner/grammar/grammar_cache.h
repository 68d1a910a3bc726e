// A cache of compiled grammars by their sources, which keeps those used last. It also keeps the error of a
// source that does not compile, so that a source that takes long to fail does so once.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include "runner/engine/grammar_source.h"
#include "runner/grammar/compiled_grammar.h"

namespace runnel {

using CompileResult = Result<std::shared_ptr<const CompiledGrammar>>;

// Limits of the bytes of sources and results together, and of the number of sources.
constexpr size_t kMaxGrammarCacheBytes = size_t{64} << 20;
constexpr size_t kMaxCachedGrammars = 1024;

class GrammarCache {
 public:
  // Nothing if the source is not in the cache.
  std::optional<CompileResult> find(const GrammarSource& source);
  // Does nothing if the source is in the cache.
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
