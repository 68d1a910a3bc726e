// Compiles the grammars of requests one after the other, on a thread of its own, so that steps of other
// requests do not wait for it.
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

#include "runner/grammar/compiled_grammar.h"
#include "runner/grammar/grammar_cache.h"
#include "runner/system/deep_thread.h"

namespace runnel {

// Limit of the time from the submission of a request until its grammar is compiled, including the grammars
// before it.
constexpr std::chrono::seconds kMaxGrammarWait{30};

class GrammarCompiler {
 public:
  // The compiling thread calls on_compiled whenever there is something to take.
  GrammarCompiler(std::vector<std::string> spellings, uint32_t vocab_size, std::function<void()> on_compiled);
  // Waits until the grammar that is being compiled is done.
  ~GrammarCompiler();
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;

  // No grammar may be waiting for this request id.
  void submit(uint32_t request_id, const GrammarSource& source);
  // Drops the request. take() does not return it any more.
  void forget(uint32_t request_id);

  struct Compiled {
    uint32_t request_id;
    CompileResult grammar;
  };
  // Takes the results that are there, in the order of submission. Errors are kUsage if the grammar is at
  // fault, and kSystem if others are, for one when the request has waited for kMaxGrammarWait.
  std::vector<Compiled> take();
  // Waits for the result of one request and takes it. The request must have been submitted.
  CompileResult wait_for(uint32_t request_id);
  // Waits until there is something to take, or this time has passed.
  void wait(std::chrono::milliseconds at_most);

 private:
  struct Waiting {
    uint32_t request_id;
    GrammarSource source;
    std::chrono::steady_clock::time_point since;
    std::optional<CompileResult> grammar;  // once it is compiled
  };

  void work();
  // The first request without a result; null if there is none.
  Waiting* next();

  std::vector<std::string> spellings_;  // moved from when the thread begins
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
