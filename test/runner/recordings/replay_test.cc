#include "runner/recordings/replay.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <map>

#include "test/fixtures/replayed_session.h"

namespace runnel {
namespace {

using namespace replayed;

// Runs the work in a process of its own. Returns the signal that ended the process, or 0.
int signal_of(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // without the report of the test framework
    work();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("replay: a whole session gives the same frames again") {
  const RecordingPath file;
  FakeEngine fake;
  run_session(fake, file.path);
  const Replayed replayed = replay_it(file.path);
  REQUIRE(replayed.end.ok());
  const uint64_t num_steps = fake.model.num_forwards;
  CHECK(replayed.said.find(std::to_string(num_steps) + " steps, ") == 0);
  CHECK(replayed.said.ends_with(" tokens, all equal.\n"));
  CHECK(replay_it(file.path, 7).said.find("7 steps, ") == 0);
  CHECK(replay_it(file.path, num_steps + 1).said == replayed.said);
}

TEST_CASE("replay: a recorded session with a planted crash replays to the same step with the same bits") {
  const RecordingPath file;
  constexpr uint64_t kCrashStep = 21;
  const auto crash = [&] {
    FakeEngine fake;
    fake.model.abort_at_forward = kCrashStep;
    run_session(fake, file.path);
  };
  REQUIRE(signal_of(crash) == SIGABRT);

  // The recording has everything up to the crash, and its tokens are the expected ones.
  std::map<uint32_t, std::vector<uint32_t>> answers;
  uint32_t num_tokens = 0;
  for (const wire::RecordEntry& entry : entries_of(file.path)) {
    for (const wire::Output& output : entry.event().step().outputs()) {
      answers[output.request_id()].push_back(output.token_ids(0));
      ++num_tokens;
    }
  }
  for (const Sequence& sequence : {kFirst, kSecond}) {
    std::vector<uint32_t> expected = fake_answer(sequence, 100);
    REQUIRE(answers[sequence.request_id].size() > 5);
    expected.resize(answers[sequence.request_id].size());
    CHECK(answers[sequence.request_id] == expected);
  }

  const Replayed healed = replay_it(file.path);
  CHECK(healed.end.ok());
  CHECK(healed.said ==
        "20 steps, " + std::to_string(num_tokens) +
            " tokens, all equal.\nThe recorded process ended in step 21, which is computed now.\n"
            "It went well this time.\n");
  const auto crash_again = [&](uint64_t until_step, uint64_t crash_step) {
    return signal_of([&] {
      FakeEngine fake;
      fake.model.abort_at_forward = crash_step;
      Result<Recording> recording = Recording::open(file.path);
      std::ostringstream out;
      (void)replay(*recording, fake.engine, kSubject, until_step, out);
    });
  };
  CHECK(crash_again(kAll, kCrashStep) == SIGABRT);
  CHECK(crash_again(20, kCrashStep) == 0);
  // A step that begins with scores of a prompt is not computed too early either.
  CHECK(crash_again(2, 2) == SIGABRT);
  CHECK(crash_again(1, 2) == 0);
}

TEST_CASE("replay: a cancel during a step takes effect in the same step") {
  const RecordingPath file;
  const auto cancel = [](uint32_t request_id) {
    wire::ToRunner command;
    command.mutable_cancel()->set_request_id(request_id);
    return command;
  };
  for (const bool mixed : {true, false}) {
    CAPTURE(mixed);
    FakeEngine fake(mixed);
    {
      wire::RecordingStart start;
      start.set_version(kRecordingVersion);
      const auto recorder = Recorder::open(file.path, kDefaultRecordMaxBytes, start).value();
      RecordedSession session(fake, *recorder);
      session.obey(generate_of(kFirst));
      session.step(5);
      session.obey(generate_of(kSecond));
      session.obey(generate_of(kThird));
      session.step_with({cancel(2), cancel(2), cancel(77)});  // 2 waited first, and is computed now
      session.step(6);
      session.step_with({cancel(3), cancel(3)});
      session.step_with({});
    }
    std::vector<wire::RecordEntry> all = entries_of(file.path);
    const Replayed replayed = replay_it(file.path, kAll, kSubject, mixed);
    CHECK(replayed.end.ok());
    CHECK(replayed.said.find("14 steps, ") == 0);

    // Without the mark the next step would be planned without the request.
    const std::vector<wire::RecordEntry> marked = all;
    for (wire::RecordEntry& entry : all) entry.clear_during_step();
    write_entries(file.path, all);
    CHECK_FALSE(replay_it(file.path, kAll, kSubject, mixed).end.ok());

    // A process that died in the middle of such a step did not record the step.
    all = marked;
    const auto last_cancel =
        std::find_if(all.rbegin(), all.rend(), [](const auto& entry) { return entry.has_command(); });
    all.erase(last_cancel.base(), all.end());
    write_entries(file.path, all);
    const Replayed healed = replay_it(file.path, kAll, kSubject, mixed);
    CHECK(healed.end.ok());
    CHECK(healed.said.find("ended in step 13, which is computed now.") != std::string::npos);

    // No other command may have the mark.
    all.back().mutable_command()->mutable_pause()->set_request_id(1);
    write_entries(file.path, all);
    CHECK(replay_it(file.path, kAll, kSubject, mixed).end.error().exit_code == ExitCode::kUsage);
  }
}

TEST_CASE("replay: steps with drafts bring the same tokens again, also where a cancel came in one") {
  const RecordingPath file;
  FakeEngine fake(true, /*speculation=*/true);
  const auto repeating = [](const Sequence& sequence) {
    wire::ToRunner command = generate_of(sequence);
    for (const uint32_t id : {5, 6})
      command.mutable_generate()->mutable_sampling()->add_allowed_token_ids(id);
    return command;
  };
  {
    wire::RecordingStart start;
    start.set_version(kRecordingVersion);
    const auto recorder = Recorder::open(file.path, kDefaultRecordMaxBytes, start).value();
    RecordedSession session(fake, *recorder);
    session.obey(repeating(kFirst));
    session.step(12);
    session.obey(repeating(kSecond));
    session.step(5);
    wire::ToRunner cancel;
    cancel.mutable_cancel()->set_request_id(1);
    session.step_with({cancel});
    session.obey(repeating(kThird));
    session.step(1000);
  }
  CHECK(fake.engine.counts().num_accepted_drafts > 10);
  CHECK(fake.engine.scheduler().counts().num_drafts > fake.engine.counts().num_accepted_drafts);
  const Replayed replayed = replay_it(file.path, kAll, kSubject, true, /*speculation=*/true);
  CHECK(replayed.end.ok());
  CHECK(replayed.said.find(std::to_string(fake.model.num_forwards) + " steps, ") == 0);
  // The tokens are the same, but they come in other steps.
  CHECK(replay_it(file.path).end.error().exit_code == ExitCode::kDifferent);
}

TEST_CASE("replay: a recording that was cut anywhere replays up to there") {
  const RecordingPath file;
  FakeEngine fake;
  run_session(fake, file.path);
  const std::string whole = bytes_of(file.path);
  for (size_t num_bytes = whole.size() / 5; num_bytes < whole.size(); num_bytes += 13) {
    std::ofstream(file.path, std::ios::binary) << whole.substr(0, num_bytes);
    CAPTURE(num_bytes);
    const auto num_steps = std::ranges::count_if(
        entries_of(file.path), [](const wire::RecordEntry& entry) { return entry.event().has_step(); });
    const Replayed replayed = replay_it(file.path);
    CHECK(replayed.end.ok());
    CHECK(replayed.said.find(std::to_string(num_steps) + " steps, ") == 0);
    CHECK(replayed.said.find("all equal") != std::string::npos);
  }
}

namespace {

// A vocabulary in which each id is the character that comes so many after ' '.
wire::ToRunner vocabulary() {
  wire::ToRunner command;
  command.mutable_vocabulary()->set_num_tokens(kFakeVocabSize);
  command.mutable_vocabulary()->set_num_bytes(kFakeVocabSize);
  for (uint32_t id = 0; id < kFakeVocabSize; ++id) {
    command.mutable_vocabulary()->add_lengths(1);
    command.mutable_vocabulary()->mutable_spellings()->push_back(static_cast<char>(' ' + id));
  }
  return command;
}

wire::ToRunner with_regex(const Sequence& sequence, const std::string& regex) {
  wire::ToRunner command = generate_of(sequence);
  command.mutable_generate()->add_stop_ids(0);
  command.mutable_generate()->mutable_grammar()->set_kind(wire::GRAMMAR_KIND_REGEX);
  command.mutable_generate()->mutable_grammar()->set_source(regex);
  return command;
}

}  // namespace

TEST_CASE(
    "replay: requests with grammars are taken after the same steps, and refused with the same sentence") {
  for (const bool speculation : {false, true}) {
    const RecordingPath file;
    FakeEngine fake(true, speculation);
    {
      wire::RecordingStart start;
      start.set_version(kRecordingVersion);
      const auto recorder = Recorder::open(file.path, kDefaultRecordMaxBytes, start).value();
      RecordedSession session(fake, *recorder);
      session.obey(vocabulary());
      session.obey(generate_of(kFirst));
      session.obey(with_regex(kSecond, "[a-f]{2}spelled out[a-f]+"));
      session.step(2);
      session.settle();
      session.step(3);
      session.obey(with_regex(kRefused, "a("));
      session.settle();
      session.step(2);
      session.end_commands();
      session.step(1000);
    }
    CHECK((fake.engine.counts().num_accepted_drafts > 0) == speculation);
    const Replayed replayed = replay_it(file.path, kAll, kSubject, true, speculation);
    CAPTURE(replayed.said);
    CHECK(replayed.end.ok());
    CHECK(replayed.said.find("all equal") != std::string::npos);

    std::vector<wire::RecordEntry> entries = entries_of(file.path);
    uint32_t num_settled = 0;
    for (const wire::RecordEntry& entry : entries) num_settled += entry.has_grammar_settled();
    CHECK(num_settled == 2);
  }
}

TEST_CASE("replay: a request sits out the steps that it sat out, however quick its masks are now") {
  const RecordingPath file;
  {
    FakeEngine fake;
    wire::RecordingStart start;
    start.set_version(kRecordingVersion);
    const auto recorder = Recorder::open(file.path, kDefaultRecordMaxBytes, start).value();
    RecordedSession session(fake, *recorder);
    session.obey(vocabulary());
    session.obey(generate_of(kFirst));
    session.obey(with_regex(kSecond, "[a-f]{30}"));
    session.settle();
    session.step(6);
    session.step_without(2);
    session.step(3);
    session.continue_late(2);
    session.step(2);
    session.step_without(2);
    session.continue_late(2);
    session.end_commands();
    session.step(1000);
  }
  const Replayed replayed = replay_it(file.path);
  CAPTURE(replayed.said);
  CHECK(replayed.end.ok());
  CHECK(replayed.said.find("all equal") != std::string::npos);

  const std::vector<wire::RecordEntry> all = entries_of(file.path);
  const auto replay_with = [&](const auto& change) {
    std::vector<wire::RecordEntry> changed = all;
    change(changed);
    write_entries(file.path, changed);
    return replay_it(file.path).end.error();
  };
  const auto is_late = [](const wire::RecordEntry& entry) { return entry.has_mask_late(); };
  const auto has_come = [](const wire::RecordEntry& entry) { return entry.has_mask_came(); };
  CHECK(replay_with([&](auto& entries) { std::erase_if(entries, is_late); }).exit_code ==
        ExitCode::kDifferent);
  CHECK(replay_with([&](auto& entries) {
          std::ranges::find_if(entries, has_come)->set_mask_came(1);
        }).message == "Request 1 has no mask that is late.");
  CHECK(replay_with([&](auto& entries) {
          std::ranges::find_if(entries, is_late)->set_mask_late(1);
        }).message == "Request 1 draws no token with a mask in the next step.");
}

}  // namespace runnel
