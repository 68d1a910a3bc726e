#include "runner/grammar/compiled_grammar.h"

#include <chrono>
#include <future>
#include <random>
#include <set>
#include <string>

#include "runner/system/deep_thread.h"
#include "test/fixtures/byte_vocabulary.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using test::allowed_after;
using test::mask_of;
using Allowed = std::set<std::string>;

// Whether the grammar allows the text as a complete answer.
bool matches(const GrammarSource& source, const std::string& text) {
  const auto mask = mask_of(source);
  REQUIRE(mask.ok());
  return allowed_after(**mask, text).contains("<stop>");
}

std::string refusal_of(const GrammarSource& source) {
  const auto mask = mask_of(source);
  if (mask.ok()) return "";
  CHECK(mask.error().exit_code == ExitCode::kUsage);
  return mask.error().message;
}

GrammarSource schema(const std::string& text, bool strict = true) {
  return {.kind = GrammarKind::kJsonSchema, .strict = strict, .text = text};
}
GrammarSource regex(const std::string& text) {
  return {.kind = GrammarKind::kRegex, .text = text};
}
GrammarSource ebnf(const std::string& text) {
  return {.kind = GrammarKind::kEbnf, .text = text};
}

std::string repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

const std::string kPerson = R"({"type": "object", "required": ["name", "age"], "properties": {
  "name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
  "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}}})";

TEST_CASE("grammar: a mask has the tokens after which the answer can be made whole, and no others") {
  const auto mask = mask_of(regex("(12|1a|true)b?"));
  REQUIRE(mask.ok());
  CHECK(allowed_after(**mask, "") == Allowed{"1", "12", "t", "true"});
  CHECK(allowed_after(**mask, "1") == Allowed{"2", "a", "ab"});
  CHECK(allowed_after(**mask, "12") == Allowed{"b", "<stop>"});
  CHECK(allowed_after(**mask, "12b") == Allowed{"<stop>"});
}

TEST_CASE(
    "grammar: a stop id is allowed where the grammar may end and nowhere else, also if it has a spelling") {
  const auto compiled = test::byte_vocabulary().compile(regex("a+"));
  REQUIRE(compiled.ok());
  const std::vector<uint32_t> stop_ids = {test::kStopId, test::id_of('a')};
  const auto mask = (*compiled)->mask(stop_ids);
  REQUIRE(mask.ok());
  CHECK(allowed_after(**mask, "").empty());
  const auto other = mask_of(regex("[ab]+"));
  CHECK(allowed_after(**other, "") == Allowed{"a", "b", "ab"});
  CHECK(allowed_after(**other, "a") == Allowed{"a", "b", "ab", "<stop>"});
}

TEST_CASE("grammar: generated tokens are accepted together or one by one") {
  const std::string text = R"({"name": "ab", "age": 12, "tags": ["a"]})";
  const auto by_one = mask_of(schema(kPerson));
  for (size_t n = 0; n <= text.size(); ++n) {
    CAPTURE(n);
    const auto at_once = mask_of(schema(kPerson));
    const Allowed allowed = allowed_after(**at_once, text.substr(0, n));
    CHECK(allowed == allowed_after(**by_one, text.substr(0, n)));
    CHECK_FALSE(allowed.empty());
  }
}

TEST_CASE("grammar: generated tokens that it does not allow are named") {
  const auto mask = mask_of(regex("12+"));
  CHECK(allowed_after(**mask, "12a") ==
        Allowed{"Token 2 of the answer, id 98, is not what the grammar allows there."});
}

// The spelling of the guess after a text; empty if there is none.
std::string guess_after(TokenMask& mask, const std::string& text) {
  std::vector<uint32_t> bits(num_id_words(test::byte_vocab_size()));
  CHECK(mask.fill(test::ids_of(text), bits).ok());
  const std::optional<uint32_t> id = mask.guess(bits);
  return id ? test::byte_spellings().at(*id) : "";
}

TEST_CASE("grammar: where all allowed tokens agree the longest is guessed, and none where the text may end") {
  const auto mask = mask_of(regex("(ab|true) \":(12|34)(x+|y)"));
  REQUIRE(mask.ok());
  CHECK(guess_after(**mask, "") == "");  // ab or true
  CHECK(guess_after(**mask, "t") == "r");
  CHECK(guess_after(**mask, "a") == "b");
  CHECK(guess_after(**mask, "true ") == "\":");
  CHECK(guess_after(**mask, "true \":") == "");
  CHECK(guess_after(**mask, "true \":3") == "4");
  CHECK(guess_after(**mask, "true \":12x") == "");  // the text may end
  const auto all = mask_of(regex("true."));
  CHECK(guess_after(**all, "") == "true");
  CHECK(guess_after(**all, "true") == "");  // more tokens than are looked at
  const auto longer = mask_of(regex("(t|tr)u"));
  CHECK(guess_after(**longer, "") == "t");
}

TEST_CASE("grammar: a mask is the same whatever was followed before, be it guessed or not allowed") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const GrammarSource& source :
       {schema(kPerson), schema(R"({"type": "array", "items": {"enum": ["ab", "true", 12]}})"),
        regex("(12|1a|true)*b?(ab|a|b){2,5}"), ebnf("root ::= \"a\" root \"b\" | \"12\"")}) {
    const auto compiled = test::byte_vocabulary().compile(source);
    REQUIRE(compiled.ok());
    const std::vector<uint32_t> stop_ids = {test::kStopId};
    const auto mask = (*compiled)->mask(stop_ids);
    std::vector<uint32_t> ids;
    for (uint32_t i = 0; i < 60; ++i) {
      std::vector<uint32_t> bits(num_id_words(test::byte_vocab_size())), expected = bits;
      REQUIRE((*mask)->fill(ids, bits).ok());
      REQUIRE((*(*compiled)->mask(stop_ids))->fill(ids, expected).ok());
      CHECK(bits == expected);
      const auto draw = [&] {
        std::vector<uint32_t> allowed;
        for (uint32_t id = 0; id < test::byte_vocab_size(); ++id)
          if (has_id(bits, id)) allowed.push_back(id);
        return allowed.at(random() % allowed.size());
      };
      const uint32_t drawn = draw();
      std::vector<uint32_t> guessed = ids;
      for (uint64_t more = random() % 4; more > 0; --more) {
        guessed.push_back(draw());
        if (guessed.back() == test::kStopId) break;
        REQUIRE((*mask)->fill(guessed, bits).ok());
      }
      guessed.push_back(test::byte_vocab_size() - 1);  // has no spelling
      if (random() % 8 == 0) CHECK_FALSE((*mask)->fill(guessed, bits).ok());
      if (drawn == test::kStopId) break;
      ids.push_back(drawn);
    }
  }
}

TEST_CASE("grammar: each kind allows what it says") {
  CHECK(matches(schema(kPerson), R"({"name": "ab", "age": 12})"));
  CHECK(matches(schema(kPerson), "{\n  \"name\" : \"ab\",\n  \"age\": 12, \"tags\": [\"b\",\"a\"]}"));
  CHECK_FALSE(matches(schema(kPerson), R"({"name": "abcdef", "age": 12})"));
  CHECK_FALSE(matches(schema(kPerson), R"({"name": "ab", "age": 121})"));
  CHECK_FALSE(matches(schema(kPerson), R"({"name": "ab", "age": 12, "more": 1})"));
  CHECK(matches(schema(kPerson, false), R"({"name": "ab", "age": 12, "more": 1})"));
  const GrammarSource object{.kind = GrammarKind::kJsonObject};
  CHECK(matches(object, R"({"a": [1, null, {"b": "\u00e9é"}]})"));
  CHECK_FALSE(matches(object, "[1]"));
  CHECK(matches(regex("\\d{3}-(yes|no)"), "123-no"));
  CHECK_FALSE(matches(regex("\\d{3}-(yes|no)"), "12-no"));
  CHECK(matches(ebnf("root ::= \"a\" root \"b\" | \"\""), "aaabbb"));
  CHECK_FALSE(matches(ebnf("root ::= \"a\" root \"b\" | \"\""), "aabbb"));
  const GrammarSource tag{.kind = GrammarKind::kStructuralTag,
                          .text = R"({"type": "structural_tag", "format": {
    "type": "triggered_tags", "triggers": ["<call"], "tags": [
      {"begin": "<call=f>", "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "</call>"}]}})"};
  CHECK(matches(tag, "Free text, then <call=f>12</call> and more."));
  CHECK_FALSE(matches(tag, "Free text, then <call=f>ab"));
}

TEST_CASE("grammar: a string whose length is bounded has no control character, which JSON does not have") {
  const GrammarSource bounded = schema(R"({"type": "string", "minLength": 1, "maxLength": 3})");
  CHECK(matches(bounded, "\"a b\""));
  for (const char control : {'\x01', '\t', '\n', '\x1f'}) {
    CAPTURE(static_cast<int>(control));
    CHECK_FALSE(matches(bounded, std::string("\"") + control + "\""));
  }
}

TEST_CASE("grammar: whitespace of JSON ends, so that an answer does") {
  const auto mask = mask_of(schema(R"({"type": "array", "items": {"type": "integer"}})"));
  CHECK(allowed_after(**mask, "[").contains(" "));
  CHECK_FALSE(allowed_after(**mask, "[" + repeated(" ", kMaxJsonWhitespace)).contains(" "));
}

TEST_CASE("grammar: an invalid source is refused with its fault, in printable characters") {
  for (const GrammarSource& source :
       {schema("{"), schema("[1]"), schema(R"({"type": "colour"})"), schema(R"({"$ref": "#/nowhere"})"),
        regex("a("), regex("[b-a]"), ebnf("root ::= other"), ebnf("\x01\xff"), ebnf("no_root ::= \"a\""),
        GrammarSource{.kind = GrammarKind::kStructuralTag, .text = "{}"}}) {
    const std::string refusal = refusal_of(source);
    CAPTURE(source.text);
    CHECK(refusal.starts_with("Compiling the grammar fails: "));
    CHECK(refusal.ends_with('.'));
    CHECK_FALSE(refusal.ends_with(".."));
    CHECK(refusal.size() < 700);
    for (const char c : refusal) CHECK((c >= 0x20 && c < 0x7f));
  }
}

// Grammars that would harm a runner without limits: by memory for each repetition, a stack frame for each
// bracket, masks for each state, or time for each ambiguity.
const std::vector<GrammarSource>& hostile_sources() {
  static const std::vector<GrammarSource> sources = [] {
    std::string chain = "root ::= r0\n";
    for (int i = 0; i < 12000; ++i) chain += "r" + std::to_string(i) + "::=r" + std::to_string(i + 1) + "\n";
    std::string doubling = "root ::= r0\n";
    for (int i = 0; i < 200; ++i) {
      const std::string next = "r" + std::to_string(i + 1);
      doubling += "r" + std::to_string(i) + " ::= " + next + " " + next + "\n";
    }
    std::string properties;
    for (int i = 0; i < 4000; ++i)
      properties +=
          (i > 0 ? "," : "") + std::string("\"p") + std::to_string(i) + "\": {\"type\": \"string\"}";
    return std::vector<GrammarSource>{
        regex("a{1,100000000}"),
        regex("(((a{1,1000}){1,1000}){1,1000}){1,1000}"),
        regex("(a*)*b"),
        regex("(a|a)*(a|aa)*(a|aaa)*(a|aaaa)*c"),
        regex(repeated("(a|b|ab)?", 5000)),
        regex(repeated("[^a]{0,9}", 5000)),
        regex(repeated("(", 100) + "a" + repeated(")*", 100)),
        regex("(.*a){200}"),
        ebnf(chain + "r12000::=\"a\"\n"),
        ebnf(doubling + "r200 ::= \"a\"\n"),
        ebnf("root ::= root root | \"a\" | \"\""),
        ebnf("root ::= root"),
        ebnf("root ::= root{3,}"),
        ebnf("root ::= a{2,9}\na ::= b{1,}\nb ::= a{3,}"),
        ebnf("root ::= \"a\"{1,2000000000}"),
        ebnf("root ::= [a-z]{0,30000} [a-z]{0,30000} \"x\""),
        schema(repeated("{\"properties\":{\"a\":", 60) + "{}" + repeated("}}", 60)),
        schema(R"({"$ref": "#"})"),
        schema(R"({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}})"),
        schema(R"({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]})"),
        schema(R"({"type": "string", "minLength": 50000000, "maxLength": 100000000})"),
        schema(R"({"type": "array", "minItems": 100000000})"),
        schema(R"({"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807})"),
        schema(R"({"type": "string", "pattern": "^(a+)+$"})"),
        schema("{\"type\": \"object\", \"properties\": {" + properties + "}}"),
        schema("{\"enum\": [" + repeated("1,", 60000) + "1]}"),
    };
  }();
  return sources;
}

TEST_CASE("grammar: hostile sources compile within the bounds, or are refused, and so is following them") {
  DeepThread thread;
  REQUIRE(thread.start([] {
    for (const GrammarSource& source : hostile_sources()) {
      CAPTURE(source.text.substr(0, 80));
      const auto mask = mask_of(source);
      if (!mask.ok()) {
        CHECK(mask.error().exit_code == ExitCode::kUsage);
        continue;
      }
      for (const size_t num_tokens : {size_t{0}, size_t{100}, size_t{3000}}) {
        std::vector<uint32_t> bits(num_id_words(test::byte_vocab_size()));
        if (!(*mask)->fill(test::ids_of(repeated("a", num_tokens)), bits).ok()) break;
      }
    }
  }));
  thread.join();
}

TEST_CASE("grammar: a mask that takes too long ends its request, and the grammar gives no masks any more") {
  const auto compiled = test::byte_vocabulary().compile(regex("(.?){40}.{40}"));
  REQUIRE(compiled.ok());
  const std::vector<uint32_t> stop_ids = {test::kStopId};
  const auto mask = (*compiled)->mask(stop_ids, {.one = std::chrono::milliseconds(0)});
  REQUIRE(mask.ok());
  CHECK(allowed_after(**mask, "") == Allowed{"Following the grammar takes more than the limit of 0 ms of "
                                             "processor time. Ask for something simpler."});
  const auto next = (*compiled)->mask(stop_ids);
  REQUIRE_FALSE(next.ok());
  CHECK(next.error().exit_code == ExitCode::kUsage);
  CHECK(next.error().message ==
        "Following this grammar has taken more than the limit of processor time before. Ask for something "
        "simpler.");
}

TEST_CASE("grammar: masks that take too long in all end their request, and no other if they are quick") {
  const auto compiled = test::byte_vocabulary().compile(regex("a+"));
  REQUIRE(compiled.ok());
  const std::vector<uint32_t> stop_ids = {test::kStopId};
  const auto mask = (*compiled)->mask(stop_ids, {.request = std::chrono::milliseconds(0)});
  REQUIRE(mask.ok());
  CHECK(allowed_after(**mask, "") ==
        Allowed{"The masks of this request take more than the limit of 0 ms of processor time. Ask for "
                "something simpler, or for fewer tokens."});
  CHECK((*compiled)->mask(stop_ids).ok());
}

TEST_CASE("grammar: masks of one grammar can be filled at the same time") {
  const auto compiled = test::byte_vocabulary().compile(schema(kPerson));
  REQUIRE(compiled.ok());
  const std::string text = R"({"name": "ab", "age": 12, "tags": ["a"]})";
  const std::vector<uint32_t> stop_ids = {test::kStopId};
  const auto masks_of_text = [&] {
    const auto mask = (*compiled)->mask(stop_ids);
    std::vector<Allowed> all;
    for (size_t n = 0; n <= text.size(); ++n) all.push_back(allowed_after(**mask, text.substr(0, n)));
    return all;
  };
  const std::vector<Allowed> expected = masks_of_text();
  std::vector<std::future<std::vector<Allowed>>> others;
  for (int i = 0; i < 4; ++i) others.push_back(std::async(std::launch::async, masks_of_text));
  for (auto& other : others) CHECK(other.get() == expected);
}

TEST_CASE("grammar: random sources neither crash nor hang it") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::vector<std::string> pieces = {"a",
                                           "b",
                                           "(",
                                           ")",
                                           "[",
                                           "]",
                                           "{",
                                           "}",
                                           "|",
                                           "*",
                                           "+",
                                           "?",
                                           "\\",
                                           "\"",
                                           "::=",
                                           "root",
                                           "\n",
                                           " ",
                                           ",",
                                           ":",
                                           "{1,9}",
                                           "{3,}",
                                           "[^a]",
                                           "\\d",
                                           "\"type\"",
                                           "\"object\"",
                                           "\"properties\"",
                                           "\"$ref\"",
                                           "\"#\"",
                                           "\"anyOf\"",
                                           "\"pattern\"",
                                           "\"items\"",
                                           "root ::= ",
                                           "1e999",
                                           "\xc3",
                                           "\\u12",
                                           "(?=",
                                           "TagDispatch",
                                           "Token(",
                                           "0"};
  DeepThread thread;
  REQUIRE(thread.start([&] {
    for (int i = 0; i < 3000; ++i) {
      GrammarSource source{.kind = static_cast<GrammarKind>(1 + random() % 5)};
      if (random() % 3 == 0) source.text = source.kind == GrammarKind::kEbnf ? "root ::= " : "{";
      for (uint64_t n = random() % 25; n > 0; --n) source.text += pieces[random() % pieces.size()];
      if (!check_grammar(source).ok()) continue;
      const auto mask = mask_of(source);
      std::vector<uint32_t> bits(num_id_words(test::byte_vocab_size()));
      if (mask.ok()) (void)(*mask)->fill({}, bits);
    }
  }));
  thread.join();
}

TEST_CASE("grammar: bounds of a source are checked before it is compiled") {
  const auto refused = [](const GrammarSource& source) {
    const Result<void> checked = check_grammar(source);
    return checked.ok() ? std::string() : checked.error().message;
  };
  CHECK(refused(regex("")) == "grammar.source is empty; it may be empty only for GRAMMAR_KIND_JSON_OBJECT.");
  CHECK(refused({.kind = GrammarKind::kJsonObject, .text = "{}"}) ==
        "grammar.source must be empty for GRAMMAR_KIND_JSON_OBJECT; it has 2 bytes.");
  CHECK(refused({.text = "a"}) == "grammar.kind is not one that this runner knows.");
  CHECK(refused(regex(std::string(kMaxGrammarBytes + 1, 'a'))) ==
        "grammar.source has 262145 bytes; the limit is 262144.");
  CHECK(refused(regex(std::string(kMaxGrammarBytes, 'a'))) == "");
  CHECK(refused(regex(repeated("(", 128) + repeated(")", 128))) == "");
  CHECK(refused(schema(repeated("[{", 64) + "(")) ==
        "grammar.source has brackets 129 deep inside each other; the limit is 128.");
  CHECK(refused(regex(repeated("\\(", 1000))) == "");
}

}  // namespace
}  // namespace runnel
