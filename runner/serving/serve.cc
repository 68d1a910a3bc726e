#include "runner/serving/serve.h"

#include "runner/serving/session.h"

namespace runnel {
namespace {

Result<void> take_commands(Session& session, Inbox& inbox, Recorder* recorder) {
  if (!session.has_work()) session.show_idle();
  // settle_grammars refuses compilations that take too long, so it is called this often while nothing
  // happens.
  constexpr std::chrono::milliseconds kLookForGrammars{1000};
  Inbox::Contents contents;
  if (session.has_work()) {
    contents = inbox.take();
  } else if (session.commands_ended()) {
    session.wait_for_grammars();
  } else {
    contents = session.has_waiting() ? inbox.wait(kLookForGrammars) : inbox.wait();
  }
  for (const wire::ToRunner& command : contents.commands) {
    if (recorder != nullptr) recorder->command(command);
    if (const auto obeyed = session.obey(command); !obeyed.ok()) return obeyed;
  }
  const auto settled = session.settle_grammars([&](const wire::GrammarSettled& entry) {
    if (recorder != nullptr) recorder->grammar_settled(entry);
  });
  if (!settled.ok()) return settled;
  session.continue_late([&](uint32_t request_id) {
    if (recorder != nullptr) recorder->mask_came(request_id);
  });
  if (!contents.end || session.commands_ended()) return {};
  if (!contents.end->ok()) return *contents.end;
  if (recorder != nullptr) recorder->commands_end();
  session.end_commands();
  return {};
}

// Obeys cancels during a step, so that a cancel need not wait for the end of a long prompt.
Result<void> take_cancels(Session& session, Inbox& inbox, Recorder* recorder) {
  for (const wire::ToRunner& cancel : inbox.take_cancels()) {
    if (recorder != nullptr) recorder->command(cancel, /*during_step=*/true);
    if (const auto obeyed = session.obey(cancel); !obeyed.ok()) return obeyed;
  }
  return {};
}

// While it lives, a step does not wait for slow masks, and each mask that comes ends a wait at the inbox.
class LateMasks {
 public:
  LateMasks(Engine& engine, Inbox& inbox) : engine_(engine) {
    engine_.allow_late_masks([&inbox] { inbox.nudge(); });
  }
  ~LateMasks() { engine_.forbid_late_masks(); }
  LateMasks(const LateMasks&) = delete;
  LateMasks& operator=(const LateMasks&) = delete;

 private:
  Engine& engine_;
};

}  // namespace

Result<void> serve(Engine& engine, Inbox& inbox, FrameWriter& writer, Vitals& vitals, Recorder* recorder) {
  Session session(
      engine, vitals, [&](const wire::FromRunner& event) { return writer.send(event); },
      [&] { inbox.nudge(); });
  const LateMasks late_masks(engine, inbox);
  while (!session.is_done()) {
    if (const auto taken = take_commands(session, inbox, recorder); !taken.ok()) return taken;
    if (!session.has_work()) continue;
    const auto stepped = session.step([&] { return take_cancels(session, inbox, recorder); },
                                      [&](uint32_t request_id) {
                                        if (recorder != nullptr) recorder->mask_late(request_id);
                                      });
    if (!stepped.ok()) return stepped;
  }
  return {};
}

}  // namespace runnel
