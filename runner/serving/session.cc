#include "runner/serving/session.h"

#include <algorithm>

#include "runner/check.h"
#include "runner/serving/request_from.h"
#include "runner/serving/stats.h"

namespace runnel {
namespace {

wire::FinishReason wire_reason(FinishReason reason) {
  if (reason == FinishReason::kStopId) return wire::FINISH_REASON_STOP_ID;
  if (reason == FinishReason::kMaxTokens) return wire::FINISH_REASON_MAX_TOKENS;
  return wire::FINISH_REASON_UNSPECIFIED;
}

wire::ErrorCode wire_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOutOfMemory:
      return wire::ERROR_CODE_OUT_OF_MEMORY;
    case ErrorCode::kQueueFull:
      return wire::ERROR_CODE_QUEUE_FULL;
    case ErrorCode::kInferenceFailed:
      return wire::ERROR_CODE_INFERENCE_FAILED;
    case ErrorCode::kGrammarFailed:
      return wire::ERROR_CODE_GRAMMAR_FAILED;
  }
  CHECK(false);
}

void fill_logprobs(const TokenLogprobs& logprobs, wire::TokenLogprobs& entry) {
  entry.set_logprob(logprobs.logprob);
  entry.mutable_top_ids()->Assign(logprobs.top_ids.begin(), logprobs.top_ids.end());
  entry.mutable_top_logprobs()->Assign(logprobs.top_logprobs.begin(), logprobs.top_logprobs.end());
}

// Returns the output of the token's request in this step. Tokens of one request are consecutive, so only the
// last output can be it; otherwise a new one is added.
wire::Output& output_of(const NewToken& token, wire::Step& step) {
  const int num_outputs = step.outputs_size();
  if (num_outputs > 0 && step.outputs(num_outputs - 1).request_id() == token.request_id)
    return *step.mutable_outputs(num_outputs - 1);
  wire::Output& output = *step.add_outputs();
  output.set_request_id(token.request_id);
  output.set_first_index(token.index);
  return output;
}

void add_token(const NewToken& token, wire::Output& output) {
  output.add_token_ids(token.token_id);
  output.set_finish_reason(wire_reason(token.finish_reason));
  if (token.logprobs) fill_logprobs(*token.logprobs, *output.add_logprobs());
}

void fill_first_output(const NewToken& token, wire::FirstOutput& output) {
  output.set_request_id(token.request_id);
  output.set_num_cached_tokens(token.first->num_reused_tokens);
  output.set_queued_us(static_cast<uint64_t>(token.first->queued.count()));
  output.set_prefill_us(static_cast<uint64_t>(token.first->prefill.count()));
}

wire::FromRunner message_of(const Embedded& embedded) {
  wire::FromRunner message;
  wire::Embedding& embedding = *message.mutable_embedding();
  embedding.set_request_id(embedded.request_id);
  embedding.mutable_values()->Assign(embedded.values.begin(), embedded.values.end());
  embedding.set_num_cached_tokens(embedded.first.num_reused_tokens);
  embedding.set_queued_us(static_cast<uint64_t>(embedded.first.queued.count()));
  embedding.set_prefill_us(static_cast<uint64_t>(embedded.first.prefill.count()));
  return message;
}

wire::Phase phase_of(const Plan& plan) {
  if (plan.is_prefill) return wire::PHASE_PREFILL;
  return plan.num_decoding == plan.sequences.size() ? wire::PHASE_DECODE : wire::PHASE_MIXED;
}

}  // namespace

Session::Session(Engine& engine, Vitals& vitals, Send send, std::function<void()> on_compiled)
    : engine_(engine),
      vitals_(vitals),
      send_(std::move(send)),
      on_compiled_(std::move(on_compiled)),
      spellings_(engine.limits().vocab_size) {
  show_idle();
}

Result<void> Session::obey(const wire::ToRunner& command) {
  CHECK(!is_stepping() || command.has_cancel());
  switch (command.message_case()) {
    case wire::ToRunner::kGenerate:
      return generate(command.generate());
    case wire::ToRunner::kEmbed:
      return embed(command.embed());
    case wire::ToRunner::kCancel:
      return cancel(command.cancel());
    case wire::ToRunner::kPause:
      set_paused(command.pause().request_id(), true);
      return {};
    case wire::ToRunner::kResume:
      set_paused(command.resume().request_id(), false);
      return {};
    case wire::ToRunner::kDrain:
      is_draining_ = true;
      return {};
    case wire::ToRunner::kReleaseKv:
      engine_.release_kv(command.release_kv().descriptor());
      return {};
    case wire::ToRunner::kVocabulary:
      return vocabulary(command.vocabulary());
    case wire::ToRunner::MESSAGE_NOT_SET:
      break;  // parse_message refuses this
  }
  return {};
}

void Session::end_commands() {
  engine_.resume_all();
  for (auto& [request_id, waiting] : waiting_) waiting.is_paused = false;
  commands_ended_ = true;
  is_draining_ = true;
}

// A bad request id is a protocol error and gets no RequestError, which would name no request or another one.
Result<bool> Session::is_new(const std::string& command, uint32_t request_id) {
  if (request_id == 0) return Error{ExitCode::kProtocol, command + " has no request_id."};
  if (engine_.contains(request_id) || waiting_.contains(request_id)) {
    return Error{ExitCode::kProtocol,
                 command + " has request_id " + std::to_string(request_id) + ", which is in use."};
  }
  if (!is_draining_) return true;
  const auto sent = send_error(request_id, wire::ERROR_CODE_DRAINING, "The runner takes no new requests.");
  if (!sent.ok()) return sent.error();
  return false;
}

Result<void> Session::embed(const wire::Embed& embed) {
  const Result<bool> is_taken = is_new("An Embed", embed.request_id());
  if (!is_taken.ok()) return is_taken.error();
  if (!*is_taken) return {};
  Result<Sequence> sequence = sequence_from(request_from(embed), engine_.limits());
  if (sequence.ok()) return add(*std::move(sequence));
  return send_error(embed.request_id(), wire::ERROR_CODE_INVALID_REQUEST, sequence.error().message);
}

Result<void> Session::generate(const wire::Generate& generate) {
  const uint32_t request_id = generate.request_id();
  const Result<bool> is_taken = is_new("A Generate", request_id);
  if (!is_taken.ok()) return is_taken.error();
  if (!*is_taken) return {};
  Request request = request_from(generate);
  Result<Sequence> sequence = sequence_from(request, engine_.limits());
  if (!sequence.ok())
    return send_error(request_id, wire::ERROR_CODE_INVALID_REQUEST, sequence.error().message);
  if (!request.grammar) return add(*std::move(sequence));
  if (!compiler_) {
    return send_error(request_id, wire::ERROR_CODE_INVALID_REQUEST,
                      "A request has a grammar, and no whole Vocabulary came before it.");
  }
  if (engine_.num_requests() + waiting_.size() >= kMaxRequests) {
    return send_error(request_id, wire::ERROR_CODE_QUEUE_FULL,
                      "The runner holds " + std::to_string(kMaxRequests) + " requests, its limit.");
  }
  sequence->accepted_at = engine_.now();
  waiting_.emplace(request_id, Waiting{*std::move(sequence)});
  compiler_->submit(request_id, *request.grammar);
  return {};
}

Result<void> Session::add(Sequence sequence) {
  const std::optional<RequestError> refusal = engine_.add(std::move(sequence));
  if (!refusal) return {};
  return send_error(refusal->request_id, wire_code(refusal->code), refusal->message);
}

Result<void> Session::vocabulary(const wire::Vocabulary& vocabulary) {
  const Result<void> added =
      spellings_.add({.num_tokens = vocabulary.num_tokens(),
                      .num_bytes = vocabulary.num_bytes(),
                      .first_id = vocabulary.first_id(),
                      .lengths = {vocabulary.lengths().begin(), vocabulary.lengths().end()},
                      .bytes = vocabulary.spellings()});
  if (!added.ok() || !spellings_.is_complete()) return added;
  compiler_ = std::make_unique<GrammarCompiler>(spellings_.take(), engine_.limits().vocab_size, on_compiled_);
  return {};
}

Result<void> Session::settle_grammars(const OnSettled& on_settled) {
  if (!compiler_) return {};
  for (const auto& [request_id, grammar] : compiler_->take()) {
    wire::GrammarSettled settled;
    settled.set_request_id(request_id);
    CompileResult result = grammar;
    if (result.ok()) {
      // A mask also depends on the request's stop ids, so this error belongs to the request and not to the
      // grammar.
      Sequence& sequence = waiting_.at(request_id).sequence;
      Result<std::shared_ptr<TokenMask>> mask = (*result)->mask(sequence.stop_ids);
      if (mask.ok()) {
        sequence.mask = *std::move(mask);
      } else {
        result = mask.error();
      }
    }
    if (!result.ok()) {
      const bool is_its_own = result.error().exit_code == ExitCode::kUsage;
      settled.set_code(is_its_own ? wire::ERROR_CODE_INVALID_REQUEST : wire::ERROR_CODE_QUEUE_FULL);
      settled.set_message(result.error().message);
    }
    on_settled(settled);
    if (const auto done = settle(settled); !done.ok()) return done;
  }
  return {};
}

Result<void> Session::settle_again(const wire::GrammarSettled& settled) {
  const auto found = waiting_.find(settled.request_id());
  if (found == waiting_.end()) {
    return Error{ExitCode::kProtocol, "Request " + std::to_string(settled.request_id()) +
                                          " has no grammar that is being compiled."};
  }
  if (settled.code() != wire::ERROR_CODE_UNSPECIFIED) {
    compiler_->forget(settled.request_id());
    return settle(settled);
  }
  const CompileResult grammar = compiler_->wait_for(settled.request_id());
  if (!grammar.ok()) return grammar.error();
  Result<std::shared_ptr<TokenMask>> mask = (*grammar)->mask(found->second.sequence.stop_ids);
  if (!mask.ok()) return mask.error();
  found->second.sequence.mask = *std::move(mask);
  return settle(settled);
}

Result<void> Session::settle(const wire::GrammarSettled& settled) {
  const uint32_t request_id = settled.request_id();
  Waiting waiting = std::move(waiting_.extract(request_id).mapped());
  if (settled.code() != wire::ERROR_CODE_UNSPECIFIED)
    return send_error(request_id, settled.code(), settled.message());
  if (const auto added = add(std::move(waiting.sequence)); !added.ok()) return added;
  if (waiting.is_paused) engine_.pause(request_id);
  return {};
}

void Session::continue_late(const OnMask& on_came) {
  for (const uint32_t request_id : engine_.late_with_masks()) {
    on_came(request_id);
    CHECK(engine_.continue_late(request_id));
  }
}

Result<void> Session::continue_late(uint32_t request_id) {
  if (engine_.continue_late(request_id)) return {};
  return Error{ExitCode::kProtocol, "Request " + std::to_string(request_id) + " has no mask that is late."};
}

Result<void> Session::make_late(uint32_t request_id) {
  if (!is_stepping()) begin_step();
  if (engine_.make_late(request_id)) return {};
  return Error{ExitCode::kProtocol,
               "Request " + std::to_string(request_id) + " draws no token with a mask in the next step."};
}

void Session::wait_for_grammars() {
  constexpr std::chrono::milliseconds kAWhile{1000};
  if (engine_.has_late()) {
    engine_.wait_for_late(kAWhile);
  } else if (compiler_) {
    compiler_->wait(kAWhile);
  }
}

void Session::set_paused(uint32_t request_id, bool is_paused) {
  if (const auto found = waiting_.find(request_id); found != waiting_.end()) {
    found->second.is_paused = is_paused;
  } else if (is_paused) {
    engine_.pause(request_id);
  } else {
    engine_.resume(request_id);
  }
}

Result<void> Session::cancel(const wire::Cancel& command) {
  const uint32_t request_id = command.request_id();
  if (waiting_.erase(request_id) > 0) {
    compiler_->forget(request_id);
  } else if (!engine_.cancel(request_id, command.is_complete())) {
    return {};
  }
  return send_error(request_id, wire::ERROR_CODE_CANCELLED, "The request was cancelled.");
}

void Session::begin_step() {
  plan_ = engine_.schedule();
  show(phase_of(*plan_));
}

Result<void> Session::step(const DuringStep& during_step, const OnMask& on_late) {
  if (!is_stepping()) begin_step();
  Result<void> heard;
  const StepOutput output = engine_.compute(*plan_, [&] {
    if (heard.ok()) heard = during_step();
  });
  plan_.reset();
  if (!heard.ok()) return heard;
  for (const uint32_t request_id : output.late) on_late(request_id);
  ++vitals_.step;

  // The scores go before the Step, which may have the first output of the same request.
  if (const auto sent = send_scores(output.scored); !sent.ok()) return sent;
  for (const Embedded& embedded : output.embedded)
    if (const auto sent = send_(message_of(embedded)); !sent.ok()) return sent;
  wire::FromRunner message;
  wire::Step& step = *message.mutable_step();
  step.set_step(vitals_.step);
  for (const NewToken& token : output.tokens) {
    add_token(token, output_of(token, step));
    if (token.first) fill_first_output(token, *step.add_first_outputs());
  }
  if (const auto sent = send_(message); !sent.ok()) return sent;
  for (const RequestError& error : output.errors) {
    const auto sent = send_error(error.request_id, wire_code(error.code), error.message);
    if (!sent.ok()) return sent;
  }
  return {};
}

Result<void> Session::send_scores(std::span<const ScoredToken> scored) {
  while (!scored.empty()) {
    const uint32_t request_id = scored.front().request_id;
    wire::FromRunner message;
    wire::PromptLogprobs& prompt = *message.mutable_prompt_logprobs();
    prompt.set_request_id(request_id);
    prompt.set_first_index(scored.front().index);
    const auto is_other = [&](const ScoredToken& token) { return token.request_id != request_id; };
    const auto end =
        std::ranges::find_if(scored.first(std::min<size_t>(scored.size(), kMaxFrameScores)), is_other);
    const auto of_frame = std::span(scored.begin(), end);
    for (const ScoredToken& token : of_frame) fill_logprobs(token.logprobs, *prompt.add_logprobs());
    if (const auto sent = send_(message); !sent.ok()) return sent;
    scored = scored.subspan(of_frame.size());
  }
  return {};
}

Result<void> Session::send_error(uint32_t request_id, wire::ErrorCode code, const std::string& sentence) {
  wire::FromRunner message;
  wire::RequestError& request_error = *message.mutable_request_error();
  request_error.set_request_id(request_id);
  request_error.set_code(code);
  request_error.set_message(sentence);
  return send_(message);
}

void Session::show(wire::Phase phase) {
  vitals_.phase = phase;
  const auto num_waiting = static_cast<uint32_t>(waiting_.size());
  vitals_.num_requests = engine_.num_requests() + num_waiting;
  vitals_.num_free_blocks = engine_.num_free_blocks();
  wire::Stats stats = stats_of(engine_);
  stats.set_num_waiting(stats.num_waiting() + num_waiting);
  vitals_.set_stats(stats);
}

}  // namespace runnel
