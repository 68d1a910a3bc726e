// Frames: each message on the pipe behind its length as a varint (docs/protocol.md, "A frame"). The bytes
// come from the other side of a trust boundary, in any pieces; the length is checked before anything is
// reserved for it, and memory grows only with bytes that have really come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runner/result.h"

namespace runnel {

constexpr uint32_t kMaxToRunnerBytes = 16u << 20;
constexpr uint32_t kMaxFromRunnerBytes = 1u << 20;
constexpr uint32_t kMaxLengthBytes = 5;  // of the varint before a message

// Cuts a stream of bytes into messages. After an error the stream cannot be picked up again.
class FrameDecoder {
 public:
  explicit FrameDecoder(uint32_t max_message_bytes) : max_message_bytes_(max_message_bytes) {}

  // Takes bytes from the front of `bytes` until a message is whole, true, or none are left, false. The
  // message replaces what `message` held. Fails with kProtocol on a length that is too long or too large.
  Result<bool> next(std::span<const std::byte>& bytes, std::string& message);

  // The stream has ended. Fails with kProtocol inside a frame.
  Result<void> finish() const;

 private:
  uint32_t max_message_bytes_;
  uint32_t num_length_bytes_ = 0;  // of the length, taken so far
  uint64_t length_ = 0;
  bool in_message_ = false;  // the length is known, the message not whole
  std::string partial_;
};

// Appends the message's frame to `out`.
void append_frame(std::string_view message, std::string& out);

}  // namespace runnel
