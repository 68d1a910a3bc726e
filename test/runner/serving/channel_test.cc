#include "runner/serving/channel.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <iostream>
#include <string>

#include "runner/serving/heartbeat.h"
#include "test/fixtures/gateway_end.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

wire::ToRunner cancel_command(uint32_t request_id) {
  wire::ToRunner command;
  command.mutable_cancel()->set_request_id(request_id);
  return command;
}

std::string read_to_end(int fd) {
  std::string bytes;
  char buffer[4096];
  for (ssize_t n = read(fd, buffer, sizeof buffer); n > 0; n = read(fd, buffer, sizeof buffer))
    bytes.append(buffer, static_cast<size_t>(n));
  return bytes;
}

}  // namespace

TEST_CASE("channel: library output on stdout goes to stderr, so the pipe has frames only") {
  int out[2];
  int err[2];
  REQUIRE(pipe(out) == 0);
  REQUIRE(pipe(err) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    const Result<int> frames = take_stdout();
    if (!frames.ok()) _exit(1);
    FrameWriter writer(*frames, FrameForm::kJson);
    wire::FromRunner event;
    event.mutable_step()->set_step(1);
    std::printf("printed\n");
    std::cout << "streamed" << std::endl;
    (void)!write(STDOUT_FILENO, "written\n", 8);
    std::fflush(stdout);
    _exit(writer.send(event).ok() ? 0 : 1);
  }
  close(out[1]);
  close(err[1]);
  CHECK(read_to_end(out[0]) == "{\"step\":{\"step\":1,\"outputs\":[]}}\n");
  const std::string printed = read_to_end(err[0]);
  for (const char* line : {"printed\n", "streamed\n", "written\n"})
    CHECK(printed.find(line) != std::string::npos);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  close(out[0]);
  close(err[0]);
}

TEST_CASE("inbox: a full one makes its writer wait until something is taken, by number and by bytes") {
  // Each id takes one byte on the wire.
  const auto generate_of_ids = [](int num_ids) {
    wire::ToRunner command;
    command.mutable_generate()->mutable_token_ids()->Resize(num_ids, 1);
    return command;
  };
  const wire::ToRunner half = generate_of_ids(static_cast<int>(kMaxInboxBytes / 8));
  CHECK(half.ByteSizeLong() < kMaxInboxBytes / 7);
  struct Filling {
    wire::ToRunner command;
    size_t capacity;
  };
  // A command also has a few bytes beside its ids, so two halves are too much.
  for (const Filling& filling : {Filling{cancel_command(1), kMaxInboxCommands}, Filling{half, 1},
                                 Filling{generate_of_ids(kMaxInboxBytes / 4), 1}}) {
    Inbox inbox;
    for (size_t i = 0; i < filling.capacity; ++i) CHECK(inbox.put(filling.command));
    std::promise<void> started;
    auto late = std::async(std::launch::async, [&] {
      started.set_value();
      return inbox.put(filling.command);
    });
    started.get_future().wait();
    CHECK(late.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
    CHECK(inbox.take().commands.size() == filling.capacity);
    CHECK(late.get());
    CHECK(inbox.wait().commands.size() == 1);
  }
}

TEST_CASE("inbox: a command counts with what its lists hold in memory") {
  wire::ToRunner command;
  wire::Generate& generate = *command.mutable_generate();
  const auto grows_by = [&](size_t num_bytes, auto grow) {
    const size_t before = held_bytes(command);
    grow();
    CHECK(held_bytes(command) >= before + num_bytes);
    CHECK(held_bytes(command) <= before + num_bytes * 2);
  };
  grows_by(40'000, [&] { generate.mutable_token_ids()->Resize(10'000, 1); });
  grows_by(40'000, [&] { generate.mutable_stop_ids()->Resize(10'000, 1); });
  grows_by(40'000, [&] { generate.mutable_sampling()->mutable_allowed_token_ids()->Resize(10'000, 1); });
  grows_by(40'000, [&] { generate.mutable_sampling()->mutable_banned_token_ids()->Resize(10'000, 1); });
  grows_by(10'000 * sizeof(wire::LogitBias), [&] {
    for (int i = 0; i < 10'000; ++i) generate.mutable_sampling()->add_logit_bias();
  });
  grows_by(40'000, [&] { generate.set_cache_salt(std::string(40'000, 'x')); });
}

TEST_CASE("inbox: cancels overtake everything but the Generate of their own request") {
  Inbox inbox;
  wire::ToRunner generate;
  generate.mutable_generate()->set_request_id(5);
  wire::ToRunner pause;
  pause.mutable_pause()->set_request_id(7);
  for (const wire::ToRunner& command :
       {cancel_command(3), generate, pause, cancel_command(5), cancel_command(7), cancel_command(5)})
    CHECK(inbox.put(command));
  const std::vector<wire::ToRunner> cancels = inbox.take_cancels();
  REQUIRE(cancels.size() == 2);
  CHECK(cancels[0].cancel().request_id() == 3);
  CHECK(cancels[1].cancel().request_id() == 7);
  CHECK(inbox.take_cancels().empty());
  const std::vector<wire::ToRunner> rest = inbox.take().commands;
  REQUIRE(rest.size() == 4);
  CHECK(rest[0].has_generate());
  CHECK(rest[1].has_pause());
  CHECK(rest[2].cancel().request_id() == 5);
  CHECK(rest[3].cancel().request_id() == 5);
}

TEST_CASE("inbox: taking cancels makes room for the writer who waits") {
  Inbox inbox;
  for (size_t i = 0; i < kMaxInboxCommands; ++i) CHECK(inbox.put(cancel_command(1)));
  auto written = std::async(std::launch::async, [&] { return inbox.put(cancel_command(2)); });
  CHECK(inbox.take_cancels().size() >= kMaxInboxCommands);
  CHECK(written.get());
}

TEST_CASE("inbox: closing wakes all waiters, and the first reason stays") {
  Inbox inbox;
  auto waiting = std::async(std::launch::async, [&] { return inbox.wait(); });
  inbox.close(Error{ExitCode::kProtocol, "first"});
  inbox.close({});
  const Inbox::Contents contents = waiting.get();
  REQUIRE(contents.end);
  CHECK(contents.end->error().message == "first");
  CHECK_FALSE(inbox.put(cancel_command(1)));
}

TEST_CASE("channel: a reader that is destroyed does not wait for its stream") {
  GatewayEnd gateway;
  Inbox inbox;
  {
    const CommandReader reader(gateway.runner_stdin(), inbox);
    gateway.send(cancel_command(5));
    CHECK(inbox.wait().commands.at(0).cancel().request_id() == 5);
  }
  CHECK(inbox.wait().end->ok());
}

TEST_CASE("channel: a failure names its exit status and is text whatever it quotes") {
  GatewayEnd gateway;
  FrameWriter writer(gateway.runner_stdout());
  CHECK(send_failure(writer, {ExitCode::kBadModel, "bad\xff\nname " + std::string(5000, 'x')}).ok());
  const wire::FromRunner message = gateway.next().value();
  CHECK(message.failure().exit_code() == 65);
  CHECK(message.failure().message().substr(0, 10) == "bad??name ");
  CHECK(message.failure().message().size() == 4096);
  CHECK_FALSE(message.failure().has_required_bytes());
}

TEST_CASE("channel: an out-of-memory failure reports the device and the known byte counts") {
  GatewayEnd gateway;
  FrameWriter writer(gateway.runner_stdout());
  Error error{ExitCode::kSystem, "No room.", MemoryShortage{uint64_t{1} << 40, 0}, "cpu, 2 threads"};
  CHECK(send_failure(writer, error).ok());
  const wire::Failure known = gateway.next()->failure();
  CHECK(known.device() == "cpu, 2 threads");
  CHECK(known.required_bytes() == uint64_t{1} << 40);
  CHECK(known.has_available_bytes());
  CHECK(known.available_bytes() == 0);
  error.shortage->available_bytes.reset();
  CHECK(send_failure(writer, error).ok());
  CHECK_FALSE(gateway.next()->failure().has_available_bytes());
}

TEST_CASE("heartbeat: beats at once and again, with what the stepping thread last said") {
  GatewayEnd gateway;
  FrameWriter writer(gateway.runner_stdout());
  Inbox inbox;
  Vitals vitals;
  const Heartbeat heartbeat(writer, vitals, inbox, std::chrono::milliseconds(1));
  CHECK(gateway.next().value().heartbeat().phase() == wire::PHASE_LOADING);
  vitals.step = 7;
  vitals.num_free_blocks = 9;
  wire::FromRunner message;
  do {
    message = gateway.next().value();
  } while (message.heartbeat().num_free_blocks() != 9);
  CHECK(message.heartbeat().step() == 7);
}

TEST_CASE("heartbeat: statistics come with each beat once there are any, with the memory of the process") {
  GatewayEnd gateway;
  FrameWriter writer(gateway.runner_stdout());
  Inbox inbox;
  Vitals vitals;
  const Heartbeat heartbeat(writer, vitals, inbox, std::chrono::milliseconds(1));
  for (uint32_t i = 0; i < 3; ++i) CHECK(gateway.next().value().has_heartbeat());
  wire::Stats stats;
  stats.set_num_generated_tokens(77);
  vitals.set_stats(stats);
  wire::FromRunner message;
  do {
    message = gateway.next().value();
  } while (!message.has_stats());
  CHECK(message.stats().num_generated_tokens() == 77);
  CHECK(message.stats().memory_bytes() > 100'000);
  CHECK(message.stats().memory_bytes() < uint64_t{1} << 40);
  CHECK(gateway.next().value().has_heartbeat());
  CHECK(gateway.next().value().has_stats());
}

TEST_CASE("heartbeat: a closed pipe closes the inbox, so an idle runner ends") {
  GatewayEnd gateway;
  FrameWriter writer(gateway.runner_stdout());
  Inbox inbox;
  const Vitals vitals;
  gateway.close_stdout();
  const Heartbeat heartbeat(writer, vitals, inbox, std::chrono::milliseconds(1));
  CHECK(inbox.wait().end->error().exit_code == ExitCode::kInputOutput);
}

}  // namespace runnel
