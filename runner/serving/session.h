// What a runner does with commands, step by step; where they come from and where the answers go is its
// owner's business: serve has a pipe for both, replay a file.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runner/engine.h"
#include "runner/grammar/grammar_compiler.h"
#include "runner/grammar/spellings.h"
#include "runner/result.h"
#include "runner/serving/heartbeat.h"
#include "runner/serving/messages.h"

namespace runnel {

// Tokens that one PromptLogprobs frame tells of at most.
constexpr uint32_t kMaxFrameScores = 256;

class Session {
 public:
  using Send = std::function<Result<void>(const wire::FromRunner&)>;

  // Called while a step computes, see Engine::DuringStep. May have Cancels obeyed. When it fails it is not
  // called again, and the step fails.
  using DuringStep = std::function<Result<void>()>;

  // The vitals tell what the session is doing. An error of send ends the call in which it happens.
  // on_compiled is called from another thread when settle_grammars has something to do.
  Session(
      Engine& engine, Vitals& vitals, Send send, std::function<void()> on_compiled = [] {});

  // Fails with kProtocol if the command breaks docs/protocol.md in a way that cannot be answered. During a
  // step only a Cancel may come.
  Result<void> obey(const wire::ToRunner& command);
  // No command will follow: what is paused goes on, since nobody is left who could resume it.
  void end_commands();
  bool commands_ended() const { return commands_ended_; }

  // Called with each request before it is settled: compiled and taken, or refused as it says.
  using OnSettled = std::function<void(const wire::GrammarSettled&)>;
  // Takes requests whose grammars are compiled, and refuses those whose are not. Not during a step.
  Result<void> settle_grammars(const OnSettled& on_settled);
  // Settles the one request as it was settled once, waiting until it is compiled. Fails with kProtocol if no
  // such request waits.
  Result<void> settle_again(const wire::GrammarSettled& settled);
  bool has_waiting() const { return !waiting_.empty(); }
  // Until settle_grammars has something to do, or a while.
  void wait_for_grammars();

  bool has_work() const { return engine_.has_work(); }
  // One step of the engine, and the frames that tell of it. There must be work.
  Result<void> step(const DuringStep& during_step = [] { return Result<void>(); });
  // Does the part of step() that comes before the model computes, so that a cancel which came during the step
  // can be replayed.
  void begin_step();
  bool is_stepping() const { return plan_.has_value(); }
  // Whether everything accepted has ended and nothing will be accepted any more.
  bool is_done() const { return is_draining_ && engine_.num_requests() == 0 && !has_waiting(); }
  // Tells in the vitals that there is nothing to compute.
  void show_idle() { show(has_waiting() ? wire::PHASE_COMPILING : wire::PHASE_IDLE); }

 private:
  // A request whose grammar is being compiled.
  struct Waiting {
    Sequence sequence;
    bool is_paused = false;
  };

  // Whether a request is one to look at: false if it was refused because no more are taken. Fails with
  // kProtocol, naming the command ("A Generate"), if its id is none, or in use.
  Result<bool> is_new(const std::string& command, uint32_t request_id);
  Result<void> generate(const wire::Generate& generate);
  Result<void> embed(const wire::Embed& embed);
  Result<void> add(Sequence sequence);
  Result<void> vocabulary(const wire::Vocabulary& vocabulary);
  // As it says; if the request is taken, its sequence has its mask.
  Result<void> settle(const wire::GrammarSettled& settled);
  void set_paused(uint32_t request_id, bool is_paused);
  Result<void> cancel(uint32_t request_id);
  Result<void> send_scores(std::span<const ScoredToken> scored);
  Result<void> send_error(uint32_t request_id, wire::ErrorCode code, const std::string& sentence);
  void show(wire::Phase phase);

  Engine& engine_;
  Vitals& vitals_;
  Send send_;
  std::function<void()> on_compiled_;
  Spellings spellings_;
  std::unique_ptr<GrammarCompiler> compiler_;  // once the spellings are complete
  std::map<uint32_t, Waiting> waiting_;        // by request ids
  std::optional<Plan> plan_;                   // of the step that is under way
  bool is_draining_ = false;
  bool commands_ended_ = false;
};

}  // namespace runnel
