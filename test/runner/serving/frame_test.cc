// The byte vectors of test/golden/frames.json, which also test the gateway's decoder.
#include "runner/serving/frame.h"

#include <string>
#include <vector>

#include "runner/serving/messages.h"
#include "test/fixtures/frame_vectors.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

struct Decoded {
  std::vector<std::string> frames;
  std::string error;  // the sentence; "" if there is no error
};

// Decodes the pieces in order, then the end of the stream.
Decoded decode(const std::vector<std::string>& pieces, uint32_t max_message_bytes) {
  FrameDecoder decoder(max_message_bytes);
  Decoded decoded;
  for (const std::string& piece : pieces) {
    std::span<const std::byte> bytes = std::as_bytes(std::span(piece));
    while (true) {
      std::string message;
      const Result<bool> whole = decoder.next(bytes, message);
      if (!whole.ok()) {
        decoded.error = whole.error().message;
        return decoded;
      }
      if (!*whole) break;
      decoded.frames.push_back(message);
    }
    CHECK(bytes.empty());
  }
  const Result<void> end = decoder.finish();
  if (!end.ok()) decoded.error = end.error().message;
  return decoded;
}

template <typename Message>
void read_messages(Decoded& decoded, std::vector<std::string>& members, auto&& name_of) {
  for (const std::string& frame : decoded.frames) {
    const Result<Message> message = parse_message<Message>(frame);
    if (message.ok()) {
      members.push_back(name_of(message->message_case()));
    } else {
      decoded.error = message.error().message;
    }
  }
}

std::string name_of_command(wire::ToRunner::MessageCase member) {
  const char* names[] = {"",      "generate",   "cancel", "pause",     "resume",
                         "drain", "vocabulary", "embed",  "release_kv"};
  return names[member];
}

std::string name_of_event(wire::FromRunner::MessageCase member) {
  const char* names[] = {"",          "hello",         "load_progress", "ready",           "step",
                         "heartbeat", "request_error", "failure",       "prompt_logprobs", "stats",
                         "embedding"};
  return names[member];
}

void check_vector(const nlohmann::json& vector, const std::vector<std::string>& pieces) {
  const bool to_runner = vector["direction"] == "to_runner";
  Decoded decoded = decode(pieces, to_runner ? kMaxToRunnerBytes : kMaxFromRunnerBytes);
  std::vector<std::string> members;
  if (to_runner) {
    read_messages<wire::ToRunner>(decoded, members, name_of_command);
  } else {
    read_messages<wire::FromRunner>(decoded, members, name_of_event);
  }

  std::vector<std::string> frames;
  for (const auto& frame : vector["frames"]) frames.push_back(from_hex(frame));
  CHECK(decoded.frames == frames);
  CHECK(members == vector["messages"].get<std::vector<std::string>>());

  const nlohmann::json part_of_sentence = {{"varint", "more than 5 bytes"},
                                           {"oversize", "over the limit"},
                                           {"truncated", "ended inside a frame"},
                                           {"garbage", "not a protobuf"},
                                           {"empty", "no message"}};
  if (vector["error"].is_null()) {
    CHECK(decoded.error == "");
  } else {
    CHECK(decoded.error.find(part_of_sentence[vector["error"].get<std::string>()]) != std::string::npos);
  }
}

wire::Generate generate_of(const std::string& name) {
  for (const auto& vector : frame_vectors()) {
    if (vector["name"] != name) continue;
    return parse_message<wire::ToRunner>(from_hex(vector["frames"][0])).value().generate();
  }
  FAIL("no vector named ", name);
  return {};
}

}  // namespace

TEST_CASE("frames: every vector decodes as it says, whole, byte by byte and split at every place") {
  REQUIRE(frame_vectors().size() > 40);
  for (const auto& vector : frame_vectors()) {
    CAPTURE(vector["name"].get<std::string>());
    const std::string bytes = from_hex(vector["hex"]);
    check_vector(vector, {bytes});
    std::vector<std::string> single_bytes;
    for (const char byte : bytes) single_bytes.emplace_back(1, byte);
    check_vector(vector, single_bytes);
    for (size_t i = 1; i < bytes.size(); ++i) check_vector(vector, {bytes.substr(0, i), bytes.substr(i)});
  }
}

TEST_CASE("frames: decoded frames encode to the same bytes") {
  for (const auto& vector : frame_vectors()) {
    if (!vector["error"].is_null()) continue;
    if (vector["name"].get<std::string>().find("more bytes than it needs") != std::string::npos) continue;
    std::string out;
    for (const auto& frame : vector["frames"]) append_frame(from_hex(frame), out);
    CHECK(out == from_hex(vector["hex"]));
  }
}

TEST_CASE("frames: every field of a generate arrives, all 64 bits of the seed included") {
  const wire::Generate generate = generate_of("one generate");
  CHECK(generate.request_id() == 7);
  CHECK(std::vector<uint32_t>(generate.token_ids().begin(), generate.token_ids().end()) ==
        std::vector<uint32_t>{1, 300, 49151, 16777215});
  CHECK(generate.num_emitted() == 2);
  CHECK(generate.max_tokens() == 2048);
  CHECK(generate.stop_ids_size() == 2);
  CHECK(generate.sampling().temperature() == 0.75f);
  CHECK(generate.sampling().top_k() == 40);
  CHECK(generate.sampling().top_p() == 0.875f);
  CHECK(generate.sampling().min_p() == 0.0625f);
  CHECK(generate.sampling().repetition_penalty() == 1.25f);
  CHECK(generate.sampling().seed() == 18446744073709551615u);
  CHECK(generate.sampling().presence_penalty() == 1.5f);
  CHECK(generate.sampling().frequency_penalty() == -0.5f);
  REQUIRE(generate.sampling().logit_bias_size() == 2);
  CHECK(generate.sampling().logit_bias(0).token_id() == 11);
  CHECK(generate.sampling().logit_bias(0).bias() == -100.0f);
  CHECK(generate.sampling().logit_bias(1).token_id() == 49151);
  CHECK(generate.sampling().logit_bias(1).bias() == 2.5f);
  CHECK(generate.top_logprobs() == 20);

  const wire::Generate masked = generate_of("one generate with masks, prompt scores and other caches");
  CHECK(masked.prompt_logprobs() == 20);
  CHECK(masked.min_tokens() == 4);
  CHECK(masked.sampling().allowed_token_ids_size() == 3);
  CHECK(masked.sampling().allowed_token_ids(2) == 49151);
  REQUIRE(masked.sampling().banned_token_ids_size() == 1);
  CHECK(masked.sampling().banned_token_ids(0) == 300);
}

TEST_CASE("frames: a sent zero differs from an absent field") {
  const wire::Generate zeros = generate_of("one generate whose optional fields are zeros");
  CHECK(zeros.sampling().has_temperature());
  CHECK(zeros.sampling().has_seed());
  CHECK(zeros.has_top_logprobs());
  CHECK_FALSE(zeros.sampling().has_repetition_penalty());
  const wire::Generate plain = generate_of("token ids that are not packed");
  CHECK(plain.token_ids_size() == 2);
  CHECK_FALSE(plain.has_sampling());
  CHECK_FALSE(plain.has_top_logprobs());
}

}  // namespace runnel
