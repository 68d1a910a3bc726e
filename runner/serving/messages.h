// Messages of proto/runner.proto out of frames. A frame that is no message ends the connection, so the two
// ways it can be none are told apart for whoever reads the log.
#pragma once

#include <string_view>

#include "proto/runner.pb.h"
#include "runner/result.h"

namespace runnel {

namespace wire = ::runner::v1;

// Message: wire::ToRunner or wire::FromRunner. Fails with kProtocol: bytes that are no protobuf, or no member
// of the oneof that this version knows. Nesting is bounded by the schema; the bytes by FrameDecoder.
template <typename Message>
Result<Message> parse_message(std::string_view bytes) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Error{ExitCode::kProtocol,
                 "A frame of " + std::to_string(bytes.size()) + " bytes is not a protobuf message."};
  }
  if (message.message_case() == Message::MESSAGE_NOT_SET) {
    return Error{ExitCode::kProtocol, "A frame of " + std::to_string(bytes.size()) +
                                          " bytes holds no message that protocol version 3 knows."};
  }
  return message;
}

}  // namespace runnel
