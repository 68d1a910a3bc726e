#include "cuda-runner/device/nccl.h"

#include <dlfcn.h>

#include "cuda-runner/device/error.h"
#include "runner/check.h"

namespace runnel {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::string nccl_version_name(int version) {
  const int major = version < 10000 ? 1000 : 10000;
  return std::to_string(version / major) + "." + std::to_string(version % major / 100) + "." +
         std::to_string(version % 100);
}

std::string NcclClique::Functions::load(const std::string& library) {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  const bool has_all =
      loaded != nullptr && find(loaded, "ncclGetVersion", get_version) &&
      find(loaded, "ncclGetErrorString", error_string) && find(loaded, "ncclCommInitAll", init_all) &&
      find(loaded, "ncclCommDestroy", destroy) && find(loaded, "ncclGroupStart", group_start) &&
      find(loaded, "ncclGroupEnd", group_end) && find(loaded, "ncclAllGather", all_gather);
  return has_all ? "" : dlerror();
}

Result<std::unique_ptr<NcclClique>> NcclClique::create(const std::vector<int>& devices,
                                                       const std::string& library) {
  Functions functions{};
  int version = 0;
  if (const std::string missing = functions.load(library); !missing.empty()) {
    return Error{ExitCode::kUsage, "NCCL cannot be loaded: " + missing +
                                       ". Install it where the loader finds it (LD_LIBRARY_PATH names "
                                       "further folders), or use --all-gather-backend copies."};
  }
  functions.get_version(&version);
  std::unique_ptr<NcclClique> clique(new NcclClique(functions, version));
  std::vector<ncclComm_t> communicators(devices.size());
  const ncclResult_t result =
      functions.init_all(communicators.data(), static_cast<int>(devices.size()), devices.data());
  if (result != ncclSuccess) {
    return Error{ExitCode::kNoDevice, "NCCL " + clique->version_name() + " cannot connect the GPUs: " +
                                          functions.error_string(result) + "."};
  }
  clique->communicators_ = std::move(communicators);
  return clique;
}

NcclClique::~NcclClique() {
  for (const ncclComm_t communicator : communicators_)
    expect_success(nccl_.destroy(communicator), "closing NCCL");
}

void NcclClique::all_gather(std::span<const Part> parts, size_t count) const {
  CHECK(parts.size() == communicators_.size());
  // One thread gives all ranks their part, so these must be one group: NCCL may wait for the others in each.
  constexpr const char* kDoing = "gathering by NCCL";
  expect_success(nccl_.group_start(), kDoing);
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    expect_success(nccl_.all_gather(parts[rank].own, parts[rank].all, count, ncclFloat32,
                                    communicators_[rank], parts[rank].stream->get()),
                   kDoing);
  }
  expect_success(nccl_.group_end(), kDoing);
}

void NcclClique::expect_success(ncclResult_t result, const char* doing) const {
  if (result != ncclSuccess) [[unlikely]]
    fail_call(nccl_.error_string(result), doing);
}

}  // namespace runnel
