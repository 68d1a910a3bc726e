// The serve loop over real descriptors, with the fake model on one side and the gateway's end on the other.
#include "runner/serve.h"

#include <functional>
#include <future>
#include <map>
#include <utility>

#include "test/fixtures/fake_model.h"
#include "test/fixtures/gateway_end.h"
#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr uint32_t kContext = 4000;
constexpr SchedulerConfig kScheduler{
    .max_num_batched_tokens = 64, .max_num_seqs = 8, .block_size = 16, .num_blocks = 600};

class Runner {
 public:
  explicit Runner(const SchedulerConfig& scheduler = kScheduler, uint32_t num_layers = 4,
                  std::function<void()> in_layer = {})
      : model(scheduler.block_size, scheduler.num_blocks, scheduler.max_num_batched_tokens),
        engine_(model, {.max_model_len = kContext, .scheduler = scheduler}),
        writer_(gateway.runner_stdout()),
        reader_(gateway.runner_stdin(), inbox_),
        ended_(std::async(std::launch::async, [this, num_layers, in_layer = std::move(in_layer)] {
          model.num_layers = num_layers;
          model.in_layer = in_layer;
          return serve(engine_, inbox_, writer_, vitals_);
        })) {}

  ~Runner() {
    if (!ended_.valid()) return;
    gateway.close_stdin();
    gateway.close_stdout();
    ended_.wait();
  }

  // Waits for the loop's end, and reads what it still says, as a gateway does.
  Result<void> end() {
    const auto deadline = std::chrono::steady_clock::now() + kTestTimeout;
    while (ended_.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      gateway.discard();
    }
    return ended_.get();
  }

  GatewayEnd gateway;
  FakeModel model;

 private:
  Engine engine_;
  Inbox inbox_;
  FrameWriter writer_;
  Vitals vitals_;
  CommandReader reader_;
  std::future<Result<void>> ended_;
};

wire::ToRunner generate_of(const Sequence& sequence) {
  wire::ToRunner command;
  wire::Generate& generate = *command.mutable_generate();
  generate.set_request_id(sequence.request_id);
  generate.mutable_token_ids()->Assign(sequence.token_ids.begin(), sequence.token_ids.end());
  generate.set_num_emitted(sequence.num_generated());
  generate.set_max_tokens(sequence.max_tokens);
  generate.mutable_stop_ids()->Assign(sequence.stop_ids.begin(), sequence.stop_ids.end());
  generate.mutable_sampling()->set_temperature(sequence.sampling.temperature);
  generate.mutable_sampling()->set_seed(sequence.sampling.seed);
  if (sequence.top_logprobs) generate.set_top_logprobs(*sequence.top_logprobs);
  if (sequence.prompt_logprobs) generate.set_prompt_logprobs(*sequence.prompt_logprobs);
  generate.set_cache_salt(sequence.cache_salt);
  return command;
}

wire::ToRunner cancel_of(uint32_t request_id) {
  wire::ToRunner command;
  command.mutable_cancel()->set_request_id(request_id);
  return command;
}

wire::ToRunner pause_of(uint32_t request_id) {
  wire::ToRunner command;
  command.mutable_pause()->set_request_id(request_id);
  return command;
}

wire::ToRunner resume_of(uint32_t request_id) {
  wire::ToRunner command;
  command.mutable_resume()->set_request_id(request_id);
  return command;
}

wire::ToRunner drain() {
  wire::ToRunner command;
  command.mutable_drain();
  return command;
}

Sequence seeded(uint32_t request_id, uint32_t num_prompt_tokens, uint32_t max_tokens) {
  std::vector<uint32_t> prompt = count_from(1, num_prompt_tokens);
  for (uint32_t& id : prompt) id %= kFakeVocabSize;
  Sequence sequence = sequence_of(request_id, std::move(prompt), max_tokens);
  sequence.sampling.seed = 18446744073709551615u - request_id;
  return sequence;
}

struct Answer {
  std::vector<uint32_t> token_ids;
  wire::FinishReason finish_reason = wire::FINISH_REASON_UNSPECIFIED;
  std::optional<wire::RequestError> error;
  std::vector<int> scores_of_frame;  // how many each PromptLogprobs had
  uint32_t num_scores = 0;

  bool has_ended() const { return error || finish_reason != wire::FINISH_REASON_UNSPECIFIED; }
};

// Follows what the runner says, and that it keeps the protocol.
class Listener {
 public:
  explicit Listener(GatewayEnd& gateway) : gateway_(gateway) {}

  // False when the runner says nothing more.
  bool listen_once() {
    const std::optional<wire::FromRunner> message = gateway_.next();
    if (!message) return false;
    if (message->has_request_error()) {
      Answer& answer = answers[message->request_error().request_id()];
      CHECK_FALSE(answer.has_ended());
      answer.error = message->request_error();
      return true;
    }
    if (message->has_prompt_logprobs()) {
      Answer& answer = answers[message->prompt_logprobs().request_id()];
      CHECK_FALSE(answer.has_ended());
      CHECK(answer.token_ids.empty());
      CHECK(message->prompt_logprobs().first_index() == answer.num_scores + 1);
      answer.scores_of_frame.push_back(message->prompt_logprobs().logprobs_size());
      answer.num_scores += static_cast<uint32_t>(message->prompt_logprobs().logprobs_size());
      max_frame_bytes = std::max(max_frame_bytes, message->ByteSizeLong());
      return true;
    }
    REQUIRE(message->has_step());
    CHECK(message->step().step() == ++num_steps);
    for (const wire::Output& output : message->step().outputs()) {
      Answer& answer = answers[output.request_id()];
      CHECK_FALSE(answer.has_ended());
      CHECK(output.first_index() == answer.token_ids.size());
      answer.token_ids.insert(answer.token_ids.end(), output.token_ids().begin(), output.token_ids().end());
      answer.finish_reason = output.finish_reason();
    }
    last = *message;
    return true;
  }

  const Answer& until_ended(uint32_t request_id) {
    while (!answers[request_id].has_ended()) REQUIRE(listen_once());
    return answers[request_id];
  }

  void until_token(uint32_t request_id, size_t num_tokens) {
    while (answers[request_id].token_ids.size() < num_tokens) REQUIRE(listen_once());
  }

  std::map<uint32_t, Answer> answers;
  uint64_t num_steps = 0;
  size_t max_frame_bytes = 0;  // of PromptLogprobs
  wire::FromRunner last;

 private:
  GatewayEnd& gateway_;
};

}  // namespace

TEST_CASE("serve: several requests at once each get their own tokens, in contiguous steps") {
  Runner runner;
  Listener listener(runner.gateway);
  std::vector<Sequence> requests;
  for (uint32_t id = 1; id <= 12; ++id) requests.push_back(seeded(id, 5 + 13 * id, 40));
  for (const Sequence& request : requests) runner.gateway.send(generate_of(request));
  for (const Sequence& request : requests) {
    const Answer& answer = listener.until_ended(request.request_id);
    CHECK(answer.token_ids == fake_answer(request, kContext));
    CHECK(answer.finish_reason == wire::FINISH_REASON_MAX_TOKENS);
  }
}

TEST_CASE("serve: a prompt in chunks sends a step without outputs for each") {
  Runner runner;
  Listener listener(runner.gateway);
  runner.gateway.send(generate_of(seeded(1, 200, 1)));  // 64 rows a step
  listener.until_ended(1);
  CHECK(listener.num_steps == 4);
}

TEST_CASE("serve: frames may come in any pieces") {
  Runner runner;
  Listener listener(runner.gateway);
  const Sequence first = seeded(1, 10, 5);
  const Sequence second = seeded(2, 20, 5);
  const std::string bytes =
      GatewayEnd::frame_of(generate_of(first)) + GatewayEnd::frame_of(generate_of(second));
  for (const char byte : bytes) runner.gateway.send_bytes({&byte, 1});
  CHECK(listener.until_ended(1).token_ids == fake_answer(first, kContext));
  CHECK(listener.until_ended(2).token_ids == fake_answer(second, kContext));
}

TEST_CASE("serve: a continued request goes on at the next index with the same tokens") {
  Runner runner;
  Sequence request = seeded(1, 10, 30);
  const std::vector<uint32_t> whole = fake_answer(request, kContext);
  request.token_ids.insert(request.token_ids.end(), whole.begin(), whole.begin() + 12);
  runner.gateway.send(generate_of(request));
  Listener listener(runner.gateway);
  listener.answers[1].token_ids.assign(whole.begin(), whole.begin() + 12);
  CHECK(listener.until_ended(1).token_ids == whole);
}

TEST_CASE("serve: cancel ends a request in the middle, with one terminal event") {
  Runner runner;
  Listener listener(runner.gateway);
  runner.gateway.send(generate_of(seeded(1, 10, 3900)));
  listener.until_token(1, 3);
  runner.gateway.send(cancel_of(1));
  runner.gateway.send(cancel_of(1));
  runner.gateway.send(cancel_of(99));
  const Answer& answer = listener.until_ended(1);
  REQUIRE(answer.error);
  CHECK(answer.error->code() == wire::ERROR_CODE_CANCELLED);
  // The next message is the next request's: nothing more was said about the first.
  runner.gateway.send(generate_of(seeded(2, 10, 3)));
  CHECK(listener.until_ended(2).token_ids == fake_answer(seeded(2, 10, 3), kContext));
}

TEST_CASE("serve: cancel is answered in the middle of a step, and the others of the step get their tokens") {
  for (const bool is_alone : {true, false}) {
    CAPTURE(is_alone);
    // The layers of a step go on until the answer was heard, or for the time that a test may take.
    std::promise<void> heard;
    const std::shared_future<void> is_heard = heard.get_future().share();
    std::promise<void> begun;
    bool has_begun = false;
    Runner runner(kScheduler, kTestTimeout / std::chrono::milliseconds(1), [&] {
      if (!std::exchange(has_begun, true)) begun.set_value();
      is_heard.wait_for(std::chrono::milliseconds(1));
    });
    Listener listener(runner.gateway);
    const Sequence other = seeded(2, 10, 5);
    std::string commands = GatewayEnd::frame_of(generate_of(seeded(1, 40, 5)));
    if (!is_alone) commands += GatewayEnd::frame_of(generate_of(other));
    runner.gateway.send_bytes(commands);
    begun.get_future().wait();
    runner.gateway.send(cancel_of(1));
    const Answer& answer = listener.until_ended(1);
    heard.set_value();
    REQUIRE(answer.error);
    CHECK(answer.error->code() == wire::ERROR_CODE_CANCELLED);
    CHECK(listener.num_steps == 0);
    if (is_alone) {
      REQUIRE(listener.listen_once());
      CHECK(listener.num_steps == 1);
      CHECK(listener.last.step().outputs_size() == 0);
    } else {
      CHECK(listener.until_ended(2).token_ids == fake_answer(other, kContext));
    }
  }
}

TEST_CASE("serve: a paused request gives no token until it is resumed, and then the same ones") {
  Runner runner;
  Listener listener(runner.gateway);
  const Sequence paused = seeded(1, 10, 3000);
  runner.gateway.send(generate_of(paused));
  listener.until_token(1, 2);
  runner.gateway.send(pause_of(1));
  runner.gateway.send(generate_of(seeded(2, 30, 20)));
  listener.until_token(2, 1);  // commands are obeyed in order: the pause holds from here
  const size_t num_before = listener.answers[1].token_ids.size();
  REQUIRE(num_before < 3000);
  listener.until_ended(2);
  CHECK(listener.answers[1].token_ids.size() == num_before);
  runner.gateway.send(resume_of(1));
  CHECK(listener.until_ended(1).token_ids == fake_answer(paused, kContext));
}

TEST_CASE("serve: a first output tells of the cache, which only requests of one salt share") {
  Runner runner;
  Listener listener(runner.gateway);
  const auto num_cached = [&](uint32_t request_id, const std::string& salt) {
    Sequence request = seeded(request_id, 50, 1);
    request.cache_salt = salt;
    runner.gateway.send(generate_of(request));
    listener.until_ended(request_id);
    REQUIRE(listener.last.step().first_outputs_size() == 1);
    CHECK(listener.last.step().first_outputs(0).request_id() == request_id);
    return listener.last.step().first_outputs(0).num_cached_tokens();
  };
  CHECK(num_cached(1, "") == 0);
  CHECK(num_cached(2, "") == 48);
  CHECK(num_cached(3, "tenant") == 0);
  CHECK(num_cached(4, "tenant") == 48);
  CHECK(num_cached(5, "other tenant") == 0);
}

TEST_CASE("serve: log-probabilities come with each token if asked for, and change none") {
  Runner runner;
  Listener listener(runner.gateway);
  Sequence request = seeded(1, 10, 3);
  request.top_logprobs = 4;
  runner.gateway.send(generate_of(request));
  CHECK(listener.until_ended(1).token_ids == fake_answer(request, kContext));
  REQUIRE(listener.last.step().outputs(0).logprobs_size() == 1);
  std::vector<uint32_t> before = request.token_ids;
  const std::vector<uint32_t> answer = fake_answer(request, kContext);
  before.insert(before.end(), answer.begin(), answer.end() - 1);
  const TokenLogprobs expected = compute_logprobs(fake_logits(before), answer.back(), 4);
  const wire::TokenLogprobs& logprobs = listener.last.step().outputs(0).logprobs(0);
  CHECK(logprobs.logprob() == expected.logprob);
  CHECK(std::vector<uint32_t>(logprobs.top_ids().begin(), logprobs.top_ids().end()) == expected.top_ids);
  CHECK(std::vector<float>(logprobs.top_logprobs().begin(), logprobs.top_logprobs().end()) ==
        expected.top_logprobs);
}

TEST_CASE("serve: scores of prompts come in frames of 256 at most, before the first token") {
  Runner runner({.max_num_batched_tokens = 600, .max_num_seqs = 8, .block_size = 16, .num_blocks = 600});
  Listener listener(runner.gateway);
  Sequence first = seeded(1, 900, 3);
  first.prompt_logprobs = 20;
  Sequence second = seeded(2, 40, 3);
  second.prompt_logprobs = 0;
  runner.gateway.send(generate_of(first));
  runner.gateway.send(generate_of(second));
  runner.gateway.send(generate_of(seeded(3, 40, 3)));
  for (const uint32_t request_id : {1u, 2u, 3u}) listener.until_ended(request_id);
  CHECK(listener.answers[1].token_ids == fake_answer(first, kContext));
  CHECK(listener.answers[2].token_ids == fake_answer(second, kContext));
  // 600 rows, of which the last has no next token in sight yet, then the rest.
  CHECK(listener.answers[1].scores_of_frame == std::vector<int>{256, 256, 88, 256, 43});
  CHECK(listener.answers[2].scores_of_frame == std::vector<int>{39});
  CHECK(listener.answers[3].scores_of_frame.empty());
  CHECK(listener.max_frame_bytes < kMaxFromRunnerBytes / 8);
}

TEST_CASE("serve: a Generate outside its limits is answered, and the others go on") {
  Runner runner;
  Listener listener(runner.gateway);
  wire::ToRunner wrong = generate_of(seeded(1, 10, 3));
  wrong.mutable_generate()->mutable_sampling()->set_temperature(101.0f);
  runner.gateway.send(wrong);
  runner.gateway.send(generate_of(seeded(2, 10, 3)));
  const Answer& refused = listener.until_ended(1);
  REQUIRE(refused.error);
  CHECK(refused.error->code() == wire::ERROR_CODE_INVALID_REQUEST);
  CHECK(refused.error->message() == "temperature is 101; the limit is 0 to 100.");
  CHECK(listener.until_ended(2).token_ids.size() == 3);
}

TEST_CASE("serve: drain finishes what was accepted, refuses what comes later, and ends well") {
  Runner runner;
  Listener listener(runner.gateway);
  const Sequence accepted = seeded(1, 10, 1500);
  runner.gateway.send(generate_of(accepted));
  runner.gateway.send(drain());
  runner.gateway.send(generate_of(seeded(2, 10, 3)));
  REQUIRE(listener.until_ended(2).error);
  CHECK(listener.answers[2].error->code() == wire::ERROR_CODE_DRAINING);
  CHECK(listener.until_ended(1).token_ids == fake_answer(accepted, kContext));
  CHECK(runner.end().ok());
}

TEST_CASE("serve: the end of stdin finishes what was accepted, paused requests too, and ends well") {
  Runner runner;
  Listener listener(runner.gateway);
  const Sequence running = seeded(1, 10, 300);
  const Sequence paused = seeded(2, 20, 300);
  runner.gateway.send(generate_of(running));
  runner.gateway.send(generate_of(paused));
  runner.gateway.send(pause_of(2));
  runner.gateway.close_stdin();
  CHECK(listener.until_ended(1).token_ids == fake_answer(running, kContext));
  CHECK(listener.until_ended(2).token_ids == fake_answer(paused, kContext));
  CHECK(runner.end().ok());
}

TEST_CASE("serve: an idle runner whose stdin ends, ends well") {
  Runner runner;
  runner.gateway.close_stdin();
  CHECK(runner.end().ok());
}

TEST_CASE("serve: what breaks the protocol ends the runner with status 76") {
  const auto end_after = [](const std::string& bytes, bool close_stdin) {
    Runner runner;
    runner.gateway.send_bytes(bytes);
    if (close_stdin) runner.gateway.close_stdin();
    const Result<void> end = runner.end();
    REQUIRE_FALSE(end.ok());
    CHECK(end.error().exit_code == ExitCode::kProtocol);
    return end.error().message;
  };
  CHECK(end_after("\xff\xff\xff\xff\xff\xff", false).find("more than 5 bytes") != std::string::npos);
  CHECK(end_after("\xff\xff\xff\x7f", false).find("over the limit") != std::string::npos);
  CHECK(end_after({"\x04\xff\xff\xff\xff", 5}, false).find("not a protobuf") != std::string::npos);
  CHECK(end_after({"\0", 1}, false).find("no message") != std::string::npos);
  CHECK(end_after("\x05", true).find("inside a frame") != std::string::npos);

  const std::string twice = GatewayEnd::frame_of(generate_of(seeded(3, 10, 3000))) +
                            GatewayEnd::frame_of(generate_of(seeded(3, 10, 3000)));
  CHECK(end_after(twice, false).find("request_id 3") != std::string::npos);
  CHECK(end_after(GatewayEnd::frame_of(generate_of(seeded(0, 10, 3))), false).find("no request_id") !=
        std::string::npos);
}

TEST_CASE("serve: a runner that nobody listens to ends with status 74") {
  Runner runner;
  runner.gateway.close_stdout();
  runner.gateway.send(generate_of(seeded(1, 10, 3000)));
  const Result<void> end = runner.end();
  REQUIRE_FALSE(end.ok());
  CHECK(end.error().exit_code == ExitCode::kInputOutput);
}

}  // namespace runnel
