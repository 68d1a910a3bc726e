// One table of kernels. A .cc file includes this header after it has defined RUNNEL_KERNELS, the namespace,
// RUNNEL_KERNELS_NAME, and RUNNEL_LANES, the floats in a vector; that file is compiled for the instruction
// set in its name. These headers must not instantiate functions of a common namespace: the linker keeps one
// copy of an inline function, and if it kept one with AVX instructions, the portable kernels would execute
// them. So the kernels use plain pointers and builtins, and everything they define is static.
#include "cpu-runner/kernels/attend-inl.h"
#include "cpu-runner/kernels/draw-inl.h"
#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/kernels/kv-inl.h"
#include "cpu-runner/kernels/product-inl.h"
#include "cpu-runner/kernels/ready-inl.h"
#include "cpu-runner/kernels/rows-inl.h"

namespace runnel::RUNNEL_KERNELS {

static constexpr Kernels kKernels = {
    .name = RUNNEL_KERNELS_NAME,
    .multiply_i8 = multiply<I8Quants>,
    .multiply_f32 = multiply<F32Quants>,
    .make_ready_i8 = make_ready_i8,
    .make_ready_f32 = make_ready_f32,
    .norm = norm,
    .layer_norm = layer_norm,
    .silu_multiply = multiply_gated<Nonlinearity::kSilu>,
    .gelu_multiply = multiply_gated<Nonlinearity::kGelu>,
    .gelu_by_error_multiply = multiply_gated<Nonlinearity::kGeluByError>,
    .clamped_swish_multiply = multiply_gated<Nonlinearity::kClampedSwish>,
    .soft_cap = soft_cap,
    .rotate = rotate,
    .store_key = store_key,
    .store_value = store_value,
    .attend = attend,
    .attend_split = attend_split,
    .merge_splits = merge_splits,
    .draw = draws::kDrawKernels,
};

}  // namespace runnel::RUNNEL_KERNELS
