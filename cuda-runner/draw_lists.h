// Packs the lists of a draw (masks, biases, ids for penalties) for the kernels: which ids of the row are
// candidates as they are, and for each of the few others what changes its logit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda-runner/kernels/draw.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

// Whether the draw, and the next one of the sequence by the same parameters, depend on nothing but these and
// the position.
bool is_plain(const Draw& draw);

class DrawLists {
 public:
  explicit DrawLists(uint32_t vocab_size) : vocab_size_(vocab_size), places_(vocab_size) {}

  // The most words that the lists of a draw take, within the limits of sequence_from.
  static size_t max_words(uint32_t vocab_size);
  // Not fewer words than pack() writes for this draw.
  size_t bound(const Draw& draw) const;
  // Writes the lists from words[first] on, and where they are to `device`. Returns the number of words.
  uint32_t pack(const Draw& draw, std::span<uint32_t> words, uint32_t first, DeviceDraw& device);

 private:
  void allow(const Draw& draw);
  // The number of the id's pair, which is made if there is none. Nothing if the id may not be drawn.
  uint32_t* find(uint32_t id);
  void add_seen(const Draw& draw);

  const uint32_t vocab_size_;
  std::span<uint32_t> bits_;   // of the draw that is being packed
  std::span<uint32_t> pairs_;  // see DeviceDraw; has room for all
  uint32_t num_pairs_ = 0;
  std::vector<uint32_t>
      places_;  // of each id, the number of its pair, counted from 1; zeros between two draws
  std::vector<uint32_t> num_biases_;  // of each pair
};

}  // namespace runnel
