#include "test/exactness/crowd.h"

#include <algorithm>

#include "runner/check.h"

namespace runnel::exactness {
namespace {

// Many more steps than any case takes. A case that does not end is a failure.
constexpr uint32_t kMaxSteps = 200'000;

bool is_tested(const Sequence* sequence) {
  return sequence->request_id == kRequestUnderTest;
}

uint32_t num_drafts_of_tested(const Plan& plan) {
  const auto found = std::ranges::find_if(plan.sequences, is_tested);
  return found == plan.sequences.end() ? 0 : (*found)->num_drafts;
}

}  // namespace

Crowd::Crowd(const Subject& subject, const Sizes& sizes, const Case& of_case, Random& random)
    : subject_(subject),
      sizes_(sizes),
      case_(of_case),
      random_(random),
      num_kills_left_(random.pick({0u, 0u, 1u, 2u, 2u})) {
  for (const Arrival& arrival : of_case.arrivals)
    members_.push_back(
        {.request = arrival.request, .arrival_step = arrival.step, .pooling = arrival.pooling, .answer = {}});
  if (!of_case.is_plain && random.one_in(2)) {
    under_test().request.set_top_logprobs(random.below(6));
    events_.add(Event::kLogprobs);
  }
}

Answer Crowd::run() {
  start_runner();
  for (uint32_t step_number = 0; !under_test().has_ended; ++step_number) {
    CHECK(step_number < kMaxSteps);
    for (Member& member : members_)
      if (!member.is_inside && !member.has_ended && member.arrival_step <= step_number) submit(member);
    meddle();
    if (engine().has_work()) step();
    if (num_kills_left_ > 0 && random_.one_in(16)) kill_runner();
  }
  clear_out();
  return under_test().answer;
}

void Crowd::start_runner() {
  runner_.reset();  // first, since two runners at once would need twice the memory
  runner_.emplace(subject_, random_setting(random_, subject_, sizes_, case_));
  was_scheduled_ = false;
}

// Gives the open requests to the next runner as the gateway does: the prompt followed by the emitted ids, and
// their number.
void Crowd::kill_runner() {
  --num_kills_left_;
  Member& tested = under_test();
  if (tested.is_inside && tested.answer.size() > 0) {
    events_.add(Event::kKilled);
    if (++num_kills_survived_ == 2) events_.add(Event::kKilledTwice);
  }
  start_runner();
  for (Member& member : members_) {
    if (!member.is_inside) continue;
    member.is_paused = false;
    submit(member);
  }
}

void Crowd::submit(Member& member) {
  member.is_inside = true;
  if (member.pooling) return runner_->watched.add(member.request, *member.pooling);
  wire::Generate request = member.request;
  for (const uint32_t id : member.answer.token_ids) request.add_token_ids(id);
  request.set_num_emitted(member.answer.size());
  runner_->watched.add(request);
}

// Pauses, resumes and cancels at random.
void Crowd::meddle() {
  for (Member& member : members_) {
    if (!member.is_inside) continue;
    if (member.is_paused ? random_.one_in(6) : random_.one_in(24)) set_paused(member, !member.is_paused);
    if (&member == &under_test() || !random_.one_in(100)) continue;
    CHECK(engine().cancel(member.request.request_id()));
    member.is_inside = false;
    member.has_ended = true;
    if (under_test().is_inside) events_.add(Event::kCancelledNear);
  }
}

void Crowd::set_paused(Member& member, bool is_paused) {
  member.is_paused = is_paused;
  if (is_paused) {
    engine().pause(member.request.request_id());
  } else {
    engine().resume(member.request.request_id());
    if (&member == &under_test()) events_.add(Event::kPaused);
  }
}

void Crowd::step() {
  const Plan plan = engine().schedule();
  notice(plan);
  const Contender& contender = subject_.contender();
  const uint64_t num_replays = contender.num_graph_replays();
  const Backend& backend = *runner_->loaded.backend;
  const uint64_t num_rows_ahead = backend.num_rows_ahead();
  const uint32_t num_drafts = num_drafts_of_tested(plan);
  const StepOutput output = runner_->watched.compute(plan);
  const auto is_drawn = [](const NewToken& token) {
    return token.request_id == kRequestUnderTest && token.was_draft;
  };
  const auto num_drawn = static_cast<uint32_t>(std::ranges::count_if(output.tokens, is_drawn));
  if (num_drawn > 0) events_.add(Event::kDrafts);
  if (num_drawn < num_drafts) events_.add(Event::kRejected);
  const Means means{contender.num_graph_replays() > num_replays,
                    backend.num_rows_ahead() - num_rows_ahead == plan.sequences.size()};
  for (const NewToken& token : output.tokens) take(token, means);
  for (const Embedded& embedded : output.embedded) take(embedded);
}

void Crowd::notice(const Plan& plan) {
  if (std::ranges::any_of(plan.preempted, is_tested)) events_.add(Event::kPreempted);
  const auto found = std::ranges::find_if(plan.sequences, is_tested);
  if (found == plan.sequences.end()) return;
  const Sequence& tested = **found;
  if (plan.sequences.size() > 1) events_.add(Event::kCompany);
  if (plan.num_decoding > 0 && plan.num_decoding < plan.sequences.size()) events_.add(Event::kMixedStep);
  if (tested.num_cached_tokens + tested.num_scheduled_tokens < tested.num_tokens())
    events_.add(Event::kPromptSplit);
  // Only at its first step, because later the request may find its own blocks.
  if (!was_scheduled_ && tested.num_cached_tokens > 0) events_.add(Event::kPrefixHit);
  was_scheduled_ = true;
}

void Crowd::take(const NewToken& token, const Means& means) {
  Member& member = members_.at(token.request_id - kRequestUnderTest);
  const auto num_prompt_tokens = static_cast<uint32_t>(member.request.token_ids_size());
  runner_->watched.append(token, num_prompt_tokens, member.answer);
  if (token.finish_reason != FinishReason::kNone) {
    member.is_inside = false;
    member.has_ended = true;
  }
  if (&member != &under_test()) return;
  if (runner_->setting.flags.num_threads > 1) {
    events_.add(Event::kThreads);
    if (runner_->setting.flags.num_nodes > 1) events_.add(Event::kNodes);
  }
  if (runner_->setting.flags.isa == "portable") events_.add(Event::kPortable);
  if (runner_->setting.flags.enforce_eager) events_.add(Event::kEager);
  if (runner_->setting.flags.num_ranks > 1) events_.add(Event::kDevices);
  if (runner_->setting.flags.gathers_by_nccl) events_.add(Event::kNccl);
  if (means.is_replayed) events_.add(Event::kReplayed);
  if (means.is_ahead) events_.add(Event::kAhead);
  CHECK(token.logprobs.has_value() == member.request.has_top_logprobs());
}

void Crowd::take(const Embedded& embedded) {
  Member& member = members_.at(embedded.request_id - kRequestUnderTest);
  CHECK(member.pooling && member.is_inside);
  member.is_inside = false;
  member.has_ended = true;
  vectors_.push_back({member.request, *member.pooling, embedded.values});
  events_.add(Event::kVectors);
}

// Cancels the other requests. No request and no block may remain in use.
void Crowd::clear_out() {
  for (const Member& member : members_)
    if (member.is_inside) CHECK(engine().cancel(member.request.request_id()));
  CHECK(engine().num_requests() == 0);
  CHECK(engine().num_free_blocks() == engine().config().scheduler.num_blocks);
}

}  // namespace runnel::exactness
