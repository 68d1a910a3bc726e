#include "runner/grammar/compiled_grammar.h"

#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "runner/check.h"
#include "runner/grammar/allocation_budget.h"
#include "runner/sampling/id_bits.h"
#include "runner/system/thread_time.h"

namespace runnel {
namespace {

// Limit of a message of XGrammar.
constexpr size_t kMaxReasonBytes = 500;
// Limit of the allowed ids from which one is guessed. More leave the text open.
constexpr size_t kMaxGuessedFrom = 64;
// Limit of the frames of XGrammar's recursions. A DeepThread has room for tens of kilobytes for each.
constexpr int kMaxRecursionDepth = 4000;

Error refusal(const std::string& sentence) {
  return {ExitCode::kUsage, sentence};
}

// Replaces bytes that are not printable, since a message of XGrammar may quote anything.
std::string printable(std::string_view reason) {
  std::string text(reason.substr(0, kMaxReasonBytes));
  for (char& c : text)
    if (static_cast<unsigned char>(c) >= 0x7f || static_cast<unsigned char>(c) < 0x20) c = '?';
  if (reason.size() > kMaxReasonBytes) text += " ...";
  while (!text.empty() && (text.back() == '?' || text.back() == ' ')) text.pop_back();
  return text;
}

// The first ids of a set, at most max_ids.
std::vector<uint32_t> first_ids(std::span<const uint32_t> bits, size_t max_ids) {
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < bits.size() && ids.size() < max_ids; ++i)
    for (uint32_t word = bits[i]; word != 0 && ids.size() < max_ids; word &= word - 1)
      ids.push_back(32 * i + static_cast<uint32_t>(std::countr_zero(word)));
  return ids;
}

// Calls fn, which calls XGrammar, within the budget. The message of an error begins with `what`.
template <typename Fn>
auto within(AllocationBudget& budget, std::chrono::milliseconds max_time, size_t max_bytes,
            const std::string& what, const Fn& fn) -> Result<decltype(fn())> {
  std::optional<decltype(fn())> value;
  std::string reason;
  try {
    const AllocationBudget::Scope scope(budget, max_time);
    value.emplace(fn());
  } catch (const std::bad_alloc&) {
  } catch (const std::exception& error) {
    reason = printable(error.what());
  }
  if (budget.is_spent()) {
    const std::string limit = budget.was_time() ? std::to_string(max_time.count()) + " ms of processor time"
                                                : std::to_string(max_bytes) + " bytes of memory";
    return refusal(what + " takes more than the limit of " + limit + ". Ask for something simpler.");
  }
  if (value) return *std::move(value);
  if (reason.empty()) reason = "the system refused memory";
  return refusal(what + " fails: " + reason + (reason.ends_with('.') ? "" : "."));
}

class XGrammarGrammar final : public CompiledGrammar, public std::enable_shared_from_this<XGrammarGrammar> {
 public:
  // live_bytes is shared by all compiled grammars and has their total.
  XGrammarGrammar(xgrammar::CompiledGrammar compiled, size_t num_bytes,
                  std::shared_ptr<std::atomic<size_t>> live_bytes)
      : compiled_(std::move(compiled)), num_bytes_(num_bytes), live_bytes_(std::move(live_bytes)) {
    *live_bytes_ += num_bytes_;
  }
  ~XGrammarGrammar() override { *live_bytes_ -= num_bytes_; }

  const xgrammar::CompiledGrammar& compiled() const { return compiled_; }
  // From now on the grammar gives no masks. Any thread may call it.
  void refuse() const { is_refused_ = true; }

  size_t num_bytes() const override { return num_bytes_; }
  Result<std::shared_ptr<TokenMask>> mask(std::span<const uint32_t> stop_ids,
                                          const MaskLimits& limits) const override;

 private:
  xgrammar::CompiledGrammar compiled_;
  size_t num_bytes_;
  std::shared_ptr<std::atomic<size_t>> live_bytes_;
  mutable std::atomic<bool> is_refused_ = false;
};

class GrammarMask final : public TokenMask {
 public:
  GrammarMask(std::shared_ptr<const XGrammarGrammar> grammar, std::span<const uint32_t> stop_ids,
              const MaskLimits& limits)
      : grammar_(std::move(grammar)), stop_ids_(stop_ids.begin(), stop_ids.end()), limits_(limits) {}

  Result<void> fill(std::span<const uint32_t> generated_ids, std::span<uint32_t> allowed_bits) override {
    const std::chrono::nanoseconds began = thread_time();
    Result<void> filled = follow(generated_ids);
    if (filled.ok()) filled = write(allowed_bits);
    ++num_masks_;
    spent_ += thread_time() - began;
    if (budget_->was_time() || (spent_ > limits_.request && spent_ / num_masks_ > kQuickMask))
      grammar_->refuse();
    if (!filled.ok()) begin_anew();
    if (!filled.ok() || spent_ <= limits_.request) return filled;
    return refusal("The masks of this request take more than the limit of " +
                   std::to_string(limits_.request.count()) +
                   " ms of processor time. Ask for something simpler, or for fewer tokens.");
  }

  // The longest of the allowed spellings with which all others agree: they begin it, or go on after it.
  std::optional<uint32_t> guess(std::span<const uint32_t> allowed_bits) const override {
    if (!may_guess_) return std::nullopt;
    const std::vector<std::string>& spellings = grammar_->compiled().GetTokenizerInfo().GetDecodedVocab();
    const std::vector<uint32_t> ids = first_ids(allowed_bits, kMaxGuessedFrom + 1);
    if (ids.size() > kMaxGuessedFrom) return std::nullopt;
    const auto agree = [&](uint32_t a, uint32_t b) {
      return spellings[a].starts_with(spellings[b]) || spellings[b].starts_with(spellings[a]);
    };
    std::optional<uint32_t> longest;
    for (const uint32_t id : ids) {
      // Where the text may end, nothing is guessed.
      if (id >= spellings.size() || std::ranges::count(stop_ids_, id) > 0) return std::nullopt;
      if (longest && spellings[id].size() <= spellings[*longest].size()) continue;
      if (std::ranges::all_of(ids, [&](uint32_t other) { return agree(id, other); })) longest = id;
    }
    return longest;
  }

 private:
  template <typename Fn>
  auto within_limits(const Fn& fn) {
    return within(*budget_, limits_.one, kMaxMatcherBytes, "Following the grammar", fn);
  }

  Result<void> follow(std::span<const uint32_t> generated_ids) {
    if (!matcher_) {
      auto matcher = within_limits([&] {
        return xgrammar::GrammarMatcher(grammar_->compiled(),
                                        std::vector<int>(stop_ids_.begin(), stop_ids_.end()));
      });
      if (!matcher.ok()) return matcher.error();
      matcher_ = *std::move(matcher);
    }
    // Ids that were guessed and not drawn.
    const auto end = std::ranges::mismatch(accepted_ids_, generated_ids).in1;
    if (const int num_wrong = static_cast<int>(accepted_ids_.end() - end); num_wrong > 0) {
      const Result<bool> left = within_limits([&] {
        matcher_->Rollback(num_wrong);
        return true;
      });
      if (!left.ok()) return left.error();
      accepted_ids_.erase(end, accepted_ids_.end());
    }
    // A continued answer may have many new ids at once.
    for (const uint32_t id : generated_ids.subspan(accepted_ids_.size())) {
      const Result<bool> accepted =
          within_limits([&] { return matcher_->AcceptToken(static_cast<int32_t>(id)); });
      if (!accepted.ok()) return accepted.error();
      if (!*accepted) {
        return refusal("Token " + std::to_string(accepted_ids_.size()) + " of the answer, id " +
                       std::to_string(id) + ", is not what the grammar allows there.");
      }
      accepted_ids_.push_back(id);
    }
    return {};
  }

  // After a failure. Since it may have come from a guess, nothing is guessed any more.
  void begin_anew() {
    may_guess_ = false;
    matcher_.reset();
    budget_.emplace(kMaxMatcherBytes);
    accepted_ids_.clear();
  }

  Result<void> write(std::span<uint32_t> allowed_bits) {
    if (matcher_->IsTerminated()) {
      std::ranges::fill(allowed_bits, 0);
      return {};
    }
    int64_t shape = static_cast<int64_t>(allowed_bits.size());
    DLTensor tensor{.data = allowed_bits.data(),
                    .device = {kDLCPU, 0},
                    .ndim = 1,
                    .dtype = xgrammar::GetBitmaskDLType(),
                    .shape = &shape,
                    .strides = nullptr,
                    .byte_offset = 0};
    const Result<bool> filled = within_limits([&] {
      matcher_->FillNextTokenBitmask(&tensor);
      return matcher_->IsCompleted();
    });
    if (!filled.ok()) return filled.error();
    for (const uint32_t id : stop_ids_) set_id(allowed_bits, id, *filled);
    return {};
  }

  std::shared_ptr<const XGrammarGrammar> grammar_;
  std::vector<uint32_t> stop_ids_;
  MaskLimits limits_;
  std::optional<AllocationBudget> budget_{kMaxMatcherBytes};
  std::optional<xgrammar::GrammarMatcher> matcher_;  // from the first mask on
  std::vector<uint32_t> accepted_ids_;               // that the matcher has taken
  bool may_guess_ = true;
  uint32_t num_masks_ = 0;
  std::chrono::nanoseconds spent_{};
};

Result<std::shared_ptr<TokenMask>> XGrammarGrammar::mask(std::span<const uint32_t> stop_ids,
                                                         const MaskLimits& limits) const {
  if (is_refused_) {
    return refusal(
        "Following this grammar has taken more than the limit of processor time before. Ask for something "
        "simpler.");
  }
  return std::shared_ptr<TokenMask>(std::make_shared<GrammarMask>(shared_from_this(), stop_ids, limits));
}

xgrammar::CompiledGrammar compile_json(xgrammar::GrammarCompiler& compiler, const std::string& schema,
                                       bool strict) {
  return compiler.CompileJSONSchema(schema, /*any_whitespace=*/true, std::nullopt, std::nullopt, strict,
                                    kMaxJsonWhitespace);
}

xgrammar::CompiledGrammar compile_source(xgrammar::GrammarCompiler& compiler, const GrammarSource& source) {
  switch (source.kind) {
    case GrammarKind::kJsonSchema:
      return compile_json(compiler, source.text, source.strict);
    case GrammarKind::kJsonObject:
      return compile_json(compiler, R"({"type":"object"})", false);
    case GrammarKind::kRegex:
      return compiler.CompileRegex(source.text);
    case GrammarKind::kEbnf:
      return compiler.CompileGrammar(source.text);
    case GrammarKind::kStructuralTag:
      return compiler.CompileStructuralTag(source.text);
    case GrammarKind::kUnknown:
      break;  // check_grammar refuses this
  }
  CHECK(false);
}

class XGrammarVocabulary final : public GrammarVocabulary {
 public:
  XGrammarVocabulary(std::vector<std::string> spellings, uint32_t vocab_size)
      : info_(spellings, xgrammar::VocabType::RAW, static_cast<int>(vocab_size), std::vector<int32_t>()) {
    xgrammar::SetMaxRecursionDepth(kMaxRecursionDepth);
  }

  Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSource& source) const override {
    AllocationBudget budget(kMaxCompileBytes);
    auto compiled = within(budget, kMaxCompileTime, kMaxCompileBytes, "Compiling the grammar", [&] {
      xgrammar::GrammarCompiler compiler(info_, /*max_threads=*/1, /*cache_enabled=*/false);
      return compile_source(compiler, source);
    });
    if (!compiled.ok()) return compiled.error();
    if (budget.num_bytes() > kMaxCompiledBytes) {
      return refusal("The compiled grammar has " + std::to_string(budget.num_bytes()) +
                     " bytes; the limit is " + std::to_string(kMaxCompiledBytes) +
                     ". Ask for something simpler.");
    }
    if (*live_bytes_ + budget.num_bytes() > kMaxAllCompiledBytes) {
      return Error{ExitCode::kSystem, "The compiled grammars of all requests have " +
                                          std::to_string(*live_bytes_) + " bytes; with " +
                                          std::to_string(budget.num_bytes()) +
                                          " more they would be over the limit, " +
                                          std::to_string(kMaxAllCompiledBytes) + ". Try again later."};
    }
    return std::shared_ptr<const CompiledGrammar>(
        std::make_shared<XGrammarGrammar>(*std::move(compiled), budget.num_bytes(), live_bytes_));
  }

 private:
  xgrammar::TokenizerInfo info_;
  std::shared_ptr<std::atomic<size_t>> live_bytes_ = std::make_shared<std::atomic<size_t>>(0);
};

}  // namespace

std::unique_ptr<GrammarVocabulary> GrammarVocabulary::prepare(std::vector<std::string> spellings,
                                                              uint32_t vocab_size) {
  CHECK(spellings.size() <= vocab_size);
  return std::make_unique<XGrammarVocabulary>(std::move(spellings), vocab_size);
}

}  // namespace runnel
