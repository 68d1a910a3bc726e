// The two directions of the pipe to the gateway. Any thread may write frames, under a lock. A thread of its
// own reads frames into the inbox.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "runner/recordings/recorder.h"
#include "runner/result.h"
#include "runner/serving/command_decoder.h"
#include "runner/serving/inbox.h"
#include "runner/serving/messages.h"

namespace runnel {

// Reserves stdout for frames. Returns a descriptor of stdout that only the caller knows, and makes descriptor
// 1 a copy of stderr, so that a library that prints cannot damage the stream. Fails with kSystem.
Result<int> take_stdout();

class FrameWriter {
 public:
  // If there is a recorder, it gets each message before the message is written.
  explicit FrameWriter(int fd, FrameForm form = FrameForm::kBinary, Recorder* recorder = nullptr)
      : fd_(fd), form_(form), recorder_(recorder) {}

  int descriptor() const { return fd_; }

  // Writes the whole frame before it returns. Fails with kInputOutput when the pipe has no reader any more;
  // SIGPIPE must be ignored for that. The message must be within the size limit of its direction.
  Result<void> send(const wire::FromRunner& message);

 private:
  int fd_;
  FrameForm form_;
  Recorder* recorder_;
  std::mutex mutex_;  // held while a frame is written
  std::string frame_;
};

// Sends the reason why the process ends. It must be the last frame.
Result<void> send_failure(FrameWriter& writer, const Error& error);

// Reads commands from fd into the inbox until the stream ends, a frame is invalid, or the reader is
// destroyed. Then closes the inbox with the reason. Does not close fd.
class CommandReader {
 public:
  CommandReader(int fd, Inbox& inbox, FrameForm form = FrameForm::kBinary);
  ~CommandReader();
  CommandReader(const CommandReader&) = delete;
  CommandReader& operator=(const CommandReader&) = delete;

 private:
  Result<void> read_all();

  int fd_;
  Inbox& inbox_;
  FrameForm form_;
  int stop_fd_;  // readable when the thread must end
  std::thread thread_;
};

}  // namespace runnel
