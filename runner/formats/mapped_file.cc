#include "runner/formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runner/file_error.h"

namespace runnel {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return file_error(path, "opened", errno);
  struct stat status;
  if (fstat(file.get(), &status) != 0) return file_error(path, "examined", errno);
  if (!S_ISREG(status.st_mode)) return Error{ExitCode::kNoFile, path + " is not a regular file."};
  if (status.st_size == 0) return Error{ExitCode::kBadModel, path + " is empty."};

  const size_t size = static_cast<size_t>(status.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) return file_error(path, "mapped", errno);
  MappedFile mapped;
  mapped.bytes_ = {static_cast<const std::byte*>(address), size};
  mapped.modified_ns_ = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  mapped.inode_ = status.st_ino;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), modified_ns_(other.modified_ns_), inode_(other.inode_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(modified_ns_, other.modified_ns_);
  std::swap(inode_, other.inode_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release_pages(std::span<const std::byte> part) const {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t offset = static_cast<size_t>(part.data() - bytes_.data());
  const size_t first = (offset + page - 1) / page * page;
  const size_t end = (offset + part.size()) / page * page;
  // Advice only: if the kernel refuses it, memory is held longer and nothing else changes.
  if (first < end) madvise(const_cast<std::byte*>(bytes_.data()) + first, end - first, MADV_DONTNEED);
}

}  // namespace runnel
