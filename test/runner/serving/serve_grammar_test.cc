// Requests with grammars in the serve loop. Grammars are compiled during steps; requests are refused,
// cancelled and continued.
#include <map>
#include <string>
#include <vector>

#include "test/fixtures/serving_runner.h"

namespace runnel {
namespace {

constexpr uint32_t kStopId = 0;

// The spelling of an id of the fake model: kStopId has none, the next ids are the characters from ' ' on.
std::string spelling_of(uint32_t id) {
  return id == kStopId ? "" : std::string(1, static_cast<char>(' ' + id - 1));
}

std::string text_of(const std::vector<uint32_t>& ids) {
  std::string text;
  for (const uint32_t id : ids) text += spelling_of(id);
  return text;
}

constexpr uint32_t kNumSpelled = 96;

wire::ToRunner vocabulary_part(uint32_t first_id, uint32_t end_id) {
  wire::ToRunner command;
  wire::Vocabulary& vocabulary = *command.mutable_vocabulary();
  vocabulary.set_num_tokens(kNumSpelled);
  vocabulary.set_num_bytes(kNumSpelled - 1);
  vocabulary.set_first_id(first_id);
  for (uint32_t id = first_id; id < end_id; ++id) {
    vocabulary.add_lengths(static_cast<uint32_t>(spelling_of(id).size()));
    *vocabulary.mutable_spellings() += spelling_of(id);
  }
  return command;
}

void send_vocabulary(GatewayEnd& gateway) {
  gateway.send(vocabulary_part(0, 40));
  gateway.send(vocabulary_part(40, kNumSpelled));
}

wire::ToRunner with_grammar(const Sequence& sequence, wire::GrammarKind kind, const std::string& source) {
  wire::ToRunner command = generate_of(sequence);
  command.mutable_generate()->add_stop_ids(kStopId);
  command.mutable_generate()->mutable_grammar()->set_kind(kind);
  command.mutable_generate()->mutable_grammar()->set_source(source);
  return command;
}

wire::ToRunner with_regex(const Sequence& sequence, const std::string& regex) {
  return with_grammar(sequence, wire::GRAMMAR_KIND_REGEX, regex);
}

const std::string kObject = R"({"type": "object", "required": ["a", "b"], "additionalProperties": false,
  "properties": {"a": {"type": "boolean"}, "b": {"type": "array", "items": {"enum": ["X", "Y"]}, "maxItems": 3}}})";

}  // namespace

TEST_CASE("serve: answers by grammars are what the grammars say, each beside others with and without one") {
  ServingRunner runner;
  Listener listener(runner.gateway);
  send_vocabulary(runner.gateway);
  const Sequence plain = seeded(9, 30, 40);
  runner.gateway.send(generate_of(plain));
  for (uint32_t id = 1; id <= 4; ++id)
    runner.gateway.send(with_regex(seeded(id, 10 * id, 40), "[A-C]{3}-(YES|NO)"));
  for (uint32_t id = 1; id <= 4; ++id) {
    const Answer& answer = listener.until_ended(id);
    CHECK(answer.finish_reason == wire::FINISH_REASON_STOP_ID);
    const std::string text = text_of(answer.token_ids);
    CAPTURE(text);
    REQUIRE(text.size() >= 6);
    CHECK(text.substr(0, 3).find_first_not_of("ABC") == std::string::npos);
    CHECK((text.substr(3) == "-YES" || text.substr(3) == "-NO"));
  }
  CHECK(listener.until_ended(9).token_ids == fake_answer(plain, kContext));
}

TEST_CASE(
    "serve: an answer by a grammar that is continued anywhere gets the same tokens, with drafts and "
    "without") {
  std::vector<uint32_t> whole;
  {
    ServingRunner runner;
    Listener listener(runner.gateway);
    send_vocabulary(runner.gateway);
    runner.gateway.send(with_grammar(seeded(1, 10, 120), wire::GRAMMAR_KIND_JSON_SCHEMA, kObject));
    const Answer& answer = listener.until_ended(1);
    REQUIRE(answer.finish_reason == wire::FINISH_REASON_STOP_ID);
    whole = answer.token_ids;
  }
  CAPTURE(text_of(whole));
  CHECK(text_of(whole).front() == '{');
  SchedulerConfig speculating = kScheduler;
  speculating.speculation = true;
  for (size_t num_emitted = 0; num_emitted < whole.size(); ++num_emitted) {
    ServingRunner runner(num_emitted % 2 == 0 ? speculating : kScheduler);
    send_vocabulary(runner.gateway);
    Sequence request = seeded(1, 10, 120);
    const std::vector<uint32_t> emitted(whole.begin(), whole.begin() + static_cast<int64_t>(num_emitted));
    request.token_ids.insert(request.token_ids.end(), emitted.begin(), emitted.end());
    runner.gateway.send(with_grammar(request, wire::GRAMMAR_KIND_JSON_SCHEMA, kObject));
    Listener listener(runner.gateway);
    listener.answers[1].token_ids = emitted;
    CHECK(listener.until_ended(1).token_ids == whole);
  }
}

TEST_CASE("serve: a grammar that does not compile, or has no vocabulary or stop id, ends its request alone") {
  ServingRunner runner;
  Listener listener(runner.gateway);
  runner.gateway.send(with_regex(seeded(1, 10, 5), "A"));
  CHECK(listener.until_ended(1).error->message() ==
        "A request has a grammar, and no whole Vocabulary came before it.");
  send_vocabulary(runner.gateway);
  runner.gateway.send(with_regex(seeded(2, 10, 5), "A("));
  CHECK(listener.until_ended(2).error->code() == wire::ERROR_CODE_INVALID_REQUEST);
  CHECK(listener.answers[2].error->message().starts_with("Compiling the grammar fails: "));
  wire::ToRunner endless = with_regex(seeded(3, 10, 5), "A");
  endless.mutable_generate()->clear_stop_ids();
  runner.gateway.send(endless);
  CHECK(listener.until_ended(3).error->message() ==
        "A request with a grammar has no stop_ids; nothing could be drawn where its answer ends.");
  runner.gateway.send(with_grammar(seeded(4, 10, 5), wire::GRAMMAR_KIND_UNSPECIFIED, "A"));
  CHECK(listener.until_ended(4).error->message() == "grammar.kind is not one that this runner knows.");
  Sequence other = seeded(5, 10, 9);
  other.token_ids.push_back(1 + 'B' - ' ');
  runner.gateway.send(with_regex(other, "A+"));
  CHECK(listener.until_ended(5).error->code() == wire::ERROR_CODE_GRAMMAR_FAILED);
  runner.gateway.send(with_regex(seeded(6, 10, 9), "A"));
  CHECK(text_of(listener.until_ended(6).token_ids) == "A");
}

TEST_CASE(
    "serve: requests whose grammars are being compiled can be cancelled and paused, and are finished by "
    "Drain") {
  ServingRunner runner;
  Listener listener(runner.gateway);
  send_vocabulary(runner.gateway);
  const std::string slow = "([A-Z]{1,40}-){1,40}[0-9]";
  runner.gateway.send(with_regex(seeded(1, 10, 5), slow));
  runner.gateway.send(with_regex(seeded(2, 10, 5), slow + "A"));
  runner.gateway.send(cancel_of(2));
  runner.gateway.send(with_regex(seeded(3, 10, 4), "[A-B]{4}"));
  runner.gateway.send(pause_of(3));
  runner.gateway.send(resume_of(3));
  CHECK(listener.until_ended(2).error->code() == wire::ERROR_CODE_CANCELLED);
  runner.gateway.send(drain());
  CHECK(listener.until_ended(1).token_ids.size() == 5);
  CHECK(listener.until_ended(3).token_ids.size() == 4);
  CHECK(runner.end().ok());
}

TEST_CASE(
    "serve: the end of the stream finishes requests whose grammars are being compiled, paused ones too") {
  ServingRunner runner;
  Listener listener(runner.gateway);
  send_vocabulary(runner.gateway);
  runner.gateway.send(with_regex(seeded(1, 10, 5), "[A-Z]{1,90}"));
  runner.gateway.send(pause_of(1));
  runner.gateway.close_stdin();
  CHECK(listener.until_ended(1).token_ids.size() >= 1);
  CHECK(runner.end().ok());
}

TEST_CASE(
    "serve: streams with slow masks get the same tokens alone, beside others, and after Drain or the end") {
  enum class End { kAlone, kDrain, kStream };
  const std::string slow = "(.?){40}.{40}";
  std::map<uint32_t, std::vector<uint32_t>> alone;
  for (const End end : {End::kAlone, End::kDrain, End::kStream}) {
    ServingRunner runner;
    Listener listener(runner.gateway);
    send_vocabulary(runner.gateway);
    const Sequence plain = seeded(9, 30, 40);
    runner.gateway.send(generate_of(plain));
    for (uint32_t id = 1; id <= 3; ++id) {
      runner.gateway.send(with_regex(seeded(id, 10, 6), slow));
      if (end == End::kAlone) alone[id] = listener.until_ended(id).token_ids;
    }
    if (end == End::kDrain) runner.gateway.send(drain());
    if (end == End::kStream) runner.gateway.close_stdin();
    for (uint32_t id = 1; id <= 3; ++id) CHECK(listener.until_ended(id).token_ids == alone[id]);
    CHECK(listener.until_ended(9).token_ids == fake_answer(plain, kContext));
    if (end != End::kAlone) CHECK(runner.end().ok());
  }
  for (const auto& [id, token_ids] : alone) CHECK(token_ids.size() == 6);
}

TEST_CASE("serve: a Vocabulary that breaks the protocol ends the runner with its reason") {
  ServingRunner runner;
  runner.gateway.send(vocabulary_part(5, 10));
  const Result<void> end = runner.end();
  REQUIRE_FALSE(end.ok());
  CHECK(end.error().exit_code == ExitCode::kProtocol);
  CHECK(end.error().message == "A Vocabulary has first_id 5; the next is 0.");
}

}  // namespace runnel
