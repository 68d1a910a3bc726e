// Draws tokens from rows of logits. The ids are those that runner/sampling/sampler.h draws: all computations
// are integers, or doubles in a fixed order, so the bits are the same.
//
// The ids of a row are cut into chunks, and a block takes a chunk of a draw. Blocks of a launch cannot see
// each other's results, so a draw takes a few launches: `scan` finds the most likely candidate of each chunk,
// and the largest with noise, `weigh` and `gather` find and copy the few candidates that top_k, top_p and
// min_p may keep, and `choose` ends every draw with a block of its own.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/lang.h"

namespace runnel {

enum class DrawKind : uint32_t {
  kNone,    // draws nothing
  kGreedy,  // the most likely candidate
  kNoise,   // the candidate that is largest with noise
  kBounds,  // the same, of the candidates that top_k, top_p and min_p keep
};

// A draw. Its lists are in DrawInputs::words, one after the other, from first_word on:
//   num_bit_words  words of bits as in runner/sampling/id_bits.h: the ids that may be drawn and whose logits
//                  no list changes; if there are no words, all ids
//   num_changed    pairs of an id that may be drawn too, and 1 + the number of times that it was generated
//                  if penalties apply to it, otherwise 0
//   num_biased     for each of the first pairs, where its biases end
//   the bits of floats: the biases of the first pair, those of the second, ..., in the order of adding
struct DeviceDraw {
  uint64_t seed;
  DrawKind kind;
  uint32_t row;        // of the logits
  uint32_t batch_row;  // the row of the batch that the logits were computed from
  float temperature;
  float top_p;
  float min_p;
  float repetition_penalty;
  float presence_penalty;
  float frequency_penalty;
  uint32_t top_k;
  uint32_t first_word;
  uint32_t num_bit_words;
  uint32_t num_changed;
  uint32_t num_biased;

  bool operator==(const DeviceDraw&) const = default;
};

struct DrawInputs {
  Global<const DeviceDraw> draws;
  Global<const uint32_t> words;
  Global<const float> logits;  // (rows, vocab_size)
  // Of the rows of the batch. A drawn token has the position after that of its row, so a draw without lists
  // is the same in each step.
  Global<const uint32_t> positions;
  uint32_t vocab_size;
};

// The order of candidates in integers, see rank-inl.h.
struct Rank {
  uint64_t key;  // has the order of logits
  uint32_t tie;  // ~id: has the inverse order of ids

  __host__ __device__ uint32_t id() const { return ~tie; }
};

// The candidates of a chunk whose logits lie in a range, see draw_bins-inl.h.
struct DrawBin {
  uint64_t weight;  // Σ exp_weight of runner/sampling/exp_sum.h
  uint64_t count;
};
inline constexpr uint32_t kDrawBins = 32;

// What `gather` leaves of a draw.
struct GatheredCount {
  uint64_t weight;  // of all candidates of the row, with top_p and without top_k
  uint64_t count;   // of the candidates that may be kept
};

// At most this many candidates of a draw are copied. If more may be kept, `choose` reads the whole row again,
// about eight times.
inline constexpr uint32_t kMaxGathered = 8192;
__host__ __device__ constexpr uint32_t room_for_gathered(uint32_t vocab_size) {
  return vocab_size < kMaxGathered ? vocab_size : kMaxGathered;
}

// Working memory of draws.
struct DrawWorkspace {
  Global<Rank> firsts;             // (draws, chunks): the most likely candidate
  Global<Rank> winners;            // (draws, chunks): the largest with noise
  Global<DrawBin> bins;            // (draws, chunks, kDrawBins)
  Global<GatheredCount> counts;    // (draws)
  Global<double> gathered_logits;  // (draws, room_for_gathered)
  Global<uint32_t> gathered_ids;   // (draws, room_for_gathered)
};

// The result if the logits of the row are not all finite.
inline constexpr uint32_t kNotFinite = 0xffffffff;

// The chunks of each draw of a launch. The more draws there are, the fewer chunks has each.
uint32_t num_draw_chunks(uint32_t num_draws, uint32_t vocab_size);

// drawn[i] = the id that draws[i] draws, or kNotFinite. Leaves it alone if the draw is of kind kNone.
// has_bounds: whether some draws are of kind kBounds.
cudaError_t draw(const DrawInputs& in, const DrawWorkspace& work, uint32_t num_draws, bool has_bounds,
                 Global<uint32_t> drawn, cudaStream_t stream);

// Loads the kernels: see load.h.
cudaError_t load_draw();

}  // namespace runnel
