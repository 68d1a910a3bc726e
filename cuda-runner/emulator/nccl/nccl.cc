// The emulator's libnccl.so.2: the functions of nccl_abi.h for emulated devices, with NCCL's rules. A call
// that NCCL refuses is refused. What NCCL would wait for without end, or compute wrongly, loses the device.
// The emulated machine is in the program that loads this.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda-runner/device/nccl_abi.h"
#include "cuda-runner/emulator/call.h"
#include "cuda-runner/emulator/collective.h"

using namespace runnel::emulator;

namespace {

// An all-gather that was not given to all ranks yet.
struct Pending {
  std::shared_ptr<Collective> collective;
  size_t bytes;  // of each rank
  ncclDataType_t type;
  std::thread::id from;  // which gave it to the first rank, and in which group
  uint64_t group;
  std::shared_ptr<std::vector<const std::byte*>> sources;  // by rank
  size_t num_given = 0;
};

// The communicators of one ncclCommInitAll.
struct Clique {
  size_t num_ranks;
  std::map<size_t, Pending> pending = {};  // by number
};

}  // namespace

struct ncclComm {
  std::shared_ptr<Clique> clique;
  size_t rank;
  int device;
  size_t num_given = 0;
};

namespace {

struct Call {
  const std::byte* from;
  std::byte* to;
  size_t bytes;
  ncclDataType_t type;
  ncclComm_t communicator;
  cudaStream_t stream;
};

Handles<ncclComm> communicators;
uint64_t num_groups = 0;
thread_local size_t group_depth = 0;
thread_local std::vector<Call> calls_of_group;

size_t bytes_of(ncclDataType_t type) {
  return type == ncclInt8 ? 1 : type == ncclBfloat16 ? 2 : type == ncclFloat32 ? 4 : 0;
}

// As call() of the runtime; a body that refuses returns cudaErrorInvalidValue.
template <typename Body>
ncclResult_t nccl_call(const Body& body) {
  const cudaError_t error = call(body);
  if (error == cudaSuccess) return ncclSuccess;
  return error == cudaErrorInvalidValue ? ncclInvalidArgument : ncclUnhandledCudaError;
}

std::string name_of(const ncclComm& communicator) {
  return "rank " + std::to_string(communicator.rank) + " of " +
         std::to_string(communicator.clique->num_ranks);
}

// Why the call is refused, or "".
std::string fault_of(const Machine& machine, const Call& call) {
  if (!communicators.has(call.communicator)) return "there is no such communicator";
  if (!machine.streams.has(call.stream)) return "there is no such stream";
  const ncclComm& of = *call.communicator;
  const size_t all_bytes = of.clique->num_ranks * call.bytes;
  const auto is_own = [&](const std::byte* memory, size_t bytes) {
    return is_allocated(memory, bytes) && owner_of(memory) == static_cast<uint32_t>(of.device);
  };
  if (call.bytes == 0) return "nothing is gathered, or a type that is not emulated";
  if (call.stream->device != of.device) return "the stream is not of the device of " + name_of(of);
  if (!is_own(call.from, call.bytes) || !is_own(call.to, all_bytes))
    return "the memory is not of the device of " + name_of(of);
  const bool overlaps = call.from < call.to + all_bytes && call.to < call.from + call.bytes;
  if (overlaps && call.from != call.to + of.rank * call.bytes)
    return "what " + name_of(of) + " gives overlaps what it gets, and is not in its place there";
  return "";
}

// Gives a rank its part of the all-gather of its next number.
void give(Machine& machine, const Call& call) {
  ncclComm& of = *call.communicator;
  Clique& clique = *of.clique;
  const size_t number = of.num_given++;
  const std::string name = "all-gather " + std::to_string(number);
  Pending& pending = clique.pending[number];
  if (pending.num_given == 0) {
    pending = {std::make_shared<Collective>(name, &clique, clique.num_ranks),
               call.bytes,
               call.type,
               std::this_thread::get_id(),
               num_groups,
               std::make_shared<std::vector<const std::byte*>>(clique.num_ranks)};
  }
  if (pending.bytes != call.bytes || pending.type != call.type) {
    const auto words = [](size_t bytes, ncclDataType_t type) {
      return std::to_string(bytes) + " bytes of type " + std::to_string(type);
    };
    return lose_device(cudaErrorLaunchFailure, "In " + name + " " + name_of(of) + " gives " +
                                                   words(call.bytes, call.type) + ", and another " +
                                                   words(pending.bytes, pending.type) + ".");
  }
  if (pending.from == std::this_thread::get_id() && pending.group != num_groups) {
    return lose_device(cudaErrorLaunchTimeout, "A deadlock: one thread gives " + name +
                                                   " to its ranks in two groups, and the first waits for the "
                                                   "second.");
  }
  (*pending.sources)[of.rank] = call.from;
  const auto part = [&machine, call, sources = pending.sources] {
    for (size_t rank = 0; rank < sources->size(); ++rank) {
      std::byte* const to = call.to + rank * call.bytes;
      if (to != (*sources)[rank]) machine.copy_on_device(to, (*sources)[rank], call.bytes);
    }
  };
  Collective::give(pending.collective, of.rank, *call.stream, part);
  if (++pending.num_given == clique.num_ranks) clique.pending.erase(number);
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = 23203;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidArgument ? "invalid argument"
                                       : "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
}

ncclResult_t ncclCommInitAll(ncclComm_t* made, int num_devices, const int* devices) {
  return nccl_call([&](Machine& machine) {
    if (machine.breaks_capture()) return refuse(cudaErrorInvalidValue, "communicators are made in a capture");
    const auto clique = std::make_shared<Clique>(Clique{static_cast<size_t>(num_devices)});
    for (int rank = 0; rank < num_devices; ++rank) {
      const int device = devices[rank];
      const bool is_there = device >= 0 && static_cast<size_t>(device) < machine.devices.size();
      if (!is_there || std::count(devices, devices + rank, device) > 0)
        return refuse(cudaErrorInvalidValue, "a communicator's device is not there, or has two ranks");
    }
    for (int rank = 0; rank < num_devices; ++rank)
      made[rank] = communicators.make({clique, static_cast<size_t>(rank), devices[rank]});
    return cudaSuccess;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  return nccl_call([&](Machine& machine) {
    if (!communicators.has(communicator))
      return refuse(cudaErrorInvalidValue, "there is no such communicator");
    machine.run_all();
    for (const auto& graph : machine.executables.all()) {
      if (graph->graph->has_collective_of(communicator->clique.get()))
        lose_device(cudaErrorLaunchTimeout, "A deadlock: the end of " + name_of(*communicator) +
                                                " waits for that of a graph with an all-gather.");
    }
    communicators.remove(communicator);
    return cudaSuccess;
  });
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth > 0) return ncclSuccess;
  const std::vector<Call> calls = std::exchange(calls_of_group, {});
  return nccl_call([&](Machine& machine) {
    ++num_groups;
    for (const Call& call : calls)
      if (device_error() == cudaSuccess) give(machine, call);
    return cudaSuccess;
  });
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return nccl_call([&](Machine& machine) {
    const Call call{static_cast<const std::byte*>(from),
                    static_cast<std::byte*>(to),
                    count * bytes_of(type),
                    type,
                    communicator,
                    stream};
    if (const std::string fault = fault_of(machine, call); !fault.empty())
      return refuse(cudaErrorInvalidValue, "ncclAllGather: " + fault);
    if (group_depth > 0) {
      calls_of_group.push_back(call);
    } else if (communicator->clique->num_ranks > 1) {
      lose_device(cudaErrorLaunchTimeout, "A deadlock: ncclAllGather of " + name_of(*communicator) +
                                              " outside of a group waits for the other ranks.");
    } else {
      give(machine, call);
    }
    return cudaSuccess;
  });
}
