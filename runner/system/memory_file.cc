#include "runner/system/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

namespace runnel {
namespace {

constexpr unsigned kNoExecSeal = 0x0008;  // MFD_NOEXEC_SEAL, from Linux 6.3 on

// As fcntl counts them.
int numbers_of(Seals seals) {
  if (seals == Seals::kNone) return 0;
  return F_SEAL_SHRINK | F_SEAL_GROW | (seals == Seals::kAll ? F_SEAL_WRITE : 0);
}

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

Result<MemoryFile> MemoryFile::inherit(int descriptor, const std::string& flag, Seals seals) {
  MemoryFile file(descriptor);
  const auto refuse = [&](const std::string& fault) {
    return Error{ExitCode::kTryAgain, flag + " " + std::to_string(descriptor) + " " + fault + "."};
  };
  struct stat status;
  if (fstat(descriptor, &status) != 0) return refuse("is no open descriptor");
  const int found = fcntl(descriptor, F_GET_SEALS);
  if (found < 0) return refuse("is no file in memory");
  if ((found & numbers_of(Seals::kSize)) != numbers_of(Seals::kSize))
    return refuse("is not sealed, so its size could change");
  if ((found & numbers_of(seals)) != numbers_of(seals))
    return refuse("is not sealed, so its bytes could change");
  if (!file.open_reader()) return refuse("cannot be opened for reading");
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  file.bytes_ = static_cast<uint64_t>(status.st_size);
  file.seals_ = seals;
  return file;
}

bool MemoryFile::open_reader() {
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor());
  reader_ = Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return static_cast<bool>(reader_);
}

Result<void> MemoryFile::resize(uint64_t bytes) {
  if (ftruncate(descriptor(), static_cast<off_t>(bytes)) != 0)
    return refused("a file in memory of " + std::to_string(bytes) + " bytes");
  bytes_ = bytes;
  return {};
}

Result<void> MemoryFile::seal(Seals seals) {
  if (fcntl(descriptor(), F_ADD_SEALS, F_SEAL_SEAL | numbers_of(seals)) != 0)
    return refused("to seal a file in memory");
  seals_ = seals;
  return {};
}

}  // namespace runnel
