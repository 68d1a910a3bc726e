// Sets apart the ids of a row whose logits a request changes by masks, biases and penalties. These ids are
// few beside a vocabulary. Their logits are moved to a list of doubles and removed from the row of floats, so
// that loops over the row need not know of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cpu-runner/sampling/draw_candidates.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

class AlteredLogits {
 public:
  explicit AlteredLogits(uint32_t vocab_size) : places_(vocab_size) {}
  // Bytes that this takes, but for the ids of a request's lists.
  static uint64_t bytes(uint32_t vocab_size) { return uint64_t{vocab_size} * sizeof(uint32_t); }

  // Moves these ids out of logits (vocab_size), which are all finite, and puts -infinity in their places and
  // in the places of ids that allowed_bits excludes. Where a list or the bits allow only few ids, all allowed
  // ids are copied to the list instead; the row then counts as empty, and logits do not change.
  void take(std::span<float> logits, const Draw& draw, double temperature);
  // Undoes take().
  void put_back(std::span<float> logits);

  // The listed ids that may be drawn, with their logits after masks, biases, penalties and temperature.
  std::span<const Candidate> candidates() const { return candidates_; }

  // num_left() is the number of candidates that the row still has; taken() are the logits that were removed
  // from it.
  uint32_t num_left() const { return num_left_; }
  struct Taken {
    uint32_t id;
    float logit;
  };
  std::span<const Taken> taken() const { return taken_; }

 private:
  struct Entry {
    double logit;
    uint32_t id;
    uint32_t num_generated;
    bool is_penalized;
  };
  void take_allowed(std::span<const float> logits, const Draw& draw);
  // Adds the entry if there is none yet. Returns null if the id may not be drawn.
  Entry* find(uint32_t id, std::span<const float> logits);
  void add(uint32_t id, std::span<const float> logits);
  void mask(std::span<const uint32_t> ids, std::span<const float> logits);
  void take_excluded(std::span<float> logits);

  std::vector<Entry> entries_;
  // Of each id, the number of its entry, counted from 1; zeros between two uses.
  std::vector<uint32_t> places_;
  std::span<const uint32_t> allowed_bits_;  // empty: all
  bool only_allowed_ = false;
  uint32_t num_left_ = 0;
  std::vector<Candidate> candidates_;
  std::vector<Taken> taken_;
};

}  // namespace runnel
