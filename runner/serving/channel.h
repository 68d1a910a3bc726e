// The two directions of the pipe to the gateway: frames out, under a lock, from any thread; frames in, on a
// thread of their own that fills the inbox.
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

// Takes stdout for frames: returns a descriptor of it that only the caller knows, and lets descriptor 1 mean
// stderr, so that a library that prints cannot damage the stream. Fails with kSystem.
Result<int> take_stdout();

class FrameWriter {
 public:
  // recorder, if there is one, gets every message first.
  explicit FrameWriter(int fd, FrameForm form = FrameForm::kBinary, Recorder* recorder = nullptr)
      : fd_(fd), form_(form), recorder_(recorder) {}

  // Writes the whole frame before it returns. Fails with kInputOutput when nobody reads any more; SIGPIPE
  // must be ignored for that. The message must fit its direction's limit.
  Result<void> send(const wire::FromRunner& message);

 private:
  int fd_;
  FrameForm form_;
  Recorder* recorder_;
  std::mutex mutex_;  // held while a frame is written
  std::string frame_;
};

// Tells why the process ends, as its last frame.
Result<void> send_failure(FrameWriter& writer, const Error& error);

// Reads commands from fd into the inbox until the stream ends, a frame is wrong, or it is destroyed; closes
// the inbox with the reason. fd stays open.
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
  int stop_fd_;  // readable when the thread shall end
  std::thread thread_;
};

}  // namespace runnel
