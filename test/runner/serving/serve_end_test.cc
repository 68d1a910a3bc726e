// The ends of a runner: by drain, by the end of its input, or by a protocol error.
#include "test/fixtures/serving_runner.h"

namespace runnel {

TEST_CASE("serve: drain finishes what was accepted, refuses what comes later, and ends well") {
  ServingRunner runner;
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
  ServingRunner runner;
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
  ServingRunner runner;
  runner.gateway.close_stdin();
  CHECK(runner.end().ok());
}

TEST_CASE("serve: a protocol violation ends the runner with status 76") {
  const auto end_after = [](const std::string& bytes, bool close_stdin) {
    ServingRunner runner;
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
  ServingRunner runner;
  runner.gateway.close_stdout();
  runner.gateway.send(generate_of(seeded(1, 10, 3000)));
  const Result<void> end = runner.end();
  REQUIRE_FALSE(end.ok());
  CHECK(end.error().exit_code == ExitCode::kInputOutput);
}

}  // namespace runnel
