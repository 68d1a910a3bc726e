#include "runner/system/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "test/fixtures/gguf_writer.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr uint64_t kFileBytes = 8192;

MemoryFile file_of(uint64_t bytes) {
  Result<MemoryFile> file = MemoryFile::create("runnel-test");
  REQUIRE(file.ok());
  REQUIRE(file->resize(bytes).ok());
  return *std::move(file);
}

void* mapped(const MemoryFile& file, int protection) {
  return mmap(nullptr, file.bytes(), protection, MAP_SHARED, file.descriptor(), 0);
}

TEST_CASE("a sealed file in memory can be read, and nobody can change its bytes, its size or its seals") {
  MemoryFile file = file_of(kFileBytes);
  REQUIRE(pwrite(file.descriptor(), "bytes", 5, 0) == 5);
  REQUIRE(file.seal(Seals::kAll).ok());
  CHECK(file.is_sealed());
  const std::string path = "/proc/self/fd/" + std::to_string(file.descriptor());
  for (const int other : {dup(file.descriptor()), open(path.c_str(), O_RDWR)}) {
    REQUIRE(other >= 0);
    CHECK(pwrite(other, "other", 5, 0) < 0);
    CHECK(errno == EPERM);
    CHECK(ftruncate(other, 1) < 0);
    CHECK(ftruncate(other, 1 << 20) < 0);
    CHECK(fcntl(other, F_ADD_SEALS, F_SEAL_SEAL) < 0);
    CHECK(mmap(nullptr, kFileBytes, PROT_WRITE, MAP_SHARED, other, 0) == MAP_FAILED);
    const void* const read = mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED, file.reader(), 0);
    REQUIRE(read != MAP_FAILED);
    CHECK(std::string(static_cast<const char*>(read)) == "bytes");
    munmap(const_cast<void*>(read), kFileBytes);
    close(other);
  }
}

TEST_CASE("a file in memory is not sealed while it is mapped for writing, nor while it could be again") {
  MemoryFile file = file_of(kFileBytes);
  const void* const readable = mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED, file.reader(), 0);
  REQUIRE(readable != MAP_FAILED);
  void* const writable = mapped(file, PROT_READ | PROT_WRITE);
  REQUIRE(writable != MAP_FAILED);
  CHECK_FALSE(file.seal(Seals::kAll).ok());
  REQUIRE(mprotect(writable, kFileBytes, PROT_READ) == 0);
  const Result<void> refused = file.seal(Seals::kAll);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().exit_code == ExitCode::kSystem);
  CHECK_FALSE(file.is_sealed());
  munmap(writable, kFileBytes);
  CHECK(file.seal(Seals::kAll).ok());
}

// The error for a descriptor, without its number.
std::string refusal_of(int descriptor) {
  const Result<MemoryFile> file = MemoryFile::inherit(descriptor, "--weights-fd", Seals::kAll);
  REQUIRE_FALSE(file.ok());
  CHECK(file.error().exit_code == ExitCode::kTryAgain);
  const std::string& message = file.error().message;
  const std::string start = "--weights-fd " + std::to_string(descriptor) + " ";
  REQUIRE(message.starts_with(start));
  return message.substr(start.size());
}

TEST_CASE("a descriptor that is no sealed file in memory is refused by name") {
  const int closed = dup(0);
  close(closed);
  CHECK(refusal_of(closed) == "is no open descriptor.");
  const test::TemporaryFile on_disk("content");
  CHECK(refusal_of(open(on_disk.path().c_str(), O_RDONLY)) == "is no file in memory.");
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  close(pipe_ends[1]);
  CHECK(refusal_of(pipe_ends[0]) == "is no file in memory.");
  MemoryFile file = file_of(kFileBytes);
  CHECK(refusal_of(dup(file.descriptor())) == "is not sealed, so its size could change.");
  REQUIRE(file.seal(Seals::kSize).ok());
  CHECK(refusal_of(dup(file.descriptor())) == "is not sealed, so its bytes could change.");
}

TEST_CASE("a sealed file in memory is taken over with its size") {
  MemoryFile file = file_of(kFileBytes);
  REQUIRE(file.seal(Seals::kAll).ok());
  const int other = dup(file.descriptor());
  const Result<MemoryFile> opened = MemoryFile::inherit(other, "--weights-fd", Seals::kAll);
  REQUIRE(opened.ok());
  CHECK(opened->descriptor() == other);
  CHECK(opened->bytes() == kFileBytes);
  CHECK(opened->is_sealed());
  CHECK(fcntl(other, F_GETFD) == FD_CLOEXEC);
}

TEST_CASE("a file in memory of sealed size can be written to, and nobody can change its size or its seals") {
  MemoryFile file = file_of(kFileBytes);
  REQUIRE(file.seal(Seals::kSize).ok());
  CHECK_FALSE(file.is_sealed());
  const int other = dup(file.descriptor());
  const Result<MemoryFile> passed = MemoryFile::inherit(other, "--kv-fd", Seals::kSize);
  REQUIRE(passed.ok());
  CHECK(passed->bytes() == kFileBytes);
  CHECK_FALSE(passed->is_sealed());
  CHECK(fcntl(other, F_GETFD) == FD_CLOEXEC);
  CHECK(pwrite(other, "bytes", 5, 0) == 5);
  CHECK(ftruncate(other, 1) < 0);
  CHECK(ftruncate(other, 1 << 20) < 0);
  CHECK(fcntl(other, F_ADD_SEALS, F_SEAL_WRITE) < 0);
}

TEST_CASE("a file in memory above the limit of file sizes is an error, and no signal") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit limit{4096, 4096};
    Result<MemoryFile> file = MemoryFile::create("runnel-test");
    if (!file.ok() || setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    const Result<void> grown = file->resize(kFileBytes);
    _exit(!grown.ok() && grown.error().exit_code == ExitCode::kSystem ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace
}  // namespace runnel
