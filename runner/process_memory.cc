#include "runner/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>

namespace runnel {
namespace {

// The file has about 1500 bytes.
constexpr size_t kMaxStatusBytes = 8192;
constexpr std::string_view kField = "\nRssAnon:";

}  // namespace

Result<uint64_t> private_memory_bytes() {
  static const int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const Error unknown{ExitCode::kSystem,
                      "/proc/self/status does not tell RssAnon, the memory of this process."};
  std::array<char, kMaxStatusBytes> buffer;
  const ssize_t num_read = pread(status, buffer.data(), buffer.size(), 0);
  if (num_read < 0) return unknown;
  const std::string_view text(buffer.data(), static_cast<size_t>(num_read));
  const size_t field = text.find(kField);
  if (field == text.npos) return unknown;
  const size_t digits = text.find_first_of("0123456789", field + kField.size());
  if (digits == text.npos) return unknown;
  uint64_t kib = 0;
  const auto [end, error] = std::from_chars(text.data() + digits, text.data() + text.size(), kib);
  if (error != std::errc()) return unknown;
  return kib * 1024;
}

}  // namespace runnel
