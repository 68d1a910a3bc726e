// Reads what a Recorder wrote, entry by entry.
#pragma once

#include <optional>
#include <string>

#include "runner/formats/mapped_file.h"
#include "runner/result.h"
#include "runner/serving/frame.h"
#include "runner/serving/messages.h"

namespace runnel {

class Recording {
 public:
  // Fails with what the system says, or kUsage: the file does not begin as a recording of this version.
  static Result<Recording> open(const std::string& path);

  const wire::RecordingStart& start() const { return start_; }
  // The next entry; none at the end. An entry that a crash cut off is not one. Fails with kUsage: damaged.
  Result<std::optional<wire::RecordEntry>> next();

 private:
  Recording(MappedFile file, std::string path);
  Error damaged(const std::string& sentence) const;

  MappedFile file_;
  std::string path_;
  std::span<const std::byte> rest_;
  FrameDecoder decoder_;
  wire::RecordingStart start_;
};

}  // namespace runnel
