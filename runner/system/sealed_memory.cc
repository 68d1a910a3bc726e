#include "runner/system/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace runnel {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

Error system_error(const std::string& what) {
  return {ExitCode::kSystem, what + ": " + std::strerror(errno) + "."};
}

Error unusable(const std::string& flag, int descriptor, const std::string& why) {
  return {ExitCode::kTryAgain, flag + " is " + std::to_string(descriptor) + ", and descriptor " +
                                   std::to_string(descriptor) + " " + why +
                                   ". Give it a memfd that is sealed against shrinking and growing."};
}

}  // namespace

SharedMapping::SharedMapping(SharedMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMapping::~SharedMapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

Result<SealedMemory> SealedMemory::create(const std::string& name, uint64_t num_bytes) {
  const int descriptor = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return system_error("The system makes no shared memory");
  SealedMemory memory(descriptor, num_bytes);
  if (ftruncate(descriptor, static_cast<off_t>(num_bytes)) != 0)
    return system_error("The system makes no shared memory of " + std::to_string(num_bytes) + " bytes");
  if (fcntl(descriptor, F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0)
    return system_error("The system does not seal the size of shared memory");
  return memory;
}

Result<SealedMemory> SealedMemory::inherit(int descriptor, const std::string& flag) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return unusable(flag, descriptor, "is not open");
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0) return unusable(flag, descriptor, "is no memfd");
  if ((seals & kSizeSeals) != kSizeSeals) return unusable(flag, descriptor, "may change its size");
  return SealedMemory(descriptor, static_cast<uint64_t>(status.st_size));
}

SealedMemory::SealedMemory(SealedMemory&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), num_bytes_(other.num_bytes_) {}

SealedMemory& SealedMemory::operator=(SealedMemory&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(num_bytes_, other.num_bytes_);
  return *this;
}

SealedMemory::~SealedMemory() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<SharedMapping> SealedMemory::map(uint64_t offset, uint64_t num_bytes, Access access) const {
  RUNNEL_CHECK(num_bytes > 0 && offset <= num_bytes_ && num_bytes <= num_bytes_ - offset);
  const int protection = access == Access::kWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  void* address = mmap(nullptr, num_bytes, protection, MAP_SHARED, descriptor_, static_cast<off_t>(offset));
  if (address == MAP_FAILED)
    return system_error("The system does not map " + std::to_string(num_bytes) + " bytes of shared memory");
  return SharedMapping({static_cast<std::byte*>(address), num_bytes});
}

}  // namespace runnel
