// The emulator's NCCL keeps NCCL's rules, and finds what would wait for ever.
#include "cuda-runner/device/nccl.h"

#include <dlfcn.h>

#include <numeric>
#include <string>
#include <thread>

#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

// A function of the library, which programs load.
template <typename Function>
Function* function_of(const char* name) {
  static void* const library = dlopen(kNcclLibrary, RTLD_NOW | RTLD_LOCAL);
  RUNNEL_CHECK(library != nullptr);
  return reinterpret_cast<Function*>(dlsym(library, name));
}
#define NCCL(function) function_of<decltype(function)>(#function)

// A rank for each of some devices, with a stream, what it gives and what it gets.
struct Ranks {
  static constexpr size_t kCount = 3;

  explicit Ranks(uint32_t num_ranks, uint64_t seed = 1) : emulated({.num_devices = num_ranks, .seed = seed}) {
    std::vector<int> devices(num_ranks);
    std::iota(devices.begin(), devices.end(), 0);
    communicators.resize(num_ranks);
    CHECK(NCCL(ncclCommInitAll)(communicators.data(), static_cast<int>(num_ranks), devices.data()) ==
          ncclSuccess);
    for (const int device : devices) {
      CHECK(cudaSetDevice(device) == cudaSuccess);
      cudaStream_t& stream = emulated.stream;
      if (device > 0) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
      streams.push_back(stream);
      cudaEvent_t event = nullptr;
      CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
      events.push_back(event);
      own.push_back(emulated.upload(own_values(device)));
      all.push_back(emulated.allocate<float>(kCount * num_ranks));
    }
  }

  static std::vector<float> own_values(int rank) {
    std::vector<float> values(kCount);
    std::iota(values.begin(), values.end(), 10.0f * static_cast<float>(rank));
    return values;
  }
  std::vector<float> expected() const {
    std::vector<float> values;
    for (size_t rank = 0; rank < streams.size(); ++rank)
      for (const float value : own_values(static_cast<int>(rank))) values.push_back(value);
    return values;
  }

  // Gives a rank its part of the next all-gather.
  ncclResult_t give(size_t rank, size_t count = kCount) {
    return give(rank, own[rank].data, all[rank].data, count, streams[rank]);
  }
  ncclResult_t give(size_t rank, const float* from, float* to, size_t count, cudaStream_t stream) {
    return NCCL(ncclAllGather)(from, to, count, ncclFloat32, communicators[rank], stream);
  }
  ncclResult_t give_all() {
    return in_group([&] {
      for (size_t rank = 0; rank < streams.size(); ++rank) CHECK(give(rank) == ncclSuccess);
    });
  }
  template <typename Fn>
  static ncclResult_t in_group(const Fn& fn) {
    CHECK(NCCL(ncclGroupStart)() == ncclSuccess);
    fn();
    return NCCL(ncclGroupEnd)();
  }
  // Gives a rank its part by a thread of its own, after fn.
  template <typename Fn>
  void give_by_other_thread(size_t rank, const Fn& fn) {
    std::thread([&] {
      CHECK(cudaSetDevice(static_cast<int>(rank)) == cudaSuccess);
      fn();
      CHECK(in_group([&] { CHECK(give(rank) == ncclSuccess); }) == ncclSuccess);
    }).join();
  }
  // Makes the stream of one rank wait for what that of another has been given.
  void wait(size_t rank, size_t for_rank) {
    CHECK(cudaEventRecord(events[for_rank], streams[for_rank]) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(streams[rank], events[for_rank]) == cudaSuccess);
  }
  std::vector<float> gathered(size_t rank) {
    emulated.stream = streams[rank];
    return emulated.download(all[rank]);
  }
  cudaError_t synchronize() { return cudaStreamSynchronize(streams[0]); }
  void begin_capture() {
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  }
  cudaGraphExec_t end_capture() {
    wait(0, 1);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CHECK(cudaStreamEndCapture(streams[0], &graph) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&executable, graph) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    return executable;
  }

  Emulated emulated;
  std::vector<ncclComm_t> communicators;
  std::vector<cudaStream_t> streams;
  std::vector<cudaEvent_t> events;
  std::vector<Array<float>> own;
  std::vector<Array<float>> all;
};

bool deadlocks(cudaError_t error, const std::string& part) {
  return error == cudaErrorLaunchTimeout && says(emulator::last_fault(), "A deadlock") &&
         says(emulator::last_fault(), part);
}

TEST_CASE("nccl: each rank gets what all give, in the order of ranks") {
  for (const uint32_t num_ranks : {1u, 2u, 4u}) {
    for (const uint64_t seed : {1u, 2u, 3u}) {
      CAPTURE(num_ranks);
      CAPTURE(seed);
      Ranks ranks(num_ranks, seed);
      CHECK(ranks.give_all() == ncclSuccess);
      for (size_t rank = num_ranks; rank-- > 0;) CHECK(ranks.gathered(rank) == ranks.expected());
    }
  }
}

TEST_CASE("nccl: what a rank gives may lie in its place among what it gets, and nowhere else there") {
  Ranks ranks(2);
  CHECK(ranks.give_all() == ncclSuccess);
  const auto again = [&](size_t place) {
    return Ranks::in_group([&] {
      for (size_t rank = 0; rank < 2; ++rank) {
        float* const all = ranks.all[rank].data;
        const size_t own = (rank + place) % 2;
        CHECK(ranks.give(rank, all + own * Ranks::kCount, all, Ranks::kCount, ranks.streams[rank]) ==
              (place == 0 ? ncclSuccess : ncclInvalidArgument));
      }
    });
  };
  CHECK(again(0) == ncclSuccess);
  CHECK(ranks.gathered(1) == ranks.expected());
  CHECK(again(1) == ncclSuccess);  // nothing was given
}

TEST_CASE("nccl: a rank that has what all give knows that the others have done what they were given before") {
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    CAPTURE(seed);
    Ranks ranks(2, seed);
    // The second rank reads what the first one gives, which then writes it, without an event between.
    const Array<float> read = ranks.emulated.allocate<float>(Ranks::kCount);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaMemcpyAsync(read.data, ranks.own[0].data, 12, cudaMemcpyDeviceToDevice, ranks.streams[1]) ==
          cudaSuccess);
    CHECK(ranks.give_all() == ncclSuccess);
    CHECK(cudaMemcpyAsync(ranks.own[0].data, ranks.own[1].data, 12, cudaMemcpyDeviceToDevice,
                          ranks.streams[0]) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(ranks.emulated.download(read) == Ranks::own_values(0));
    CHECK(ranks.gathered(1) == ranks.expected());
  }
}

TEST_CASE("nccl: several all-gathers of a group are done in the order of each rank's calls") {
  Ranks ranks(2);
  CHECK(Ranks::in_group([&] {
          // Groups within a group are one.
          CHECK(Ranks::in_group([&] { CHECK(ranks.give(0, 1) == ncclSuccess); }) == ncclSuccess);
          CHECK(ranks.give(1, 1) == ncclSuccess);
          for (const size_t rank : {1u, 0u}) CHECK(ranks.give(rank) == ncclSuccess);
        }) == ncclSuccess);
  for (const size_t rank : {0u, 1u}) CHECK(ranks.gathered(rank) == ranks.expected());
}

TEST_CASE("nccl: one thread that gives ranks their parts outside of a group, or in two, is a deadlock") {
  Ranks ranks(2);
  SUBCASE("outside of a group") {
    CHECK(ranks.give(0) == ncclUnhandledCudaError);
    CHECK(deadlocks(ranks.synchronize(), "rank 0 of 2 outside of a group"));
  }
  SUBCASE("in two groups") {
    CHECK(Ranks::in_group([&] { CHECK(ranks.give(0) == ncclSuccess); }) == ncclSuccess);
    CHECK(Ranks::in_group([&] { CHECK(ranks.give(1) == ncclSuccess); }) == ncclUnhandledCudaError);
    CHECK(deadlocks(ranks.synchronize(), "all-gather 0 to its ranks in two groups"));
  }
}

TEST_CASE("nccl: an all-gather that is not given to all ranks is a deadlock") {
  Ranks ranks(3);
  CHECK(ranks.give_all() == ncclSuccess);
  CHECK(Ranks::in_group([&] {
          for (const size_t rank : {0u, 2u}) CHECK(ranks.give(rank) == ncclSuccess);
        }) == ncclSuccess);
  CHECK(deadlocks(ranks.synchronize(), "all-gather 1 waits for rank 1, which was not given it"));
}

TEST_CASE("nccl: ranks that give different counts or types, or in another order, are a fault") {
  Ranks ranks(2);
  SUBCASE("types") {
    CHECK(Ranks::in_group([&] {
            CHECK(ranks.give(0) == ncclSuccess);
            CHECK(NCCL(ncclAllGather)(ranks.own[1].data, ranks.all[1].data, 12, ncclInt8,
                                      ranks.communicators[1], ranks.streams[1]) == ncclSuccess);
          }) == ncclUnhandledCudaError);
    CHECK(says(emulator::last_fault(), "gives 12 bytes of type 0, and another 12 bytes of type 7"));
    return;
  }
  CHECK(Ranks::in_group([&] {
          for (const size_t count : {2u, 3u}) CHECK(ranks.give(0, count) == ncclSuccess);
          for (const size_t count : {3u, 2u}) CHECK(ranks.give(1, count) == ncclSuccess);
        }) == ncclUnhandledCudaError);
  CHECK(says(emulator::last_fault(), "In all-gather 0 rank 1 of 2 gives 12 bytes of type 7, and another 8"));
}

TEST_CASE(
    "nccl: several threads may give ranks their parts, unless one waits for what comes after the other") {
  Ranks ranks(2);
  CHECK(Ranks::in_group([&] { CHECK(ranks.give(0) == ncclSuccess); }) == ncclSuccess);
  SUBCASE("nothing waits") {
    ranks.give_by_other_thread(1, [] {});
    CHECK(ranks.gathered(0) == ranks.expected());
  }
  SUBCASE("the other waits") {
    ranks.give_by_other_thread(1, [&] { ranks.wait(1, 0); });
    CHECK(deadlocks(ranks.synchronize(), "a stream of device 0 waits for a stream that waits"));
  }
}

TEST_CASE("nccl: streams and memory are of the device of the rank") {
  Ranks ranks(2);
  CHECK(Ranks::in_group([&] {
          const auto refused = [&](const float* from, float* to, size_t count, cudaStream_t stream) {
            CHECK(ranks.give(0, from, to, count, stream) == ncclInvalidArgument);
          };
          float* const own = ranks.own[0].data;
          float* const all = ranks.all[0].data;
          refused(own, all, Ranks::kCount, ranks.streams[1]);
          refused(ranks.own[1].data, all, Ranks::kCount, ranks.streams[0]);
          refused(own, ranks.all[1].data, Ranks::kCount, ranks.streams[0]);
          refused(own, all, Ranks::kCount + 1, ranks.streams[0]);  // more than there is
          refused(own, all, 0, ranks.streams[0]);
        }) == ncclSuccess);
  CHECK(ranks.give_all() == ncclSuccess);
  CHECK(ranks.gathered(0) == ranks.expected());
  const int devices[] = {1, 1};
  ncclComm_t made[2];
  CHECK(NCCL(ncclCommInitAll)(made, 2, devices) == ncclInvalidArgument);
  CHECK(NCCL(ncclGroupEnd)() == ncclInvalidUsage);
}

TEST_CASE("nccl: a graph has all-gathers, which run when the streams of all ranks have reached them") {
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    CAPTURE(seed);
    Ranks ranks(2, seed);
    const auto copy = [&](size_t rank, float* to, const float* from, size_t count) {
      CHECK(cudaMemcpyAsync(to, from, 4 * count, cudaMemcpyDeviceToDevice, ranks.streams[rank]) ==
            cudaSuccess);
    };
    float* const first = ranks.own[0].data;
    ranks.begin_capture();
    ranks.wait(1, 0);
    // The second rank reads what the first one writes after the all-gather.
    copy(1, ranks.own[1].data, first, Ranks::kCount);
    CHECK(ranks.give_all() == ncclSuccess);
    copy(0, first, first + 2, 1);
    const cudaGraphExec_t graph = ranks.end_capture();
    CHECK(cudaGraphLaunch(graph, ranks.streams[0]) == cudaSuccess);
    CHECK(ranks.gathered(0) == std::vector<float>{0, 1, 2, 0, 1, 2});
    CHECK(cudaGraphLaunch(graph, ranks.streams[0]) == cudaSuccess);
    ranks.wait(1, 0);
    CHECK(ranks.gathered(1) == std::vector<float>{2, 1, 2, 2, 1, 2});
  }
}

TEST_CASE("nccl: graphs with all-gathers are destroyed before the communicators, which would wait for them") {
  Ranks ranks(2);
  ranks.begin_capture();
  ranks.wait(1, 0);
  CHECK(ranks.give_all() == ncclSuccess);
  const cudaGraphExec_t graph = ranks.end_capture();
  SUBCASE("destroyed before") {
    CHECK(cudaGraphExecDestroy(graph) == cudaSuccess);
    for (const ncclComm_t communicator : ranks.communicators)
      CHECK(NCCL(ncclCommDestroy)(communicator) == ncclSuccess);
  }
  SUBCASE("destroyed after") {
    CHECK(NCCL(ncclCommDestroy)(ranks.communicators[0]) == ncclUnhandledCudaError);
    CHECK(deadlocks(ranks.synchronize(), "the end of rank 0 of 2 waits for that of a graph"));
  }
}

TEST_CASE("nccl: a graph whose streams wait for each other before an all-gather is a deadlock") {
  Ranks ranks(2);
  ranks.begin_capture();
  ranks.wait(1, 0);
  CHECK(Ranks::in_group([&] { CHECK(ranks.give(0) == ncclSuccess); }) == ncclSuccess);
  ranks.give_by_other_thread(1, [&] { ranks.wait(1, 0); });
  CHECK(cudaGraphLaunch(ranks.end_capture(), ranks.streams[0]) == cudaSuccess);
  CHECK(deadlocks(ranks.synchronize(), "in a graph: not all ranks can reach all-gather 0"));
}

TEST_CASE("nccl: the parts of all ranks are captured into one graph, or none is") {
  Ranks ranks(2);
  ranks.begin_capture();
  CHECK(ranks.give_all() == ncclUnhandledCudaError);
  CHECK(says(emulator::last_fault(), "captured from the streams of some ranks only"));
}

}  // namespace
}  // namespace runnel
