#include "cuda-runner/load_kernels.h"

#include <algorithm>

#include "cuda-runner/device/error.h"
#include "cuda-runner/kernels/attend.h"
#include "cuda-runner/kernels/draw.h"
#include "cuda-runner/kernels/embed.h"
#include "cuda-runner/kernels/experts.h"
#include "cuda-runner/kernels/feed.h"
#include "cuda-runner/kernels/grouped_product.h"
#include "cuda-runner/kernels/make_ready.h"
#include "cuda-runner/kernels/norm.h"
#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/rope_angles.h"
#include "cuda-runner/kernels/rope_store.h"
#include "cuda-runner/kernels/soft_cap.h"
#include "cuda-runner/kernels/use_groups.h"
#include "runner/formats/tensor.h"

namespace runnel {

void load_kernels(const DecoderSpec& spec, const AttentionShape& attention,
                  const std::set<TensorType>& weight_types, KvType kv_type) {
  const auto any = [&](auto&& is_so) {
    return std::ranges::any_of(spec.layers, [&](const LayerSpec& layer) { return is_so(layer.ffn); });
  };
  const auto load = [](cudaError_t status) { expect_success(status, "loading kernels"); };
  for (const auto of_every_model :
       {load_draw, load_embed, load_feed, load_make_ready, load_norm, load_rope_angles, load_rope_store})
    load(of_every_model());
  load(load_attend(kv_type, attention));
  const auto has_experts = [](const FfnSpec& ffn) { return ffn.experts.num_experts > 0; };
  const bool is_of_experts = any(has_experts);
  if (is_of_experts) load(load_experts());
  if (is_of_experts) load(load_use_groups());
  if (spec.head.softcap != 0.0f) load(load_soft_cap());
  const bool is_gated = any([&](const FfnSpec& ffn) { return ffn.has_gate && !has_experts(ffn); });
  for (const TensorType type : weight_types) {
    load(load_multiply(type));
    if (is_gated) load(load_gated_multiply(type));
    if (is_of_experts) load(load_grouped_products(type));
  }
}

}  // namespace runnel
