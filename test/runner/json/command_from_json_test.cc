#include "runner/json/command_from_json.h"

#include "runner/serving/command_decoder.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

std::string refusal_of(const std::string& text) {
  const Result<wire::ToRunner> command = command_from_json(text);
  if (command.ok()) return "";
  CHECK(command.error().exit_code == ExitCode::kProtocol);
  return command.error().message;
}

std::string generate(const std::string& fields) {
  return "{\"generate\":{" + fields + "}}";
}

// Decodes the bytes one by one. Returns the request ids of cancels, then the error that ended the stream.
std::string decoded(std::string_view text) {
  CommandDecoder decoder(FrameForm::kJson);
  std::string out;
  for (const char& byte : text) {
    std::span<const std::byte> bytes = std::as_bytes(std::span(&byte, 1));
    const Result<std::optional<wire::ToRunner>> command = decoder.next(bytes);
    if (!command.ok()) return out + command.error().message;
    if (*command) out += std::to_string((*command)->cancel().request_id()) + " ";
  }
  const Result<void> end = decoder.finish();
  return end.ok() ? out + "end" : out + end.error().message;
}

}  // namespace

TEST_CASE("json frames: a number of 64 bits is a number or a string, and keeps its bits") {
  const auto seed_of = [](const std::string& value) {
    return command_from_json(generate("\"sampling\":{\"seed\":" + value + "}"))
        .value()
        .generate()
        .sampling()
        .seed();
  };
  CHECK(seed_of("18446744073709551615") == 18446744073709551615u);
  CHECK(seed_of("\"18446744073709551615\"") == 18446744073709551615u);
  CHECK(seed_of("9007199254740993") == 9007199254740993u);
}

TEST_CASE("json frames: unknown or invalid fields are refused by their path") {
  CHECK(refusal_of(generate("\"max_token\":1")) == "generate.\"max_token\" is not in the protocol.");
  CHECK(refusal_of(generate("\"sampling\":{\"temprature\":1}")) ==
        "generate.sampling.\"temprature\" is not in the protocol.");
  CHECK(refusal_of(generate("\"sampling\":{\"logit_bias\":[{\"token_id\":1},{\"id\":1}]}")) ==
        "generate.sampling.logit_bias[1].\"id\" is not in the protocol.");
  CHECK(refusal_of("{\"explode\":{}}") == "\"explode\" is not in the protocol.");
  CHECK(refusal_of("{\"drain\":{\"now\":true}}") == "drain.\"now\" is not in the protocol.");
  const std::string not_32_bits = " must be a whole number from 0 to 4294967295.";
  CHECK(refusal_of(generate("\"token_ids\":[1,-1]")) == "generate.token_ids[1]" + not_32_bits);
  CHECK(refusal_of(generate("\"max_tokens\":4294967296")) == "generate.max_tokens" + not_32_bits);
  CHECK(refusal_of(generate("\"max_tokens\":1.5")) == "generate.max_tokens" + not_32_bits);
  CHECK(refusal_of(generate("\"max_tokens\":\"1\"")) == "generate.max_tokens" + not_32_bits);
  CHECK(refusal_of(generate("\"max_tokens\":null")) == "generate.max_tokens" + not_32_bits);
  CHECK(refusal_of(generate("\"sampling\":{\"seed\":\"18446744073709551616\"}"))
            .find("generate.sampling.seed") == 0);
  CHECK(refusal_of(generate("\"sampling\":{\"seed\":\"\"}")).find("generate.sampling.seed") == 0);
  CHECK(refusal_of(generate("\"sampling\":{\"top_p\":\"1\"}")) ==
        "generate.sampling.top_p must be a number.");
  CHECK(refusal_of(generate("\"sampling\":[]")) == "generate.sampling must be an object.");
  CHECK(refusal_of(generate("\"stop_ids\":5")) == "generate.stop_ids must be an array.");
  for (const char* salt : {"7", "\"f\"", "\"0g\"", "\"-1\"", "\" 1\""}) {
    CAPTURE(salt);
    CHECK(refusal_of(generate(std::string("\"cache_salt\":") + salt)) ==
          "generate.cache_salt must be a string of hexadecimal digits, two a byte.");
  }
  CHECK(refusal_of("{\"cancel\":7}") == "cancel must be an object.");
}

TEST_CASE("json frames: anything but an object of one member is refused at any depth") {
  const std::string deep(100000, '[');
  for (const std::string& text :
       {std::string("nonsense"), std::string("[]"), std::string("{}"), std::string("{\"drain\":{}"),
        std::string("{\"pause\":{},\"resume\":{}}"), deep, "{\"drain\":" + deep})
    CHECK(refusal_of(text).find("is not a JSON object with one member") != std::string::npos);
}

TEST_CASE("json frames: lines come in any pieces, and blank ones are skipped") {
  CHECK(decoded("") == "end");
  CHECK(decoded("\n \r\n{\"cancel\":{\"request_id\":7}}\r\n{\"cancel\":{\"request_id\":8}}\n") == "7 8 end");
  CHECK(decoded("{\"cancel\":{\"request_id\":7}}\n{}\n").find("7 Line 2: ") == 0);
  CHECK(decoded("{\"cancel\":{\"request_id\":7}}\n{\"drain\"") ==
        "7 The stream ended inside a line, after 8 bytes of it; end each line with a line feed.");
  const std::string long_line(kMaxToRunnerBytes + 1, ' ');
  std::span<const std::byte> bytes = std::as_bytes(std::span(long_line));
  CHECK(CommandDecoder(FrameForm::kJson).next(bytes).error().message ==
        "A line is over the limit of 16777216 bytes.");
}

}  // namespace runnel
