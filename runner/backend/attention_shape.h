// The parameters of attention, apart from the other parameters because kernels of a GPU include this file
// too.
#pragma once

#include <cstdint>

namespace runnel {

// Which values of a head rotate together: pairs of its first rotary_dim values.
struct Rope {
  uint32_t rotary_dim;  // even; 0: nothing rotates
  bool interleaved;  // true: pairs (2i, 2i + 1), as GGUF stores llama; false: pairs (i, i + rotary_dim / 2)
};

struct AttentionShape {
  uint32_t num_heads;
  uint32_t num_kv_heads;  // divides num_heads
  uint32_t head_dim;
  float scale;  // of q . k, usually 1 / sqrt(head_dim)
  // Number of positions that a row sees, its own included; 0: all positions up to its own.
  uint32_t window = 0;
  float softcap = 0.0f;  // of scores, scale * q . k: see soft_capped; 0: none
  // Whether a row also sees the rows behind it. All rows of a sequence are then in one batch, and there is no
  // window.
  bool sees_ahead = false;
};

}  // namespace runnel
