// The classification head of an encoder: see ClassifierSpec.
#pragma once

#include <span>

#include "runner/backend/decoder_spec.h"

namespace runnel {

// The logit of the label. Sums are in double precision and in the order of the columns, so that they have the
// same bits for every backend. state: (hidden).
float classify(const ClassifierSpec& classifier, std::span<const float> state);

}  // namespace runnel
