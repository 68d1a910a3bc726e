#include "cuda-runner/kernels/product_kernels-inl.h"

RUNNEL_PRODUCTS_OF(kQ2_K)
RUNNEL_PRODUCTS_OF(kQ3_K)
RUNNEL_PRODUCTS_OF(kQ6_K)
