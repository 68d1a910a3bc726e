#include "runner/serving/frame.h"

#include <algorithm>

namespace runnel {

Result<bool> FrameDecoder::next(std::span<const std::byte>& bytes, std::string& message) {
  while (!in_message_) {
    if (bytes.empty()) return false;
    const auto byte = std::to_integer<uint64_t>(bytes.front());
    bytes = bytes.subspan(1);
    length_ |= (byte & 0x7f) << (7 * num_length_bytes_);
    ++num_length_bytes_;
    if ((byte & 0x80) == 0) {
      if (length_ > max_message_bytes_) {
        return Error{ExitCode::kProtocol, "A frame of " + std::to_string(length_) +
                                              " bytes is over the limit of " +
                                              std::to_string(max_message_bytes_) + "."};
      }
      in_message_ = true;
    } else if (num_length_bytes_ == kMaxLengthBytes) {
      return Error{ExitCode::kProtocol,
                   "The length of a frame takes more than " + std::to_string(kMaxLengthBytes) + " bytes."};
    }
  }

  const size_t num_taken = std::min<size_t>(bytes.size(), length_ - partial_.size());
  partial_.append(reinterpret_cast<const char*>(bytes.data()), num_taken);
  bytes = bytes.subspan(num_taken);
  if (partial_.size() < length_) return false;

  message = std::move(partial_);
  partial_.clear();
  length_ = 0;
  num_length_bytes_ = 0;
  in_message_ = false;
  return true;
}

Result<void> FrameDecoder::finish() const {
  if (num_length_bytes_ == 0) return {};
  return Error{ExitCode::kProtocol, "The stream ended inside a frame: " + std::to_string(partial_.size()) +
                                        " bytes of the message had come."};
}

void append_frame(std::string_view message, std::string& out) {
  size_t length = message.size();
  while (length > 0x7f) {
    out.push_back(static_cast<char>((length & 0x7f) | 0x80));
    length >>= 7;
  }
  out.push_back(static_cast<char>(length));
  out.append(message);
}

}  // namespace runnel
