#include "runner/recordings/replay.h"

#include <algorithm>
#include <deque>

#include "runner/json/event_to_json.h"
#include "runner/serving/session.h"

namespace runnel {
namespace {

wire::FromRunner without_times(wire::FromRunner event) {
  if (event.has_embedding()) {
    event.mutable_embedding()->clear_queued_us();
    event.mutable_embedding()->clear_prefill_us();
  }
  if (!event.has_step()) return event;
  for (wire::FirstOutput& first : *event.mutable_step()->mutable_first_outputs()) {
    first.clear_queued_us();
    first.clear_prefill_us();
  }
  return event;
}

class Replay {
 public:
  Replay(Engine& engine, const ReplaySubject& subject, uint64_t until_step)
      : session_(engine, vitals_,
                 [this](const wire::FromRunner& event) {
                   computed_.push_back(event);
                   return Result<void>();
                 }),
        subject_(subject),
        until_step_(until_step) {}

  Result<void> run(Recording& recording) {
    while (true) {
      const Result<std::optional<wire::RecordEntry>> entry = recording.next();
      if (!entry.ok()) return entry.error();
      if (!*entry) return {};
      if (step_of(**entry) > until_step_) return {};
      if (const auto followed = follow(**entry); !followed.ok()) return followed;
    }
  }

  Result<void> report(std::ostream& out) {
    // A computed Step is left to compare if the recording ends among the scores of prompts, or the vectors,
    // that were sent before it.
    const bool is_cut = std::ranges::any_of(computed_, &wire::FromRunner::has_step);
    const uint64_t num_told = num_steps() - (is_cut ? 1 : 0);
    out << num_told << " steps, " << num_tokens_ << " tokens, all equal." << std::endl;
    if (is_full_) out << "The recording reached its limit there." << std::endl;
    const bool ended_at_work = (is_cut || is_at_work()) && !is_full_ && !has_failed_;
    if (!ended_at_work || num_told >= until_step_) return {};
    out << "The recorded process ended in step " << num_told + 1 << ", which is computed now." << std::endl;
    if (!is_cut)
      if (const auto stepped = session_.step(); !stepped.ok()) return stepped;
    out << "It went well this time." << std::endl;
    return {};
  }

 private:
  uint64_t num_steps() const { return vitals_.step; }
  bool is_at_work() const { return session_.has_work() || session_.is_stepping(); }

  // The step that a frame belongs to; 0 for a frame that may come at any time. Scores of a prompt, and
  // vectors, come before the Step of the step that computed them.
  static uint64_t step_of(const wire::RecordEntry& entry) {
    const bool is_before = entry.event().has_prompt_logprobs() || entry.event().has_embedding();
    return is_before ? entry.step() + 1 : entry.event().step().step();
  }

  Result<void> follow(const wire::RecordEntry& entry) {
    switch (entry.entry_case()) {
      case wire::RecordEntry::kCommand:
        if (!computed_.empty()) return difference("nothing", event_to_json(computed_.front()));
        if (entry.during_step()) return obey_during_step(entry);
        if (entry.step() != num_steps() || session_.is_stepping()) return out_of_order(entry.step());
        return session_.obey(entry.command());
      case wire::RecordEntry::kCommandsEnd:
        if (session_.is_stepping()) return out_of_order(entry.step());
        session_.end_commands();
        return {};
      case wire::RecordEntry::kGrammarSettled:
        if (!computed_.empty()) return difference("nothing", event_to_json(computed_.front()));
        if (entry.step() != num_steps() || session_.is_stepping()) return out_of_order(entry.step());
        return session_.settle_again(entry.grammar_settled());
      case wire::RecordEntry::kMaskLate:
        if (!computed_.empty()) return difference("nothing", event_to_json(computed_.front()));
        if (entry.step() != num_steps() || !is_at_work()) return out_of_order(entry.step());
        return session_.make_late(entry.mask_late());
      case wire::RecordEntry::kMaskCame:
        if (!computed_.empty()) return difference("nothing", event_to_json(computed_.front()));
        if (entry.step() != num_steps() || session_.is_stepping()) return out_of_order(entry.step());
        return session_.continue_late(entry.mask_came());
      case wire::RecordEntry::kEvent:
        return compare(entry.event());
      case wire::RecordEntry::kFull:
        is_full_ = true;
        return {};
      case wire::RecordEntry::kStart:
      case wire::RecordEntry::ENTRY_NOT_SET:
        break;
    }
    return Error{ExitCode::kUsage, "The recording has a second start."};
  }

  // The step was planned before the command came. The time within the step does not matter to other requests,
  // so the rows of the cancelled request are not computed at all here.
  Result<void> obey_during_step(const wire::RecordEntry& entry) {
    if (entry.step() != num_steps() || !is_at_work() || !entry.command().has_cancel())
      return out_of_order(entry.step());
    if (!session_.is_stepping()) session_.begin_step();
    return session_.obey(entry.command());
  }

  // Frames about time and place are not compared.
  Result<void> compare(const wire::FromRunner& recorded) {
    if (recorded.has_hello())
      return same("numerics id", recorded.hello().numerics_id(), subject_.numerics_id);
    if (recorded.has_ready()) return compare(recorded.ready());
    has_failed_ |= recorded.has_failure();
    const bool is_answer = recorded.has_step() || recorded.has_request_error() ||
                           recorded.has_prompt_logprobs() || recorded.has_embedding();
    if (!is_answer) return {};

    if (computed_.empty() && is_at_work())
      if (const auto stepped = session_.step(); !stepped.ok()) return stepped;
    if (computed_.empty()) return difference(event_to_json(recorded), "nothing");
    const wire::FromRunner computed = std::move(computed_.front());
    computed_.pop_front();
    if (without_times(computed).SerializeAsString() != without_times(recorded).SerializeAsString())
      return difference(event_to_json(recorded), event_to_json(computed));
    for (const wire::Output& output : computed.step().outputs())
      num_tokens_ += static_cast<uint64_t>(output.token_ids_size());
    return {};
  }

  // An earlier runner's Ready has no numerics id.
  Result<void> compare(const wire::Ready& recorded) const {
    const auto of_model = same("model identity", recorded.model_identity(), subject_.model_identity);
    if (!of_model.ok() || recorded.numerics_id().empty()) return of_model;
    return same("numerics id", recorded.numerics_id(), subject_.model_numerics_id);
  }

  Result<void> same(const std::string& name, const std::string& recorded, const std::string& ours) const {
    if (recorded == ours) return {};
    return Error{ExitCode::kUsage, "The recording's " + name + " is " + recorded + ", this one's is " + ours +
                                       "; replay it on what it was recorded with."};
  }

  Error out_of_order(uint64_t step) const {
    return {ExitCode::kUsage, "The recording has a command after step " + std::to_string(step) +
                                  " where step " + std::to_string(num_steps()) + " was the last."};
  }

  Error difference(const std::string& recorded, const std::string& computed) const {
    return {ExitCode::kDifferent, "Step " + std::to_string(num_steps()) +
                                      " differs.\n  recorded: " + recorded + "\n  computed: " + computed};
  }

  Vitals vitals_;
  Session session_;
  ReplaySubject subject_;
  uint64_t until_step_;
  std::deque<wire::FromRunner> computed_;  // not compared yet
  uint64_t num_tokens_ = 0;
  bool is_full_ = false;
  bool has_failed_ = false;  // the recorded process ended with a Failure
};

}  // namespace

Result<void> replay(Recording& recording, Engine& engine, const ReplaySubject& subject, uint64_t until_step,
                    std::ostream& out) {
  Replay replay(engine, subject, until_step);
  if (const auto followed = replay.run(recording); !followed.ok()) return followed;
  return replay.report(out);
}

}  // namespace runnel
