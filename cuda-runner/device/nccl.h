// All-gathers by NVIDIA's library of collectives, NCCL. The library is loaded when it is asked for, so that
// neither a build nor any other start needs it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda-runner/device/nccl_abi.h"
#include "cuda-runner/device/stream.h"
#include "runner/result.h"

namespace runnel {

inline constexpr const char* kNcclLibrary = "libnccl.so.2";

// "2.32.3" for 23203.
std::string nccl_version_name(int version);

// A communicator for each of some devices of this process.
class NcclClique {
 public:
  // Fails with kUsage if the library cannot be loaded, and with kNoDevice if it cannot connect the devices.
  // library: its name or path.
  static Result<std::unique_ptr<NcclClique>> create(const std::vector<int>& devices,
                                                    const std::string& library = kNcclLibrary);
  // Graphs with all-gathers must have been destroyed before.
  ~NcclClique();
  NcclClique(const NcclClique&) = delete;
  NcclClique& operator=(const NcclClique&) = delete;

  std::string version_name() const { return nccl_version_name(version_); }

  struct Part {
    const float* own;
    float* all;
    const Stream* stream;
  };
  // Gives each rank `count` floats of each, in the order of ranks. The streams may be captured into a graph,
  // all or none. No rank goes on before all of them have reached this.
  void all_gather(std::span<const Part> parts, size_t count) const;

 private:
  struct Functions {
    decltype(&ncclGetVersion) get_version;
    decltype(&ncclGetErrorString) error_string;
    decltype(&ncclCommInitAll) init_all;
    decltype(&ncclCommDestroy) destroy;
    decltype(&ncclGroupStart) group_start;
    decltype(&ncclGroupEnd) group_end;
    decltype(&ncclAllGather) all_gather;

    // Returns what is missing, or "". The library stays loaded: its threads and graphs may outlive us.
    std::string load(const std::string& library);
  };
  NcclClique(const Functions& functions, int version) : nccl_(functions), version_(version) {}
  void expect_success(ncclResult_t result, const char* doing) const;

  const Functions nccl_;
  const int version_;
  std::vector<ncclComm_t> communicators_;  // by rank
};

}  // namespace runnel
