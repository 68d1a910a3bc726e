#include <vector>

#include "test/fixtures/emulated_gpus.h"
#include "test/fixtures/temporary_folder.h"

namespace runnel {

using namespace test;

TEST_CASE("tensor parallel: each type of weights has the CPU's logits on any number of GPUs") {
  const std::vector<uint32_t> ids = count_from(3, 16);
  for (const TensorType type :
       {TensorType::kF32, TensorType::kBF16, TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_K}) {
    CAPTURE(type_name(type));
    const TemporaryFile file(write_tiny_llama(llama_of(type)).bytes());
    EngineFlags flags = gpu_flags_for(file.path());
    flags.kv_cache_type = type == TensorType::kQ4_0 ? KvType::kF16 : KvType::kF32;
    const Logits expected = cpu_logits(flags, ids);
    // 8 GPUs share each of 4 KV heads.
    for (const uint32_t num_gpus : {2u, 3u, 4u, 8u}) {
      CAPTURE(num_gpus);
      CHECK(same_bits(gpu_logits(flags, num_gpus, ids), expected));
      CHECK(same_bits(gpu_logits(by_nccl(flags), num_gpus, ids), expected));
    }
  }
}

}  // namespace runnel
