#include "cuda-runner/kernels/product_kernels-inl.h"

RUNNEL_PRODUCTS_OF(kQ4_0)
RUNNEL_PRODUCTS_OF(kQ4_1)
RUNNEL_PRODUCTS_OF(kIQ4_NL)
RUNNEL_PRODUCTS_OF(kMXFP4)
