#include "runner/json/line_decoder.h"

#include <algorithm>
#include <utility>

namespace runnel {

Result<bool> LineDecoder::next(std::span<const std::byte>& bytes, std::string& line) {
  const auto end = std::ranges::find(bytes, std::byte{'\n'});
  const auto num_taken = static_cast<size_t>(end - bytes.begin());
  if (partial_.size() + num_taken > max_line_bytes_) {
    return Error{ExitCode::kProtocol,
                 "A line is over the limit of " + std::to_string(max_line_bytes_) + " bytes."};
  }
  partial_.append(reinterpret_cast<const char*>(bytes.data()), num_taken);
  const bool is_whole = end != bytes.end();
  bytes = bytes.subspan(num_taken + (is_whole ? 1 : 0));
  if (!is_whole) return false;
  line = std::exchange(partial_, {});
  return true;
}

Result<void> LineDecoder::finish() const {
  if (partial_.empty()) return {};
  return Error{ExitCode::kProtocol, "The stream ended inside a line, after " +
                                        std::to_string(partial_.size()) +
                                        " bytes of it; end each line with a line feed."};
}

}  // namespace runnel
