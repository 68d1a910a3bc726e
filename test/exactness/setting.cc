#include "test/exactness/setting.h"

#include <algorithm>

#include "runner/engine/kv_windows.h"

namespace runnel::exactness {

Setting random_setting(Random& random, const Subject& subject, const Sizes& sizes, const Case& of_case) {
  const uint32_t max_model_len = of_case.max_model_len;
  Setting setting;
  EngineFlags& flags = setting.flags;
  flags.model = subject.path();
  flags.kv_cache_type = subject.kv_type();
  flags.max_model_len = max_model_len;

  // One line for each setting that may differ.
  if (sizes.has_portable_kernels && random.one_in(9)) flags.isa = "portable";
  if (sizes.has_threads) {
    flags.num_threads = random.pick({1u, 2u, 3u});
    flags.num_nodes = random.pick({1u, 1u, 2u, 4u});
  }
  flags.enforce_eager = sizes.has_graphs && random.one_in(3);
  flags.ranks_are_gpus = sizes.has_graphs;
  flags.reserves_next = sizes.has_graphs && !random.one_in(8);
  setting.reads_logits = !of_case.is_plain || random.one_in(3);
  if (sizes.num_devices > 1 && subject.is_divisible() && random.one_in(3)) {
    flags.num_ranks = sizes.num_devices;
    flags.gathers_by_nccl = sizes.has_nccl && random.one_in(2);
  }
  flags.max_num_seqs = random.one_in(8) ? 1 : random.between(2, 8);
  flags.max_num_batched_tokens =
      random.one_in(8) ? random.between(1, 8) : random.between(8, max_model_len + 8);
  flags.mixed_batches = !random.one_in(4);
  flags.mixed_prefill_tokens = random.pick({1u, 3u, 8u, 32u, 256u});
  flags.speculation = setting.reads_logits ? !random.one_in(4) : random.one_in(4);
  flags.block_size = random.pick({8u, 8u, 8u, 8u, 16u, 16u, 32u, 256u});

  // There are blocks for the longest request but not for many more, so that they run out.
  const uint32_t num_blocks_needed =
      num_required_blocks(max_model_len - 1, flags.block_size, subject.kv_windows());
  flags.num_kvcache_blocks = random.between(num_blocks_needed, 2 * num_blocks_needed + 2);
  return setting;
}

}  // namespace runnel::exactness
