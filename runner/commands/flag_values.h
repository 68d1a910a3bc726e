// Reads the values of flags that are more than a number or a text. Every error is kUsage. Its message begins
// with the value, so that the flag's name can stand in front.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/backend/activation_type.h"
#include "runner/backend/kv_type.h"
#include "runner/engine/sequence.h"
#include "runner/formats/tensor_type.h"
#include "runner/result.h"
#include "runner/sandbox/sandbox.h"

namespace runnel {

// Accepts a decimal number that fits into 64 bits.
Result<void> check_whole_number(const std::string& text);
// Accepts four whole numbers with hyphens between them.
Result<void> check_file_identity(const std::string& text);

// Reads the number of a GPU. What stands for the CPU elsewhere, -1 and "cpu", is refused with the program
// that computes there.
Result<uint32_t> gpu_number_from(const std::string& text);
// Reads a number of blocks; -1 gives 0, which leaves the number open.
Result<uint32_t> kvcache_blocks_from(const std::string& text);
// Reads a type that floats can be quantised to.
Result<TensorType> quantize_type_from(const std::string& name);
// Reads any type of tensors.
Result<TensorType> tensor_type_from(const std::string& name);
Result<KvType> kv_type_from(const std::string& name);
// uses_gpu: accepts only a type that GPUs compute with.
Result<ActivationType> activation_type_from(const std::string& name, bool uses_gpu);
// Reads a number of NUMA nodes: "auto" gives 0, "off" 1.
Result<uint32_t> numa_nodes_from(const std::string& text);
Result<SandboxMode> sandbox_mode_from(const std::string& name);
// Reads ID=BIAS.
Result<LogitBias> bias_from(const std::string& text);
// Reads ID,ID,... with at least one id.
Result<std::vector<uint32_t>> ids_from(const std::string& text);

}  // namespace runnel
