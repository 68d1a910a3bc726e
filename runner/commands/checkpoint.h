// cpu-runner checkpoint: writes the intermediate values of a model's first layer for a prompt, and the final
// results, to files that can be compared with another implementation.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/commands/loaded_model.h"
#include "runner/result.h"

namespace runnel {

// The cache has the values that were computed, so that steps 3 to 7 differ from a reference only by rounding.
constexpr KvType kCheckpointKvType = KvType::kF32;

struct CheckpointFlags {
  std::vector<uint32_t> token_ids;
  std::string out;           // a folder, which may not exist yet
  uint32_t max_tokens = 16;  // of the greedy continuation
};

// Writes, for n token ids, raw single-precision values into DIR/NAME.f32, and their shapes into
// DIR/index.json:
//    1  norm             (n, hidden)                 the first layer's norm of the hidden state
//    2  q, k, v          (n, heads, head_dim)        q as attention reads it, k if it is stored as it is
//    3  cache            (2, n, kv heads, head_dim)  keys, then values, as stored
//    4  scores, masked   (heads, n, n)               scale * q . k, capped where the model has a cap;
//                                                   masked: -infinity for later positions
//    5  attended         (n, heads * head_dim)       what goes into the output matrix
//       attention        (n, hidden)                 and what is added to the hidden state
//    6  ffn_norm         (n, hidden)
//       gated            (n, width)                  none with experts
//       ffn              (n, hidden)
//    7  block            (n, hidden)                 the hidden state after the first layer
//    8  logits           (n, vocab)
//    9  last_logits      (vocab)
//   10  argmax           in the index
//   11  softmax_T        (vocab)                     of last_logits / T, for T of 0.5, 0.8, 1 and 2
//   12  greedy           in the index: ids that follow
// Scores and softmax are computed from the others on the host, in double precision. Fails as load does; with
// kUsage for ids that the model does not have or too many of them, and with kNoPermission or kSystem where
// files cannot be written.
Result<void> checkpoint(const EngineFlags& engine, std::unique_ptr<Backend> backend,
                        const CheckpointFlags& flags, std::ostream& out);

}  // namespace runnel
