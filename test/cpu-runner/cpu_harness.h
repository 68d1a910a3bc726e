// A model on a CPU backend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cpu-runner/cpu_backend.h"
#include "test/cpu-runner/threads_on_nodes.h"
#include "test/fixtures/model_harness.h"

namespace runnel::test {

struct CpuOptions {
  uint32_t num_threads = 1;
  uint32_t block_size = 32;
  std::string isa = "";
  uint32_t shuffle_seed = 0;
  KvType kv_type = KvType::kF16;
  ActivationType activations = ActivationType::kI8;
  uint32_t max_positions = 0;
  std::shared_ptr<MemoryFile> weights_file = nullptr;
  uint32_t num_nodes = 1;
};

class CpuHarness : public ModelHarness {
 public:
  CpuHarness(const std::string& path, const CpuOptions& options)
      : CpuHarness(ModelFile::open(path), options) {}
  CpuHarness(const Result<ModelFile>& file, const CpuOptions& options)
      : ModelHarness(file,
                     make_cpu_backend({.num_threads = options.num_threads,
                                       .nodes = threads_on_nodes(options.num_threads, options.num_nodes),
                                       .kv_type = options.kv_type,
                                       .isa = options.isa,
                                       .activations = options.activations,
                                       .weights_file = options.weights_file}),
                     options.block_size, options.shuffle_seed, options.max_positions) {}
};

}  // namespace runnel::test
