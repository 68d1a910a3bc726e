// Compiles the grammars of requests one after the other, on a thread of its own: a step of the others does
// not wait for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runner/deep_thread.h"
#include "runner/grammar/compiled_grammar.h"
#include "runner/grammar/grammar_cache.h"

namespace runnel {

// From when a request comes to when its grammar is compiled, those of others before it included.
constexpr std::chrono::seconds kMaxGrammarWait{30};

class GrammarCompiler {
 public:
  // on_compiled is called by the thread each time that there is something to take.
  GrammarCompiler(std::vector<std::string> spellings, uint32_t vocab_size, std::function<void()> on_compiled);
  // Waits for the grammar that is being compiled.
  ~GrammarCompiler();
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;

  // The id must not be waiting already.
  void submit(uint32_t request_id, const GrammarSource& source);
  // Nothing more is said of it.
  void forget(uint32_t request_id);

  struct Compiled {
    uint32_t request_id;
    CompileResult grammar;
  };
  // Those that are compiled, or not: with kUsage because of themselves, with kSystem because of others, such
  // as those that have waited for kMaxGrammarWait. In the order in which they came.
  std::vector<Compiled> take();
  // The one, when it is compiled. It must have been submitted.
  CompileResult wait_for(uint32_t request_id);
  // Waits until there is something to take, at most so long.
  void wait(std::chrono::milliseconds at_most);

 private:
  struct Waiting {
    uint32_t request_id;
    GrammarSource source;
    std::chrono::steady_clock::time_point since;
    std::optional<CompileResult> grammar;  // if it is compiled
  };

  void work();
  // The first that is not compiled; null if there is none.
  Waiting* next();

  std::vector<std::string> spellings_;  // until the thread has begun
  const uint32_t vocab_size_;
  const std::function<void()> on_compiled_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  GrammarCache cache_;
  bool is_stopping_ = false;
  DeepThread thread_;
  bool has_thread_ = false;
};

}  // namespace runnel
