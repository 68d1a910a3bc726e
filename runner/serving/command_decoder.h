// Commands out of a stream of bytes, whichever of the two forms they have there.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "runner/json/line_decoder.h"
#include "runner/result.h"
#include "runner/serving/frame.h"
#include "runner/serving/messages.h"

namespace runnel {

// How messages look on the pipe: kBinary for the gateway, kJson, a message a line, for people and scripts.
enum class FrameForm { kBinary, kJson };

class CommandDecoder {
 public:
  explicit CommandDecoder(FrameForm form);

  // Takes bytes from the front of `bytes` until a command is whole, or none are left: nothing. Fails with
  // kProtocol; after that the stream cannot be picked up again.
  Result<std::optional<wire::ToRunner>> next(std::span<const std::byte>& bytes);

  // The stream has ended. Fails with kProtocol inside a command.
  Result<void> finish() const;

 private:
  std::variant<FrameDecoder, LineDecoder> decoder_;
  std::string message_;
  uint64_t num_lines_ = 0;
};

}  // namespace runnel
