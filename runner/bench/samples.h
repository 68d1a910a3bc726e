// Measurements of one quantity, and their distribution. There must be at least one measurement.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "runner/check.h"

namespace runnel {

class Samples {
 public:
  void add(double value) { sorted_.insert(std::ranges::upper_bound(sorted_, value), value); }

  double min() const { return sorted_.at(0); }
  double max() const { return sorted_.at(sorted_.size() - 1); }
  double median() const { return sorted_.at(sorted_.size() / 2); }
  // The smallest value that is not exceeded by at least this share of the values.
  double percentile(double percent) const {
    RUNNEL_CHECK(percent > 0.0 && percent <= 100.0);
    const double rank = std::ceil(percent / 100.0 * static_cast<double>(sorted_.size()));
    return sorted_.at(static_cast<size_t>(rank) - 1);
  }

 private:
  std::vector<double> sorted_;
};

}  // namespace runnel
