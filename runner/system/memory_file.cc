#include "runner/system/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

namespace runnel {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
constexpr unsigned kNoExecSeal = 0x0008;  // MFD_NOEXEC_SEAL, from Linux 6.3 on

Error refused(const std::string& what) {
  return {ExitCode::kSystem, "The system refuses " + what + ": " + std::strerror(errno) + "."};
}

}  // namespace

Result<MemoryFile> MemoryFile::create(const char* name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int descriptor = memfd_create(name, kFlags | kNoExecSeal);
  if (descriptor < 0 && errno == EINVAL) descriptor = memfd_create(name, kFlags);
  if (descriptor < 0) return refused("a file in memory");
  // So that a limit on the size of files (ulimit -f) is an error like others.
  std::signal(SIGXFSZ, SIG_IGN);
  MemoryFile file(descriptor);
  if (!file.open_reader()) return refused("to open a file in memory once more");
  return file;
}

Result<MemoryFile> MemoryFile::open_sealed(int descriptor, const std::string& flag) {
  MemoryFile file(descriptor);
  const auto refuse = [&](const std::string& fault) {
    return Error{ExitCode::kTryAgain, flag + " " + std::to_string(descriptor) + " " + fault + "."};
  };
  struct stat status;
  if (fstat(descriptor, &status) != 0) return refuse("is no open descriptor");
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0) return refuse("is no file in memory");
  if ((seals & kSeals) != kSeals) return refuse("is not sealed, so its bytes could change");
  if (!file.open_reader()) return refuse("cannot be opened for reading");
  // Across exec the descriptor was inherited, and nobody else is to inherit it.
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  file.bytes_ = static_cast<uint64_t>(status.st_size);
  file.is_sealed_ = true;
  return file;
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      reader_(std::exchange(other.reader_, -1)),
      bytes_(other.bytes_),
      is_sealed_(other.is_sealed_) {}

MemoryFile& MemoryFile::operator=(MemoryFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(reader_, other.reader_);
  std::swap(bytes_, other.bytes_);
  std::swap(is_sealed_, other.is_sealed_);
  return *this;
}

MemoryFile::~MemoryFile() {
  for (const int descriptor : {descriptor_, reader_})
    if (descriptor >= 0) close(descriptor);
}

bool MemoryFile::open_reader() {
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor_);
  reader_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  return reader_ >= 0;
}

Result<void> MemoryFile::resize(uint64_t bytes) {
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0)
    return refused("a file in memory of " + std::to_string(bytes) + " bytes");
  bytes_ = bytes;
  return {};
}

Result<void> MemoryFile::seal() {
  if (fcntl(descriptor_, F_ADD_SEALS, kSeals) != 0) return refused("to seal a file in memory");
  is_sealed_ = true;
  return {};
}

}  // namespace runnel
