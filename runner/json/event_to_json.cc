#include "runner/json/event_to_json.h"

#include <nlohmann/json.hpp>

namespace runnel {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kMaxExact = uint64_t{1} << 53;  // as doubles, in which most readers of JSON store numbers

ordered_json whole64(uint64_t value) {
  return value <= kMaxExact ? ordered_json(value) : ordered_json(std::to_string(value));
}

ordered_json array_of(const auto& values) {
  ordered_json array = ordered_json::array();
  for (const auto value : values) array.push_back(value);
  return array;
}

ordered_json json_of(const wire::Hello& hello) {
  return {{"protocol_version", hello.protocol_version()},
          {"kind", hello.kind()},
          {"build", hello.build()},
          {"numerics_id", hello.numerics_id()},
          {"sandbox", hello.sandbox()}};
}

ordered_json json_of(const wire::LoadProgress& progress) {
  return {{"loaded_bytes", whole64(progress.loaded_bytes())},
          {"total_bytes", whole64(progress.total_bytes())}};
}

ordered_json json_of(const wire::Ready& ready) {
  return {{"model_identity", ready.model_identity()},
          {"architecture", ready.architecture()},
          {"device", ready.device()},
          {"vocab_size", ready.vocab_size()},
          {"max_model_len", ready.max_model_len()},
          {"max_num_seqs", ready.max_num_seqs()},
          {"max_num_batched_tokens", ready.max_num_batched_tokens()},
          {"block_size", ready.block_size()},
          {"num_blocks", ready.num_blocks()},
          {"weights_bytes", whole64(ready.weights_bytes())},
          {"kv_cache_bytes", whole64(ready.kv_cache_bytes())},
          {"kv_cache_type", ready.kv_cache_type()},
          {"embedding_size", ready.embedding_size()},
          {"shared_weights_bytes", ready.shared_weights_bytes()},
          {"weights_descriptor", ready.weights_descriptor()},
          {"scores_pairs", ready.scores_pairs()},
          {"numerics_id", ready.numerics_id()},
          {"num_ranks", ready.num_ranks()}};
}

ordered_json json_of(const wire::TokenLogprobs& logprobs) {
  return {{"logprob", logprobs.logprob()},
          {"top_ids", array_of(logprobs.top_ids())},
          {"top_logprobs", array_of(logprobs.top_logprobs())}};
}

ordered_json json_of(const wire::Output& output) {
  ordered_json json = {{"request_id", output.request_id()},
                       {"first_index", output.first_index()},
                       {"token_ids", array_of(output.token_ids())}};
  if (output.finish_reason() != wire::FINISH_REASON_UNSPECIFIED)
    json["finish_reason"] = wire::FinishReason_Name(output.finish_reason());
  for (const wire::TokenLogprobs& logprobs : output.logprobs()) json["logprobs"].push_back(json_of(logprobs));
  return json;
}

ordered_json json_of(const wire::FirstOutput& first) {
  return {{"request_id", first.request_id()},
          {"num_cached_tokens", first.num_cached_tokens()},
          {"queued_us", whole64(first.queued_us())},
          {"prefill_us", whole64(first.prefill_us())}};
}

ordered_json json_of(const wire::Step& step) {
  ordered_json outputs = ordered_json::array();
  for (const wire::Output& output : step.outputs()) outputs.push_back(json_of(output));
  ordered_json json = {{"step", whole64(step.step())}, {"outputs", outputs}};
  for (const wire::FirstOutput& first : step.first_outputs()) json["first_outputs"].push_back(json_of(first));
  return json;
}

ordered_json json_of(const wire::Stats& stats) {
  return {{"num_waiting", stats.num_waiting()},
          {"num_running", stats.num_running()},
          {"num_paused", stats.num_paused()},
          {"num_finished", whole64(stats.num_finished())},
          {"num_failed", whole64(stats.num_failed())},
          {"num_preemptions", whole64(stats.num_preemptions())},
          {"num_prefill_steps", whole64(stats.num_prefill_steps())},
          {"num_decode_steps", whole64(stats.num_decode_steps())},
          {"num_mixed_steps", whole64(stats.num_mixed_steps())},
          {"num_prefill_sequences", whole64(stats.num_prefill_sequences())},
          {"num_decode_sequences", whole64(stats.num_decode_sequences())},
          {"num_prefill_tokens", whole64(stats.num_prefill_tokens())},
          {"num_cached_tokens", whole64(stats.num_cached_tokens())},
          {"num_generated_tokens", whole64(stats.num_generated_tokens())},
          {"num_free_blocks", stats.num_free_blocks()},
          {"num_reusable_blocks", stats.num_reusable_blocks()},
          {"busy_us", whole64(stats.busy_us())},
          {"memory_bytes", whole64(stats.memory_bytes())},
          {"num_draft_tokens", whole64(stats.num_draft_tokens())},
          {"num_accepted_draft_tokens", whole64(stats.num_accepted_draft_tokens())},
          {"num_adopted_blocks", whole64(stats.num_adopted_blocks())},
          {"num_dropped_blocks", whole64(stats.num_dropped_blocks())}};
}

ordered_json json_of(const wire::PromptLogprobs& prompt) {
  ordered_json logprobs = ordered_json::array();
  for (const wire::TokenLogprobs& entry : prompt.logprobs()) logprobs.push_back(json_of(entry));
  return {{"request_id", prompt.request_id()}, {"first_index", prompt.first_index()}, {"logprobs", logprobs}};
}

ordered_json json_of(const wire::Heartbeat& heartbeat) {
  return {{"phase", wire::Phase_Name(heartbeat.phase())},
          {"step", whole64(heartbeat.step())},
          {"num_requests", heartbeat.num_requests()},
          {"num_free_blocks", heartbeat.num_free_blocks()}};
}

ordered_json json_of(const wire::RequestError& error) {
  return {{"request_id", error.request_id()},
          {"code", wire::ErrorCode_Name(error.code())},
          {"message", error.message()}};
}

ordered_json json_of(const wire::Embedding& embedding) {
  return {{"request_id", embedding.request_id()},
          {"values", array_of(embedding.values())},
          {"num_cached_tokens", embedding.num_cached_tokens()},
          {"queued_us", whole64(embedding.queued_us())},
          {"prefill_us", whole64(embedding.prefill_us())}};
}

ordered_json json_of(const wire::Failure& failure) {
  ordered_json json{{"exit_code", failure.exit_code()}, {"message", failure.message()}};
  if (!failure.device().empty()) json["device"] = failure.device();
  if (failure.has_required_bytes()) json["required_bytes"] = whole64(failure.required_bytes());
  if (failure.has_available_bytes()) json["available_bytes"] = whole64(failure.available_bytes());
  return json;
}

ordered_json member_of(const wire::FromRunner& event) {
  switch (event.message_case()) {
    case wire::FromRunner::kHello:
      return {{"hello", json_of(event.hello())}};
    case wire::FromRunner::kLoadProgress:
      return {{"load_progress", json_of(event.load_progress())}};
    case wire::FromRunner::kReady:
      return {{"ready", json_of(event.ready())}};
    case wire::FromRunner::kStep:
      return {{"step", json_of(event.step())}};
    case wire::FromRunner::kHeartbeat:
      return {{"heartbeat", json_of(event.heartbeat())}};
    case wire::FromRunner::kRequestError:
      return {{"request_error", json_of(event.request_error())}};
    case wire::FromRunner::kFailure:
      return {{"failure", json_of(event.failure())}};
    case wire::FromRunner::kPromptLogprobs:
      return {{"prompt_logprobs", json_of(event.prompt_logprobs())}};
    case wire::FromRunner::kStats:
      return {{"stats", json_of(event.stats())}};
    case wire::FromRunner::kEmbedding:
      return {{"embedding", json_of(event.embedding())}};
    case wire::FromRunner::MESSAGE_NOT_SET:
      break;
  }
  return ordered_json::object();
}

}  // namespace

std::string event_to_json(const wire::FromRunner& event) {
  // Text from a model file need not be UTF-8.
  return member_of(event).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace runnel
