#include "runner/recordings/recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "runner/file_error.h"
#include "runner/serving/frame.h"

namespace runnel {
namespace {

// Reserved for the entry that says that the file is full.
constexpr uint64_t kFullEntryBytes = 32;

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::open(const std::string& path, uint64_t max_bytes,
                                                 const wire::RecordingStart& start) {
  const std::string previous = path + ".previous";
  if (std::rename(path.c_str(), previous.c_str()) != 0 && errno != ENOENT)
    return file_error(path, ("renamed to " + previous).c_str(), errno);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return file_error(path, "created", errno);
  std::unique_ptr<Recorder> recorder(new Recorder(fd, path, max_bytes));
  wire::RecordEntry entry;
  *entry.mutable_start() = start;
  recorder->write(entry);
  return recorder;
}

Recorder::~Recorder() {
  close(fd_);
}

void Recorder::command(const wire::ToRunner& command, bool during_step) {
  wire::RecordEntry entry;
  entry.set_during_step(during_step);
  *entry.mutable_command() = command;
  write(entry);
}

void Recorder::commands_end() {
  wire::RecordEntry entry;
  entry.mutable_commands_end();
  write(entry);
}

void Recorder::grammar_settled(const wire::GrammarSettled& settled) {
  wire::RecordEntry entry;
  *entry.mutable_grammar_settled() = settled;
  write(entry);
}

void Recorder::mask_late(uint32_t request_id) {
  wire::RecordEntry entry;
  entry.set_mask_late(request_id);
  write(entry);
}

void Recorder::mask_came(uint32_t request_id) {
  wire::RecordEntry entry;
  entry.set_mask_came(request_id);
  write(entry);
}

void Recorder::event(const wire::FromRunner& event) {
  wire::RecordEntry entry;
  *entry.mutable_event() = event;
  write(entry);
}

void Recorder::write(wire::RecordEntry& entry) {
  const std::lock_guard lock(mutex_);
  if (!is_open_) return;
  if (entry.has_event() && entry.event().has_step()) step_ = entry.event().step().step();
  entry.set_step(step_);
  if (num_bytes_ + kMaxLengthBytes + entry.ByteSizeLong() + kFullEntryBytes > max_bytes_) {
    wire::RecordEntry full;
    full.set_step(step_);
    full.mutable_full();
    write_frame(full);
    if (!is_open_) return;  // that write failed and was reported
    return give_up("it has reached --record-max-bytes, " + std::to_string(max_bytes_));
  }
  write_frame(entry);
}

void Recorder::write_frame(const wire::RecordEntry& entry) {
  frame_.clear();
  append_frame(entry.SerializeAsString(), frame_);
  std::string_view bytes = frame_;
  while (!bytes.empty()) {
    const ssize_t num_written = ::write(fd_, bytes.data(), bytes.size());
    if (num_written < 0 && errno == EINTR) continue;
    if (num_written < 0) return give_up(std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(num_written));
  }
  num_bytes_ += frame_.size();
}

void Recorder::give_up(const std::string& reason) {
  is_open_ = false;
  std::fprintf(stderr, "The recording %s ends here: %s.\n", path_.c_str(), reason.c_str());
}

}  // namespace runnel
