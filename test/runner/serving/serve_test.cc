#include "runner/serving/serve.h"

#include <fcntl.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <utility>

#include "test/fixtures/kv_files.h"
#include "test/fixtures/serving_runner.h"

namespace runnel {

TEST_CASE("serve: several requests at once each get their own tokens, in contiguous steps") {
  ServingRunner runner;
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
  ServingRunner runner;
  Listener listener(runner.gateway);
  runner.gateway.send(generate_of(seeded(1, 200, 1)));  // 64 rows a step
  listener.until_ended(1);
  CHECK(listener.num_steps == 4);
}

TEST_CASE("serve: frames may come in any pieces") {
  ServingRunner runner;
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
  ServingRunner runner;
  Sequence request = seeded(1, 10, 30);
  const std::vector<uint32_t> whole = fake_answer(request, kContext);
  request.token_ids.insert(request.token_ids.end(), whole.begin(), whole.begin() + 12);
  runner.gateway.send(generate_of(request));
  Listener listener(runner.gateway);
  listener.answers[1].token_ids.assign(whole.begin(), whole.begin() + 12);
  CHECK(listener.until_ended(1).token_ids == whole);
}

TEST_CASE(
    "serve: tokens that a step drew several of come in one output, in order, each with its "
    "log-probabilities") {
  SchedulerConfig scheduler = kScheduler;
  scheduler.speculation = true;
  ServingRunner runner(scheduler);
  Sequence request = seeded(1, 10, 60);
  request.sampling.allowed_ids = {5};
  request.top_logprobs = 2;
  wire::ToRunner command = generate_of(request);
  command.mutable_generate()->mutable_sampling()->add_allowed_token_ids(5);
  runner.gateway.send(command);
  Listener listener(runner.gateway);
  int longest = 0;
  while (!listener.answers[1].has_ended()) {
    REQUIRE(listener.listen_once());
    REQUIRE(listener.last.step().outputs_size() == 1);
    const wire::Output& output = listener.last.step().outputs(0);
    CHECK(output.logprobs_size() == output.token_ids_size());
    longest = std::max(longest, output.token_ids_size());
  }
  CHECK(listener.answers[1].token_ids == fake_answer(request, kContext));
  CHECK(longest == 8);
}

TEST_CASE("serve: cancel ends a request in the middle, with one terminal event") {
  ServingRunner runner;
  Listener listener(runner.gateway);
  runner.gateway.send(generate_of(seeded(1, 10, 3900)));
  listener.until_token(1, 3);
  runner.gateway.send(cancel_of(1));
  runner.gateway.send(cancel_of(1));
  runner.gateway.send(cancel_of(99));
  const Answer& answer = listener.until_ended(1);
  REQUIRE(answer.error);
  CHECK(answer.error->code() == wire::ERROR_CODE_CANCELLED);
  // The next message belongs to the next request, so there was no other message about the first.
  runner.gateway.send(generate_of(seeded(2, 10, 3)));
  CHECK(listener.until_ended(2).token_ids == fake_answer(seeded(2, 10, 3), kContext));
}

TEST_CASE("serve: cancel is answered in the middle of a step, and the others of the step get their tokens") {
  for (const bool is_alone : {true, false}) {
    CAPTURE(is_alone);
    // The layers of the step go on until the answer has come, at most for the time limit of a test.
    std::promise<void> heard;
    const std::shared_future<void> is_heard = heard.get_future().share();
    std::promise<void> begun;
    bool has_begun = false;
    ServingRunner runner(kScheduler, kTestTimeout / std::chrono::milliseconds(1), [&] {
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
  ServingRunner runner;
  Listener listener(runner.gateway);
  const Sequence paused = seeded(1, 10, 3000);
  runner.gateway.send(generate_of(paused));
  listener.until_token(1, 2);
  runner.gateway.send(pause_of(1));
  runner.gateway.send(generate_of(seeded(2, 30, 20)));
  listener.until_token(2, 1);  // commands are obeyed in order, so the pause holds from here on
  const size_t num_before = listener.answers[1].token_ids.size();
  REQUIRE(num_before < 3000);
  listener.until_ended(2);
  CHECK(listener.answers[1].token_ids.size() == num_before);
  runner.gateway.send(resume_of(1));
  CHECK(listener.until_ended(1).token_ids == fake_answer(paused, kContext));
}

TEST_CASE("serve: the first output reports cached tokens, shared only under the same salt") {
  ServingRunner runner;
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

TEST_CASE("serve: ReleaseKv closes the cache of another runner, and no other one") {
  const MemoryFile file = test::sized_memory(4096);
  const int released = dup(file.descriptor());
  const int other = dup(file.descriptor());
  KvSources sources;
  for (const int descriptor : {released, other}) {
    Result<MemoryFile> memory = MemoryFile::inherit(descriptor, "--kv-from", Seals::kSize);
    REQUIRE(memory.ok());
    sources.add(static_cast<uint32_t>(descriptor), *std::move(memory));
  }
  const test::KeptBlocks kept(100);
  KvIndex index = kept.open();
  ServingRunner runner({.max_num_batched_tokens = 64,
                        .max_num_seqs = 8,
                        .block_size = test::kKeptBlockSize,
                        .num_blocks = 100,
                        .kv_index = &index,
                        .kv_sources = &sources});
  wire::ToRunner command;
  for (const int descriptor : {released, 99}) {
    command.mutable_release_kv()->set_descriptor(static_cast<uint32_t>(descriptor));
    runner.gateway.send(command);
  }
  // Commands are obeyed in order.
  Listener listener(runner.gateway);
  runner.gateway.send(generate_of(seeded(1, 10, 3)));
  listener.until_ended(1);
  CHECK(fcntl(released, F_GETFD) == -1);
  CHECK(fcntl(other, F_GETFD) != -1);
}

TEST_CASE("serve: log-probabilities come with each token if asked for, and change none") {
  ServingRunner runner;
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
  ServingRunner runner(
      {.max_num_batched_tokens = 600, .max_num_seqs = 8, .block_size = 16, .num_blocks = 600});
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
  // A step of 600 rows, then one of 300 rows, whose last row gives the first token and no score.
  CHECK(listener.answers[1].scores_of_frame == std::vector<int>{256, 256, 88, 256, 43});
  // Whether it arrives before the first answer begins, and so in how many steps its prompt is computed, is a
  // matter of time.
  const std::vector<int>& scores = listener.answers[2].scores_of_frame;
  CHECK(std::accumulate(scores.begin(), scores.end(), 0) == 39);
  CHECK(listener.answers[3].scores_of_frame.empty());
  CHECK(listener.max_frame_bytes < kMaxFromRunnerBytes / 8);
}

TEST_CASE("serve: a Generate outside its limits is answered, and the others go on") {
  ServingRunner runner;
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

}  // namespace runnel
