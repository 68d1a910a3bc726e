#include "runner/formats/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "runner/file_error.h"

namespace runnel {

Result<RegularFile> RegularFile::open(const std::string& path) {
  RegularFile file(path);
  file.descriptor_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.descriptor_) return file_error(path, "opened", errno);
  struct stat status;
  if (fstat(file.descriptor(), &status) != 0) return file_error(path, "examined", errno);
  if (!S_ISREG(status.st_mode)) return Error{ExitCode::kNoFile, path + " is not a regular file."};
  file.num_bytes_ = static_cast<uint64_t>(status.st_size);
  file.modified_ns_ = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  file.inode_ = status.st_ino;
  file.device_ = status.st_dev;
  return file;
}

std::string RegularFile::identity() const {
  return std::to_string(num_bytes_) + "-" + std::to_string(modified_ns_) + "-" + std::to_string(inode_) +
         "-" + std::to_string(device_);
}

}  // namespace runnel
