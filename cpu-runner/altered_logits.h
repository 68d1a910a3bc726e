// The ids of a row whose logits a request changes: by masks, biases and penalties. They are few beside a
// vocabulary. Their logits become doubles in a list of their own, and leave the row of floats, so that loops
// over the row need not know of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cpu-runner/draw_candidates.h"
#include "runner/sampling/logit_rows.h"

namespace runnel {

class AlteredLogits {
 public:
  explicit AlteredLogits(uint32_t vocab_size) : places_(vocab_size) {}

  // Moves them out of logits (vocab_size), all finite: -infinity takes their places, and those of ids that
  // allowed_bits excludes. Where few ids are allowed, by a list or by bits, these are all there is, and
  // logits stays as it is.
  void take(std::span<float> logits, const Draw& draw, double temperature);
  // Undoes that.
  void put_back(std::span<float> logits);

  // Those that may be drawn, with what masks, biases, penalties and temperature make of their logits.
  std::span<const Candidate> candidates() const { return candidates_; }

  // How many candidates the row still has, and where one was taken from it.
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
  // Added if it is not there; null if it may not be added.
  Entry* find(uint32_t id, std::span<const float> logits);
  void add(uint32_t id, std::span<const float> logits);
  void mask(std::span<const uint32_t> ids, std::span<const float> logits);
  void take_excluded(std::span<float> logits);

  std::vector<Entry> entries_;
  std::vector<uint32_t>
      places_;  // of each id, the number of its entry, counted from 1; zeros between two uses
  std::span<const uint32_t> allowed_bits_;  // empty: all
  bool only_allowed_ = false;
  uint32_t num_left_ = 0;
  std::vector<Candidate> candidates_;
  std::vector<Taken> taken_;
};

}  // namespace runnel
