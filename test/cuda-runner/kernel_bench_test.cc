#include "runner/bench/kernel_bench.h"

#include "cpu-runner/cpu_backend.h"
#include "cuda-runner/cuda_backend.h"
#include "test/fixtures/kernel_bench_of.h"
#include "test/unit_test.h"

namespace runnel {

TEST_CASE("bench --kernels: the device's operations are the CPU's, each with a time by events") {
  auto on_device = test::kernel_bench_of(make_cuda_backend({.enforce_eager = true}));
  auto on_cpu = test::kernel_bench_of(make_cpu_backend({.num_threads = 1}));
  REQUIRE(on_device["batches"].size() == 2);
  for (const char* batch : {"1", "2"}) {
    REQUIRE(on_device["batches"][batch].size() == on_cpu["batches"][batch].size());
    for (size_t i = 0; i < on_device["batches"][batch].size(); ++i) {
      const auto& measured = on_device["batches"][batch][i];
      const auto& twin = on_cpu["batches"][batch][i];
      for (const char* key : {"operation", "calls", "bytes", "operations"}) CHECK(measured[key] == twin[key]);
      CHECK(measured["microseconds"].get<double>() > 0);
    }
  }
  CHECK(on_device["copy"]["microseconds"].get<double>() > 0);
  // 256 threads, 8 at a time of each: products of 16 by 32 by 8 numbers of a warp, or of one of a thread.
  for (const auto& [instruction, products] :
       {std::pair{"mma_s8", 8 * 8 * 16 * 32 * 8}, {"fma_f32", 256 * 8}}) {
    const auto& peak = on_device["peaks"][instruction];
    const auto operations = peak["operations"].get<uint64_t>();
    constexpr int kIterations = 2;
    CHECK(operations > 0);
    CHECK(operations % (2 * kIterations * products) == 0);
    CHECK(peak["tops"].get<double>() > 0);
  }
  CHECK(on_cpu["peaks"].empty());
}

}  // namespace runnel
