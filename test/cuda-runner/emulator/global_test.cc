// Views of device memory: bounds, alignment, and reads of bytes that were never written.
#include "cuda-runner/emulator/global.h"

#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

// out[i] = in[i + shift]; each thread computes one element.
__global__ void shift_kernel(Global<const float> in, Global<float> out, int shift) {
  const int i = static_cast<int>(threadIdx.x);
  out[i] = in[i + shift];
}

TEST_CASE("global: a lane that reads beyond its view is found, and one that reads its last element is not") {
  Emulated device;
  const Array<float> in = device.upload(std::vector<float>(40, 1.5f));
  const Array<float> out = device.allocate<float>(32);
  const Global<const float> first_part(in.data, 32);
  CHECK(device.launch(1, 32, LAUNCH(shift_kernel, in.read_only(), out.view(), 8)) == cudaSuccess);
  CHECK(device.download(out) == std::vector<float>(32, 1.5f));
  SUBCASE("above, where the allocation goes on") {
    CHECK(device.launch(1, 32, LAUNCH(shift_kernel, first_part, out.view(), 1)) == cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(),
               "Kernel shift_kernel, block (0, 0, 0), thread (31, 0, 0) reads 4 bytes "
               "from element 32 on of a view of 32 elements of 4 bytes, beyond its "
               "end, at global_test.cc:"));
  }
  SUBCASE("above, where it ends") {
    CHECK(device.launch(1, 32, LAUNCH(shift_kernel, in.read_only(), out.view(), 9)) ==
          cudaErrorIllegalAddress);
    CHECK(says(emulator::last_fault(), "where nothing is allocated"));
  }
  SUBCASE("below") {
    CHECK(device.launch(1, 32, LAUNCH(shift_kernel, in.read_only(), out.view(), -1)) ==
          cudaErrorIllegalAddress);
    CHECK(says(emulator::last_fault(), "from element -1 on"));
  }
}

__global__ void fill_kernel(Global<uint32_t> out) {
  out[threadIdx.x] = threadIdx.x;
}

TEST_CASE("global: writes beyond an allocation, to freed memory and to none are illegal addresses") {
  Emulated device;
  const Array<uint32_t> out = device.allocate<uint32_t>(32);
  CHECK(device.launch(1, 32, LAUNCH(fill_kernel, out.view())) == cudaSuccess);
  SUBCASE("beyond") {
    // A view that is larger than its allocation.
    const Global<uint32_t> larger(out.data, 64);
    CHECK(device.launch(1, 33, LAUNCH(fill_kernel, larger)) == cudaErrorIllegalAddress);
    CHECK(says(emulator::last_fault(), "thread (32, 0, 0) writes"));
  }
  SUBCASE("freed") {
    CHECK(cudaFree(out.data) == cudaSuccess);
    device.allocate<uint32_t>(32);
    CHECK(device.launch(1, 32, LAUNCH(fill_kernel, out.view())) == cudaErrorIllegalAddress);
  }
  SUBCASE("none") {
    CHECK(device.launch(1, 32, LAUNCH(fill_kernel, Global<uint32_t>(nullptr, 32))) ==
          cudaErrorIllegalAddress);
  }
}

// Copies 16 bytes in each thread, from element `first` on.
__global__ void vector_kernel(Global<const uint32_t> in, Global<uint32_t> out, uint32_t first) {
  out.store<uint4>(4 * threadIdx.x, in.load<uint4>(first + 4 * threadIdx.x));
}

TEST_CASE("global: a vector is read at its alignment and inside its view") {
  Emulated device;
  std::vector<uint32_t> values(68);
  for (uint32_t i = 0; i < values.size(); ++i) values[i] = i;
  const Array<uint32_t> in = device.upload(values);
  const Array<uint32_t> out = device.allocate<uint32_t>(64);
  CHECK(device.launch(1, 16, LAUNCH(vector_kernel, in.read_only(), out.view(), 4)) == cudaSuccess);
  CHECK(device.download(out) == std::vector<uint32_t>(values.begin() + 4, values.end()));
  SUBCASE("misaligned") {
    CHECK(device.launch(1, 16, LAUNCH(vector_kernel, in.read_only(), out.view(), 2)) ==
          cudaErrorMisalignedAddress);
    CHECK(says(emulator::last_fault(), "at an address that is no multiple of 16"));
  }
  SUBCASE("half outside") {
    const Global<const uint32_t> shorter(in.data, 66);
    CHECK(device.launch(1, 16, LAUNCH(vector_kernel, shorter, out.view(), 4)) == cudaErrorLaunchFailure);
    CHECK(
        says(emulator::last_fault(), "thread (15, 0, 0) reads 16 bytes from element 64 on of a view of 66"));
  }
}

TEST_CASE("global: reading an unwritten element is reported") {
  Emulated device;
  const Array<float> in = device.allocate<float>(32);
  const Array<float> out = device.allocate<float>(32);
  CHECK(cudaMemsetAsync(in.data, 0, 31 * sizeof(float), device.stream) == cudaSuccess);
  CHECK(device.launch(1, 31, LAUNCH(shift_kernel, in.read_only(), out.view(), 0)) == cudaSuccess);
  CHECK(device.launch(1, 32, LAUNCH(shift_kernel, in.read_only(), out.view(), 0)) == cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), "but element 31 was never written"));
}

__global__ void part_kernel(Global<uint32_t> out, uint32_t first, uint32_t count) {
  const Global<uint32_t> part = out.from(first, count);
  part[threadIdx.x] = threadIdx.x;
  part[threadIdx.x] += 1;
  part[threadIdx.x] = static_cast<uint32_t>(part[threadIdx.x]) * 2;
}

TEST_CASE("global: part of a view has its own bounds and shares the elements") {
  Emulated device;
  const Array<uint32_t> out = device.upload(std::vector<uint32_t>(8, 7));
  CHECK(device.launch(1, 3, LAUNCH(part_kernel, out.view(), 2, 3)) == cudaSuccess);
  CHECK(device.download(out) == std::vector<uint32_t>{7, 7, 2, 4, 6, 7, 7, 7});
  SUBCASE("beyond the part") {
    CHECK(device.launch(1, 4, LAUNCH(part_kernel, out.view(), 2, 3)) == cudaErrorLaunchFailure);
  }
  SUBCASE("a part beyond the view") {
    CHECK(device.launch(1, 3, LAUNCH(part_kernel, out.view(), 6, 3)) == cudaErrorLaunchFailure);
    CHECK(says(emulator::last_fault(), "takes 3 elements from 6 on of a view of 8"));
  }
}

}  // namespace
}  // namespace runnel
