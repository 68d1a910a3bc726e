// Runs on devices or on the emulator, depending on which it is linked with. `make check` runs 200 random
// cases on two emulated devices.
#include <cuda_runtime.h>

#include <algorithm>

#include "cuda-runner/cuda_backend.h"
#include "cuda-runner/device/nccl.h"
#include "test/exactness/program.h"

// No interface says whether a graph computed a step. So these two calls of the runtime are intercepted by the
// linker option --wrap.
namespace {
bool is_new = false;  // the last graph was not launched yet; a new graph is launched at once
uint64_t num_graph_replays = 0;

// Whether devices can gather by NCCL. Emulated ones always can; else the library may not be installed.
bool has_nccl(uint32_t num_devices) {
#if defined(RUNNEL_CUDA_EMULATOR)
  return num_devices > 1;
#else
  return num_devices > 1 && runnel::NcclClique::create({0, 1}).ok();
#endif
}
}  // namespace

extern "C" {
cudaError_t __real_cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                        unsigned long long flags);
cudaError_t __wrap_cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                        unsigned long long flags) {
  is_new = true;
  return __real_cudaGraphInstantiate(executable, graph, flags);
}

cudaError_t __real_cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t __wrap_cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  num_graph_replays += !is_new;
  is_new = false;
  return __real_cudaGraphLaunch(executable, stream);
}
}

int main(int argc, char** argv) {
  using namespace runnel;
  int num_devices = 0;
  if (cudaGetDeviceCount(&num_devices) != cudaSuccess) num_devices = 1;  // the load says what is missing
  // Few models have more heads to share.
  const auto num_shared = static_cast<uint32_t>(std::clamp(num_devices, 1, 2));
  return exactness::run_program(argc, argv,
                                {.tiny = {.max_prompt_tokens = 32,
                                          .max_answer_tokens = 20,
                                          .max_neighbours = 5,
                                          .has_graphs = true,
                                          .num_devices = num_shared,
                                          .has_nccl = has_nccl(num_shared)},
                                 .real = {.max_prompt_tokens = 48,
                                          .max_answer_tokens = 32,
                                          .max_neighbours = 5,
                                          .has_graphs = true,
                                          .num_devices = num_shared,
                                          .has_nccl = has_nccl(num_shared)},
                                 .make = make_cuda_backend,
                                 .num_graph_replays = [] { return num_graph_replays; }});
}
