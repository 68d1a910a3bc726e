// The recording of a session: what came in and what went out, in the order in which it happened, so that
// `replay` can do the same again. RecordEntry in proto/runner.proto is its format.
//
// Each entry is one write to the file before its effect is seen by anybody: when the process crashes, what it
// obeyed and said is there, but for the entry that it was writing. A recording that cannot go on is given up
// with a sentence on stderr; it never harms the streams.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "runner/recordings/record_limits.h"
#include "runner/result.h"
#include "runner/serving/messages.h"

namespace runnel {

// Another one when what the entries say, or the steps that a scheduler plans, are no longer the same.
constexpr uint32_t kRecordingVersion = 4;

class Recorder {
 public:
  // Creates the file for its owner's eyes only: it holds the ids of prompts. A file that is there, such as
  // that of a runner which has just crashed, becomes PATH.previous. Fails with what the system says.
  static Result<std::unique_ptr<Recorder>> open(const std::string& path, uint64_t max_bytes,
                                                const wire::RecordingStart& start);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Before it is obeyed: between two steps, or while the next one is computed.
  void command(const wire::ToRunner& command, bool during_step = false);
  void commands_end();
  // Before it is done.
  void grammar_settled(const wire::GrammarSettled& settled);
  // Before it is sent, from any thread.
  void event(const wire::FromRunner& event);

 private:
  Recorder(int fd, std::string path, uint64_t max_bytes)
      : fd_(fd), path_(std::move(path)), max_bytes_(max_bytes) {}

  void write(wire::RecordEntry& entry);
  void write_frame(const wire::RecordEntry& entry);
  void give_up(const std::string& reason);

  int fd_;
  std::string path_;
  uint64_t max_bytes_;
  std::mutex mutex_;  // of everything below
  uint64_t num_bytes_ = 0;
  uint64_t step_ = 0;
  bool is_open_ = true;
  std::string frame_;
};

}  // namespace runnel
