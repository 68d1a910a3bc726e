#include "runner/formats/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runner/file_error.h"
#include "runner/system/process_memory.h"

namespace runnel {

Result<MappedFile> MappedFile::map(const RegularFile& file) {
  const size_t size = file.num_bytes();
  if (size == 0) return Error{ExitCode::kBadModel, file.path() + " is empty."};
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (address == MAP_FAILED) {
    const int why = errno;
    Error error = file_error(file.path(), "mapped", why);
    if (why == ENOMEM) error.shortage = MemoryShortage{size, available_memory_bytes()};
    return error;
  }
  MappedFile mapped;
  mapped.bytes_ = {static_cast<const std::byte*>(address), size};
  mapped.modified_ns_ = file.modified_ns();
  mapped.inode_ = file.inode();
  return mapped;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Result<RegularFile> file = RegularFile::open(path);
  if (!file) return file.error();
  return map(*file);
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
  // This is advice: if the kernel refuses it, memory is held longer and nothing else changes.
  if (first < end) madvise(const_cast<std::byte*>(bytes_.data()) + first, end - first, MADV_DONTNEED);
}

}  // namespace runnel
