#include "cuda-runner/load_kernels.h"

#include "cuda-runner/device/error.h"
#include "cuda-runner/kernels/attend.h"
#include "cuda-runner/kernels/draw.h"
#include "cuda-runner/kernels/embed.h"
#include "cuda-runner/kernels/experts.h"
#include "cuda-runner/kernels/norm.h"
#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/rope_angles.h"
#include "cuda-runner/kernels/rope_store.h"

namespace runnel {

void load_kernels() {
  for (const auto load : {load_activated_multiply, load_attend, load_draw, load_embed, load_experts,
                          load_gated_multiply, load_multiply, load_norm, load_rope_angles, load_rope_store})
    expect_success(load(), "loading kernels");
}

}  // namespace runnel
