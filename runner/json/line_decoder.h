// Lines out of a stream of bytes, in the place that FrameDecoder has when frames are binary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runner/result.h"

namespace runnel {

class LineDecoder {
 public:
  explicit LineDecoder(uint32_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}

  // Takes bytes from the front of `bytes` until a line is whole, true, or none are left, false. The line,
  // without its end, replaces what `line` held. Fails with kProtocol on a line that is too long.
  Result<bool> next(std::span<const std::byte>& bytes, std::string& line);

  // The stream has ended. Fails with kProtocol inside a line.
  Result<void> finish() const;

 private:
  uint32_t max_line_bytes_;
  std::string partial_;
};

}  // namespace runnel
