#include "cuda-runner/kernels/product_kernels-inl.h"

RUNNEL_PRODUCTS_OF(kF32)
RUNNEL_PRODUCTS_OF(kF16)
RUNNEL_PRODUCTS_OF(kBF16)
