#include "runner/grammar/grammar_compiler.h"

#include <algorithm>
#include <utility>

#include "runner/check.h"

namespace runnel {
namespace {

Error no_thread() {
  return {ExitCode::kSystem, "The system refuses the thread that compiles grammars."};
}

Error waited_too_long() {
  return {ExitCode::kSystem, "The grammar has waited for " + std::to_string(kMaxGrammarWait.count()) +
                                 " s behind those of others that are being compiled. Try again later."};
}

}  // namespace

GrammarCompiler::GrammarCompiler(std::vector<std::string> spellings, uint32_t vocab_size,
                                 std::function<void()> on_compiled)
    : spellings_(std::move(spellings)), vocab_size_(vocab_size), on_compiled_(std::move(on_compiled)) {
  has_thread_ = thread_.start([this] { work(); });
}

GrammarCompiler::~GrammarCompiler() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void GrammarCompiler::submit(uint32_t request_id, const GrammarSource& source) {
  {
    const std::lock_guard lock(mutex_);
    std::optional<CompileResult> known = cache_.find(source);
    if (!has_thread_) known = no_thread();
    waiting_.push_back({request_id, source, std::chrono::steady_clock::now(), std::move(known)});
  }
  changed_.notify_all();
}

void GrammarCompiler::forget(uint32_t request_id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [&](const Waiting& entry) { return entry.request_id == request_id; });
}

std::vector<GrammarCompiler::Compiled> GrammarCompiler::take() {
  const std::lock_guard lock(mutex_);
  const auto last_start = std::chrono::steady_clock::now() - kMaxGrammarWait;
  std::vector<Compiled> taken;
  std::erase_if(waiting_, [&](Waiting& entry) {
    if (!entry.grammar && entry.since < last_start) entry.grammar = waited_too_long();
    if (!entry.grammar) return false;
    taken.push_back({entry.request_id, *std::move(entry.grammar)});
    return true;
  });
  return taken;
}

CompileResult GrammarCompiler::wait_for(uint32_t request_id) {
  std::unique_lock lock(mutex_);
  const auto find = [&] { return std::ranges::find(waiting_, request_id, &Waiting::request_id); };
  CHECK(find() != waiting_.end());
  changed_.wait(lock, [&] { return find()->grammar.has_value(); });
  CompileResult grammar = *std::move(find()->grammar);
  waiting_.erase(find());
  return grammar;
}

void GrammarCompiler::wait(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, at_most, [&] {
    return std::ranges::any_of(waiting_, [](const Waiting& entry) { return entry.grammar.has_value(); });
  });
}

GrammarCompiler::Waiting* GrammarCompiler::next() {
  const auto entry = std::ranges::find_if(waiting_, [](const Waiting& each) { return !each.grammar; });
  return entry == waiting_.end() ? nullptr : &*entry;
}

void GrammarCompiler::work() {
  lower_priority();
  const std::unique_ptr<GrammarVocabulary> vocabulary =
      GrammarVocabulary::prepare(std::exchange(spellings_, {}), vocab_size_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_stopping_ || next() != nullptr; });
    if (is_stopping_) return;
    const GrammarSource source = next()->source;
    std::optional<CompileResult> result = cache_.find(source);
    if (!result) {
      lock.unlock();
      result = vocabulary->compile(source);
      lock.lock();
      // An error for lack of memory is not cached, since the next attempt may succeed.
      if (result->ok() || result->error().exit_code == ExitCode::kUsage) cache_.add(source, *result);
    }
    // The result goes to all requests that wait for the same source and were not forgotten.
    for (Waiting& entry : waiting_)
      if (!entry.grammar && entry.source == source) entry.grammar = *result;
    lock.unlock();
    changed_.notify_all();
    on_compiled_();
    lock.lock();
  }
}

}  // namespace runnel
