// Weights that mean nothing, in any storage type: for models of real shapes that nobody trained.
#pragma once

#include <cstddef>
#include <random>
#include <span>

#include "runner/formats/tensor.h"

namespace runnel {

// Fills whole blocks of the type with values of mean zero whose root mean square is about rms. What is drawn
// depends on the generator's state alone, also from one machine to another.
void fill_with_random_weights(TensorType type, float rms, std::mt19937_64& random, std::span<std::byte> out);

// Writes d, of MXFP4 the power of two at or below it, and m, if it has one, into a block of the file of a
// quantised type.
void set_halves(TensorType type, float scale, float minimum, std::span<std::byte> block);

}  // namespace runnel
