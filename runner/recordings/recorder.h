// The recording of a session: the commands and events in the order in which they occurred, so that `replay`
// can repeat them. Its format is RecordEntry in proto/runner.proto.
//
// Each entry is written to the file, by one write, before its effect is visible outside. So when the process
// crashes, the file has everything that it obeyed and sent, except an entry that was being written. If
// writing fails, the recording ends with a sentence on stderr; the streams are not affected.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "runner/recordings/record_limits.h"
#include "runner/result.h"
#include "runner/serving/messages.h"

namespace runnel {

// Changes when the meaning of entries, or the steps that a scheduler plans, change.
constexpr uint32_t kRecordingVersion = 7;

class Recorder {
 public:
  // Creates the file with permissions for its owner only, since it has the ids of prompts. An existing file,
  // such as that of a runner that has just crashed, is renamed to PATH.previous. Fails with the system's
  // error.
  static Result<std::unique_ptr<Recorder>> open(const std::string& path, uint64_t max_bytes,
                                                const wire::RecordingStart& start);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Records a command before it is obeyed: between two steps, or with during_step while the next one is
  // computed.
  void command(const wire::ToRunner& command, bool during_step = false);
  void commands_end();
  // Records the outcome before it takes effect.
  void grammar_settled(const wire::GrammarSettled& settled);
  // Records that the request sat out the step that is under way.
  void mask_late(uint32_t request_id);
  // Records that the request is computed again, before it is.
  void mask_came(uint32_t request_id);
  // Records an event before it is sent. Any thread may call it.
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
  std::mutex mutex_;  // protects everything below
  uint64_t num_bytes_ = 0;
  uint64_t step_ = 0;
  bool is_open_ = true;
  std::string frame_;
};

}  // namespace runnel
