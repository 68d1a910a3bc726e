// What a runner does with commands, step by step; where they come from and where the answers go is its
// owner's business: serve has a pipe for both, replay a file.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "runner/engine.h"
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
  Session(Engine& engine, Vitals& vitals, Send send);

  // Fails with kProtocol if the command breaks docs/protocol.md in a way that cannot be answered. During a
  // step only a Cancel may come.
  Result<void> obey(const wire::ToRunner& command);
  // No command will follow: what is paused goes on, since nobody is left who could resume it.
  void end_commands();
  bool commands_ended() const { return commands_ended_; }

  bool has_work() const { return engine_.has_work(); }
  // One step of the engine, and the frames that tell of it. There must be work.
  Result<void> step(const DuringStep& during_step = [] { return Result<void>(); });
  // Does the part of step() that comes before the model computes, so that a cancel which came during the step
  // can be replayed.
  void begin_step();
  bool is_stepping() const { return plan_.has_value(); }
  // Whether everything accepted has ended and nothing will be accepted any more.
  bool is_done() const { return is_draining_ && engine_.num_requests() == 0; }
  // Tells in the vitals that there is nothing to do.
  void show_idle() { show(wire::PHASE_IDLE); }

 private:
  Result<void> generate(const wire::Generate& generate);
  Result<void> cancel(uint32_t request_id);
  Result<void> send_scores(std::span<const ScoredToken> scored);
  Result<void> send_error(uint32_t request_id, wire::ErrorCode code, const std::string& sentence);
  void show(wire::Phase phase);

  Engine& engine_;
  Vitals& vitals_;
  Send send_;
  std::optional<Plan> plan_;  // of the step that is under way
  bool is_draining_ = false;
  bool commands_ended_ = false;
};

}  // namespace runnel
