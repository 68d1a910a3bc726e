#include "cuda-runner/kernels/product_kernels-inl.h"

RUNNEL_PRODUCTS_OF(kQ5_0)
RUNNEL_PRODUCTS_OF(kQ5_1)
RUNNEL_PRODUCTS_OF(kQ8_0)
