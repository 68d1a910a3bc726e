#include "cuda-runner/kernels/product_kernels-inl.h"

RUNNEL_PRODUCTS_OF(kQ4_K)
RUNNEL_PRODUCTS_OF(kQ5_K)
RUNNEL_PRODUCTS_OF(kIQ4_XS)
