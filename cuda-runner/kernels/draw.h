// Tokens drawn from rows of logits: what runner/sampling/sampler.h draws, id for id. Everything is doubles in
// a fixed order, or whole numbers, so that it is the same bits.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/lang.h"

namespace runnel {

// A draw, with its lists one after the other from first_word on:
//   num_allowed  ids; none: all are allowed
//   num_allowed_bits  words of bits as in runner/sampling/id_bits.h; none: all are allowed
//   num_masked   ids
//   num_biases   pairs of an id and the bits of a float, in order
//   num_seen     pairs of an id of the sequence, each id once, and how often it was generated
struct DeviceDraw {
  uint64_t seed;
  uint32_t row;       // of the logits
  uint32_t position;  // of the token in its sequence
  float temperature;
  float top_p;
  float min_p;
  float repetition_penalty;
  float presence_penalty;
  float frequency_penalty;
  uint32_t top_k;
  uint32_t first_word;
  uint32_t num_allowed;
  uint32_t num_allowed_bits;
  uint32_t num_masked;
  uint32_t num_biases;
  uint32_t num_seen;
};

struct DrawInputs {
  Global<const DeviceDraw> draws;
  Global<const uint32_t> words;
  Global<const float> logits;  // (rows, vocab_size)
  Global<double> candidates;   // (num_draws, vocab_size), to work in
  uint32_t vocab_size;
};

// Instead of an id: the row's logits are not all finite.
inline constexpr uint32_t kNotFinite = 0xffffffff;

// drawn[i]: the id of draws[i], or kNotFinite.
cudaError_t draw(const DrawInputs& in, uint32_t num_draws, Global<uint32_t> drawn, cudaStream_t stream);

// Loads the kernel: see load.h.
cudaError_t load_draw();

}  // namespace runnel
