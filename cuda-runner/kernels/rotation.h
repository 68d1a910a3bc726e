// How heads are normed and rotated before attention.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/lang.h"
#include "runner/backend/attention_shape.h"

namespace runnel {

// A norm of each head before the rotation.
struct HeadNorm {
  bool is_there = false;
  Global<const float> gain = {};  // (head_dim)
  float epsilon = 0.0f;
};

struct HeadNorms {
  HeadNorm of_queries;
  HeadNorm of_keys;
};

struct Rotation {
  Rope rope = {};
  HeadNorms norms = {};
  Global<const float> angles = {};  // (num_rows, rotary_dim), as rope_angles computes them for these rows
};

}  // namespace runnel
