// What a runner does with commands, step by step. The owner of a session says where the commands come from
// and where the answers go: a pipe for serve, a file for replay.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runner/engine/engine.h"
#include "runner/grammar/grammar_compiler.h"
#include "runner/grammar/spellings.h"
#include "runner/result.h"
#include "runner/serving/heartbeat.h"
#include "runner/serving/messages.h"

namespace runnel {

// Limit of tokens in one PromptLogprobs frame.
constexpr uint32_t kMaxFrameScores = 256;

class Session {
 public:
  using Send = std::function<Result<void>(const wire::FromRunner&)>;

  // Called while a step computes, see Engine::DuringStep. It may call obey() with Cancels. After an error it
  // is not called again, and the step fails.
  using DuringStep = std::function<Result<void>()>;

  // vitals tell what the session is doing. An error of send ends the call in which it occurs. on_compiled is
  // called by another thread when settle_grammars has something to do.
  Session(
      Engine& engine, Vitals& vitals, Send send, std::function<void()> on_compiled = [] {});

  // Fails with kProtocol if the command breaks docs/protocol.md in a way that no RequestError can answer.
  // During a step only a Cancel is allowed.
  Result<void> obey(const wire::ToRunner& command);
  // No command will follow. Resumes all paused requests, since no Resume can come any more.
  void end_commands();
  bool commands_ended() const { return commands_ended_; }

  // Called with the outcome for a request before settle_grammars acts on it: the grammar is compiled and the
  // request is accepted, or the request is refused.
  using OnSettled = std::function<void(const wire::GrammarSettled&)>;
  // Accepts requests whose grammars are compiled, and refuses those whose grammars failed to compile. Must
  // not be called during a step.
  Result<void> settle_grammars(const OnSettled& on_settled);
  // For replay: gives one request the recorded outcome, after waiting for its compilation if it was accepted.
  // Fails with kProtocol if no such request waits for its grammar.
  Result<void> settle_again(const wire::GrammarSettled& settled);
  // Called with the id of a request whose mask was late, or came.
  using OnMask = std::function<void(uint32_t)>;
  // Continues requests whose masks were late and are there now. Calls on_came before each. Must not be called
  // during a step.
  void continue_late(const OnMask& on_came);
  // For replay: does this for one request, after waiting for its mask. Fails with kProtocol if its mask is
  // not late.
  Result<void> continue_late(uint32_t request_id);
  // For replay: this request sits the next step out. Fails with kProtocol if it draws nothing there.
  Result<void> make_late(uint32_t request_id);
  // Whether requests wait for their grammars or masks.
  bool has_waiting() const { return !waiting_.empty() || engine_.has_late(); }
  // Waits until there is one grammar or mask more, or for a second.
  void wait_for_grammars();

  bool has_work() const { return engine_.has_work(); }
  // Computes one step of the engine and sends its frames. There must be work. Calls on_late before it sends,
  // for each request that sat the step out.
  Result<void> step(
      const DuringStep& during_step = [] { return Result<void>(); }, const OnMask& on_late = [](uint32_t) {});
  // Does the part of step() before the model computes, so that replay can obey a cancel that came during the
  // step.
  void begin_step();
  bool is_stepping() const { return plan_.has_value(); }
  // Whether all accepted requests have ended and no request will be accepted any more.
  bool is_done() const { return is_draining_ && engine_.num_requests() == 0 && !has_waiting(); }
  // Reports in the vitals that there is nothing to compute.
  void show_idle() { show(has_waiting() ? wire::PHASE_COMPILING : wire::PHASE_IDLE); }

 private:
  // A request whose grammar is being compiled.
  struct Waiting {
    Sequence sequence;
    bool is_paused = false;
  };

  // Whether the request should be processed: false if it was refused because the session drains. Fails with
  // kProtocol if request_id is 0 or in use; the message names the command ("A Generate").
  Result<bool> is_new(const std::string& command, uint32_t request_id);
  Result<void> generate(const wire::Generate& generate);
  Result<void> embed(const wire::Embed& embed);
  Result<void> add(Sequence sequence);
  Result<void> vocabulary(const wire::Vocabulary& vocabulary);
  // Accepts or refuses the request as `settled` says. If it is accepted, its sequence must have its mask.
  Result<void> settle(const wire::GrammarSettled& settled);
  void set_paused(uint32_t request_id, bool is_paused);
  Result<void> cancel(const wire::Cancel& command);
  Result<void> send_scores(std::span<const ScoredToken> scored);
  Result<void> send_error(uint32_t request_id, wire::ErrorCode code, const std::string& sentence);
  void show(wire::Phase phase);

  Engine& engine_;
  Vitals& vitals_;
  Send send_;
  std::function<void()> on_compiled_;
  Spellings spellings_;
  std::unique_ptr<GrammarCompiler> compiler_;  // set once the spellings are complete
  std::map<uint32_t, Waiting> waiting_;        // by request id
  std::optional<Plan> plan_;                   // of the step that is under way
  bool is_draining_ = false;
  bool commands_ended_ = false;
};

}  // namespace runnel
