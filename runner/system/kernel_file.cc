#include "runner/system/kernel_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>

namespace runnel {
namespace {

// The largest of the files has about 1500 bytes.
constexpr size_t kMaxFileBytes = 8192;

}  // namespace

KernelFile::KernelFile(const std::string& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

std::optional<uint64_t> KernelFile::number(std::string_view behind) const {
  std::array<char, kMaxFileBytes> buffer;
  const ssize_t num_read = pread(descriptor_.number(), buffer.data(), buffer.size(), 0);
  if (num_read < 0) return std::nullopt;
  const std::string_view text(buffer.data(), static_cast<size_t>(num_read));
  const size_t at = text.find(behind);
  if (at == text.npos) return std::nullopt;
  const size_t digits = text.find_first_not_of(" \t", at + behind.size());
  if (digits == text.npos) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + digits, text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

}  // namespace runnel
