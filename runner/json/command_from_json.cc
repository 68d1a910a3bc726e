#include "runner/json/command_from_json.h"

#include <nlohmann/json.hpp>

#include "runner/formats/in_quotes.h"
#include "runner/json/fields.h"

namespace runnel {
namespace {

using nlohmann::json;

// Limit of arrays and objects inside each other: {"generate":{"sampling":{"logit_bias":[{}]}}}.
constexpr int kMaxDepth = 5;

void read_logit_bias(Fields& fields, wire::LogitBias& entry) {
  fields.whole32("token_id", [&](uint32_t value) { entry.set_token_id(value); });
  fields.single("bias", [&](float value) { entry.set_bias(value); });
}

void read_sampling(Fields& fields, wire::Sampling& sampling) {
  fields.single("temperature", [&](float value) { sampling.set_temperature(value); });
  fields.whole32("top_k", [&](uint32_t value) { sampling.set_top_k(value); });
  fields.single("top_p", [&](float value) { sampling.set_top_p(value); });
  fields.single("min_p", [&](float value) { sampling.set_min_p(value); });
  fields.single("repetition_penalty", [&](float value) { sampling.set_repetition_penalty(value); });
  fields.whole64("seed", [&](uint64_t value) { sampling.set_seed(value); });
  fields.single("presence_penalty", [&](float value) { sampling.set_presence_penalty(value); });
  fields.single("frequency_penalty", [&](float value) { sampling.set_frequency_penalty(value); });
  fields.whole32s("allowed_token_ids", [&](uint32_t value) { sampling.add_allowed_token_ids(value); });
  fields.whole32s("banned_token_ids", [&](uint32_t value) { sampling.add_banned_token_ids(value); });
  fields.objects("logit_bias", [&](Fields& entry) { read_logit_bias(entry, *sampling.add_logit_bias()); });
}

void read_grammar(Fields& fields, wire::Grammar& grammar) {
  fields.enumeration("kind", [&](const std::string& name) {
    wire::GrammarKind kind;
    if (!wire::GrammarKind_Parse(name, &kind)) return false;
    grammar.set_kind(kind);
    return true;
  });
  fields.text("source", [&](const std::string& value) { grammar.set_source(value); });
  fields.boolean("strict", [&](bool value) { grammar.set_strict(value); });
}

void read_generate(Fields& fields, wire::Generate& generate) {
  fields.whole32("request_id", [&](uint32_t value) { generate.set_request_id(value); });
  fields.whole32s("token_ids", [&](uint32_t value) { generate.add_token_ids(value); });
  fields.whole32("num_emitted", [&](uint32_t value) { generate.set_num_emitted(value); });
  fields.whole32("max_tokens", [&](uint32_t value) { generate.set_max_tokens(value); });
  fields.whole32s("stop_ids", [&](uint32_t value) { generate.add_stop_ids(value); });
  fields.object("sampling", [&](Fields& sampling) { read_sampling(sampling, *generate.mutable_sampling()); });
  fields.whole32("top_logprobs", [&](uint32_t value) { generate.set_top_logprobs(value); });
  fields.whole32("prompt_logprobs", [&](uint32_t value) { generate.set_prompt_logprobs(value); });
  fields.whole32("min_tokens", [&](uint32_t value) { generate.set_min_tokens(value); });
  fields.bytes("cache_salt", [&](const std::string& value) { generate.set_cache_salt(value); });
  fields.whole32s("kv_from", [&](uint32_t value) { generate.add_kv_from(value); });
  fields.object("grammar", [&](Fields& grammar) { read_grammar(grammar, *generate.mutable_grammar()); });
}

void read_embed(Fields& fields, wire::Embed& embed) {
  fields.whole32("request_id", [&](uint32_t value) { embed.set_request_id(value); });
  fields.whole32s("token_ids", [&](uint32_t value) { embed.add_token_ids(value); });
  fields.enumeration("pooling", [&](const std::string& name) {
    wire::Pooling pooling;
    if (!wire::Pooling_Parse(name, &pooling)) return false;
    embed.set_pooling(pooling);
    return true;
  });
  fields.bytes("cache_salt", [&](const std::string& value) { embed.set_cache_salt(value); });
  fields.whole32("second_type_from", [&](uint32_t value) { embed.set_second_type_from(value); });
}

void read_vocabulary(Fields& fields, wire::Vocabulary& vocabulary) {
  fields.whole32("num_tokens", [&](uint32_t value) { vocabulary.set_num_tokens(value); });
  fields.whole32("num_bytes", [&](uint32_t value) { vocabulary.set_num_bytes(value); });
  fields.whole32("first_id", [&](uint32_t value) { vocabulary.set_first_id(value); });
  fields.whole32s("lengths", [&](uint32_t value) { vocabulary.add_lengths(value); });
  fields.bytes("spellings", [&](const std::string& value) { vocabulary.set_spellings(value); });
}

void read_release_kv(Fields& fields, wire::ReleaseKv& release) {
  fields.whole32("descriptor", [&](uint32_t value) { release.set_descriptor(value); });
}

void read_request_id(Fields& fields, auto& message) {
  fields.whole32("request_id", [&](uint32_t value) { message.set_request_id(value); });
}

void read_cancel(Fields& fields, wire::Cancel& cancel) {
  read_request_id(fields, cancel);
  fields.boolean("is_complete", [&](bool value) { cancel.set_is_complete(value); });
}

void read_command(Fields& fields, wire::ToRunner& command) {
  fields.object("generate", [&](Fields& members) { read_generate(members, *command.mutable_generate()); });
  fields.object("embed", [&](Fields& members) { read_embed(members, *command.mutable_embed()); });
  fields.object("cancel", [&](Fields& members) { read_cancel(members, *command.mutable_cancel()); });
  fields.object("pause", [&](Fields& members) { read_request_id(members, *command.mutable_pause()); });
  fields.object("resume", [&](Fields& members) { read_request_id(members, *command.mutable_resume()); });
  fields.object("release_kv",
                [&](Fields& members) { read_release_kv(members, *command.mutable_release_kv()); });
  fields.object("drain", [&](Fields&) { command.mutable_drain(); });
  fields.object("vocabulary",
                [&](Fields& members) { read_vocabulary(members, *command.mutable_vocabulary()); });
}

}  // namespace

Result<wire::ToRunner> command_from_json(std::string_view text) {
  bool is_too_deep = false;
  const json value = json::parse(
      text,
      [&](int depth, json::parse_event_t, const json&) {
        is_too_deep |= depth > kMaxDepth;
        return !is_too_deep;
      },
      /*allow_exceptions=*/false);
  if (is_too_deep || !value.is_object() || value.size() != 1) {
    return Error{ExitCode::kProtocol,
                 runnel::in_quotes(text) + " is not a JSON object with one member, such as {\"drain\":{}}."};
  }
  wire::ToRunner command;
  std::string fault;
  Fields fields(value, "", fault);
  read_command(fields, command);
  fields.refuse_the_rest();
  if (!fault.empty()) return Error{ExitCode::kProtocol, fault};
  return command;
}

}  // namespace runnel
