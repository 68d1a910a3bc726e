#include "runner/recordings/recorder.h"

#include <sys/stat.h>

#include <cstdio>
#include <filesystem>

#include "runner/recordings/recording.h"
#include "test/fixtures/recorded_session.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;

wire::RecordingStart start() {
  wire::RecordingStart start;
  start.set_version(kRecordingVersion);
  start.set_model("/models/fake.gguf");
  return start;
}

wire::FromRunner step_of(uint64_t number) {
  wire::FromRunner event;
  event.mutable_step()->set_step(number);
  return event;
}

wire::ToRunner cancel_of(uint32_t request_id) {
  wire::ToRunner command;
  command.mutable_cancel()->set_request_id(request_id);
  return command;
}

// The step and the kind of every entry after the start.
std::string text_of_entries(const std::string& path) {
  Result<Recording> recording = Recording::open(path);
  REQUIRE(recording.ok());
  const char* const kinds[] = {"", "", "start", "command", "event", "commands_end", "full"};
  std::string out;
  while (true) {
    const Result<std::optional<wire::RecordEntry>> entry = recording->next();
    REQUIRE(entry.ok());
    if (!*entry) return out;
    out += std::to_string((*entry)->step()) + " " + kinds[(*entry)->entry_case()] + ", ";
  }
}

}  // namespace

TEST_CASE("record: entries are there as soon as they are written, with the steps that were finished") {
  const RecordingPath file;
  const std::string& path = file.path;
  const auto recorder = Recorder::open(path, kDefaultRecordMaxBytes, start()).value();
  recorder->command(cancel_of(7));
  recorder->event(step_of(1));
  recorder->event(step_of(2));
  recorder->command(cancel_of(8));
  CHECK(text_of_entries(path) == "0 command, 1 event, 2 event, 2 command, ");  // the recorder is still open
  recorder->commands_end();
  CHECK(text_of_entries(path) == "0 command, 1 event, 2 event, 2 command, 2 commands_end, ");
  CHECK(Recording::open(path)->start().model() == "/models/fake.gguf");
}

TEST_CASE("record: the file is its owner's alone, and an older recording is kept") {
  const RecordingPath file;
  const std::string& path = file.path;
  std::ofstream(path) << "what a crash left";
  const auto recorder = Recorder::open(path, kDefaultRecordMaxBytes, start()).value();
  struct stat status;
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(bytes_of(file.previous) == "what a crash left");
  CHECK(Recorder::open("/nonexistent/recording", kDefaultRecordMaxBytes, start()).error().exit_code ==
        ExitCode::kNoFile);
}

TEST_CASE("record: at its limit the recording stops, says so in the file, and the limit holds") {
  const RecordingPath file;
  const std::string& path = file.path;
  const auto recorder = Recorder::open(path, 1000, start()).value();
  for (uint64_t step = 1; step <= 500; ++step) recorder->event(step_of(step));
  CHECK(fs::file_size(path) <= 1000);
  CHECK(fs::file_size(path) > 900);
  const std::string entries = text_of_entries(path);
  CHECK(entries.ends_with(" full, "));
  CHECK(entries.find("full") == entries.size() - 6);
}

TEST_CASE("recording: an invalid, damaged or foreign-version file is refused with a sentence") {
  const RecordingPath file;
  const std::string& path = file.path;
  const auto error_of = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const Result<Recording> recording = Recording::open(path);
    return recording.ok() ? "" : recording.error().message;
  };
  CHECK(error_of("").find("is empty") != std::string::npos);
  CHECK(error_of("GGUF and some more text").find("not a recording") != std::string::npos);
  CHECK(error_of("\x02\x08\x01").find("not a recording") != std::string::npos);
  CHECK(error_of("\xff\xff\xff\xff\xff\xff").find("not a recording") != std::string::npos);
  CHECK(error_of("\x04\x12\x02\x08\x01") == path + " is a recording of version 1; this program reads 7.");
  CHECK(error_of("\x04\x12\x02\x08\x07") == "");
  fs::remove(path);
  CHECK(Recording::open(path).error().exit_code == ExitCode::kNoFile);
}

}  // namespace runnel
