#include "runner/models/classifier.h"

#include "runner/backend/numerics.h"
#include "runner/check.h"

namespace runnel {
namespace {

// row * values + bias. The product of two floats is exact in double precision.
template <typename Value>
double row_sum(const float* row, std::span<const Value> values, float bias) {
  double sum = 0.0;
  for (size_t i = 0; i < values.size(); ++i) sum = sum + double{row[i]} * double{values[i]};
  return sum + double{bias};
}

double tanh_f64(double x) {
  return 1.0 - 2.0 / (exp_f64(2.0 * x) + 1.0);
}

}  // namespace

float classify(const ClassifierSpec& classifier, std::span<const float> state) {
  const size_t width = state.size();
  CHECK(classifier && classifier.dense.size() == width * width && classifier.output.size() == width);
  std::vector<double> hidden(width);
  for (size_t row = 0; row < width; ++row)
    hidden[row] = tanh_f64(row_sum(classifier.dense.data() + row * width, state, classifier.dense_bias[row]));
  return static_cast<float>(
      row_sum(classifier.output.data(), std::span<const double>(hidden), classifier.output_bias.front()));
}

}  // namespace runnel
