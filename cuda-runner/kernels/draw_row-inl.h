// The candidates of a draw in a chunk of a row: the logits after masks, biases, penalties and temperature.
// The host has sorted the lists: bits tell which ids of the row are candidates as they are, and the few whose
// logits change lie apart.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/draw.h"
#include "cuda-runner/kernels/rank-inl.h"
#include "runner/sampling/gumbel.h"

namespace runnel {

// The logits of four neighbouring ids. Ids beyond the row have 0.
struct Quad {
  float logits[4];
  uint32_t in_row;  // a bit for each id
  uint32_t word;    // of the draw's bits, from bit `shift` on
  uint32_t shift;

  // A bit for each id that is a candidate as it is.
  __device__ uint32_t candidates() const { return in_row & word >> shift; }
};

// A bound on logits in single precision: if a logit divided by the temperature is at least `key`, the logit
// is at least the result. key may have been computed by a few additions from numbers of at most `size`; the
// result leaves room for their roundings.
__device__ inline float logit_floor(double key, double size, double temperature) {
  const double logit = (key - 0x1p-40 * (size + 64.0)) * temperature;
  return static_cast<float>(logit - 0x1p-22 * std::fabs(logit) - 1e-40);
}

// The part of a row that a block goes through.
struct DrawChunk {
  // Of a block of a grid of (chunks, draws).
  __device__ static DrawChunk of_block(const DrawInputs& in) {
    return DrawChunk(in, blockIdx.y, blockIdx.x, gridDim.x);
  }

  __device__ DrawChunk(const DrawInputs& in, uint32_t draw_index, uint32_t chunk_index, uint32_t chunk_count)
      : draw(in.draws[draw_index]),
        words(in.words),
        positions(in.positions),
        logits(in.logits.from(static_cast<size_t>(draw.row) * in.vocab_size, in.vocab_size)),
        vocab_size(in.vocab_size),
        index(chunk_index),
        num_chunks(chunk_count),
        temperature(draw.temperature < kGreedyTemperature ? 1.0 : draw.temperature) {}

  // The value with which a logit is compared and drawn.
  __device__ double tempered(double logit) const { return logit / temperature; }

  // Calls fn(first id, quad) for each quad of this thread. A thread goes through its ids in order. Two quads
  // are loaded before the first is used.
  template <typename Fn>
  __device__ void for_each_quad(const Fn& fn) const {
    const uint32_t num_quads = (vocab_size + 3) / 4;
    const uint32_t of_chunk = (num_quads + num_chunks - 1) / num_chunks;
    const uint32_t begin = index * of_chunk;
    const uint32_t end = begin + of_chunk < num_quads ? begin + of_chunk : num_quads;
    for (uint32_t i = begin + threadIdx.x; i < end; i += 2 * blockDim.x) {
      const uint32_t next = i + blockDim.x < end ? i + blockDim.x : i;
      const Quad quad = load_quad(4 * i);
      const Quad next_quad = load_quad(4 * next);
      fn(4 * i, quad);
      if (next != i) fn(4 * next, next_quad);
    }
  }
  // Calls fn(logit, id) for each candidate of this thread whose logit changes.
  template <typename Fn>
  __device__ void for_each_changed(const Fn& fn) const {
    for (uint32_t i = index * blockDim.x + threadIdx.x; i < draw.num_changed; i += num_chunks * blockDim.x)
      fn(tempered(changed_logit(i)), words[first_pair() + 2 * i]);
  }
  // Calls fn(logit, id) for each candidate of this thread, but for some whose logits lie below least.
  template <typename Fn>
  __device__ void for_each(float least, const Fn& fn) const {
    for_each_quad([&](uint32_t first_id, const Quad& quad) {
      const uint32_t candidates = quad.candidates();
      for (uint32_t i = 0; i < 4; ++i)
        if ((candidates >> i & 1) != 0 && quad.logits[i] >= least) fn(tempered(quad.logits[i]), first_id + i);
    });
    for_each_changed(fn);
  }
  template <typename Fn>
  __device__ void for_each(const Fn& fn) const {
    for_each(-INFINITY, fn);
  }

  const DeviceDraw draw;
  const Global<const uint32_t> words;
  const Global<const uint32_t> positions;  // see DrawInputs
  const Global<const float> logits;        // (vocab_size): of the draw's row
  const uint32_t vocab_size;
  const uint32_t index;
  const uint32_t num_chunks;
  const double temperature;

 private:
  __device__ uint32_t first_pair() const { return draw.first_word + draw.num_bit_words; }

  __device__ Quad load_quad(uint32_t id) const {
    Quad quad{{}, 0xf, 0xf, 0};
    if (vocab_size % 4 == 0) {
      const auto loaded = logits.load<float4>(id);
      quad.logits[0] = loaded.x;
      quad.logits[1] = loaded.y;
      quad.logits[2] = loaded.z;
      quad.logits[3] = loaded.w;
    } else {
      for (uint32_t i = 0; i < 4; ++i) {
        if (id + i < vocab_size) {
          quad.logits[i] = logits[id + i];
        } else {
          quad.in_row &= ~(1u << i);
        }
      }
    }
    if (draw.num_bit_words > 0) {
      quad.word = words[draw.first_word + id / 32];
      quad.shift = id % 32;
    }
    return quad;
  }

  __device__ double changed_logit(uint32_t i) const {
    const uint32_t id = words[first_pair() + 2 * i];
    const uint32_t seen = words[first_pair() + 2 * i + 1];
    double logit = logits[id];
    if (i < draw.num_biased) {
      const uint32_t ends = first_pair() + 2 * draw.num_changed;
      const uint32_t end = words[ends + i];
      for (uint32_t bias = i == 0 ? 0 : words[ends + i - 1]; bias < end; ++bias)
        logit += std::bit_cast<float>(words[ends + draw.num_biased + bias]);
    }
    if (seen > 0) {
      const double penalty = draw.repetition_penalty;
      logit = logit > 0.0 ? logit / penalty : logit * penalty;
      const uint32_t num_generated = seen - 1;
      const double presence = draw.presence_penalty;
      const double frequency = draw.frequency_penalty;
      if (num_generated > 0) logit -= presence + frequency * num_generated;
    }
    return logit;
  }
};

}  // namespace runnel
