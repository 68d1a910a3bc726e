// A feed-forward part made of experts, with what scalar code computes of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "cuda-runner/kernels/experts.h"
#include "test/cuda-runner/device_matrix.h"
#include "test/cuda-runner/device_ready.h"
#include "test/cuda-runner/on_device.h"
#include "test/fixtures/product_reference.h"
#include "test/fixtures/random_floats.h"

namespace runnel::test {

struct ExpertUse {
  uint32_t expert;
  float weight;
};

// The largest logits first, and of equal logits the lower index (docs/numerics.md).
inline std::vector<ExpertUse> uses_of(std::span<const float> logits, uint32_t num_used) {
  std::vector<uint32_t> order(logits.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater(), [&](uint32_t i) { return logits[i]; });
  std::vector<ExpertUse> uses;
  float sum = 0.0f;
  for (uint32_t i = 0; i < num_used; ++i) {
    uses.push_back({order[i], exp_f32(logits[order[i]] - logits[order[0]])});
    sum = sum + uses.back().weight;
  }
  for (ExpertUse& use : uses) use.weight = use.weight / sum;
  return uses;
}

struct ExpertSizes {
  uint32_t num_experts;
  uint32_t num_used;
  uint32_t hidden;
  uint32_t width;  // of one expert
  bool has_bias;
};

// Random matrices, rows and biases. Biases that lie beyond the limits of the clamped gate are among them.
class ExpertCase {
 public:
  // logits: (num_rows, num_experts).
  ExpertCase(const TestStream& stream, const ExpertSizes& sizes, TensorType type, TensorType up_type,
             const std::vector<float>& logits, std::mt19937& rng)
      : sizes_(sizes),
        num_rows_(static_cast<uint32_t>(logits.size()) / sizes.num_experts),
        gate_(stream, type, sizes.num_experts * sizes.width, sizes.hidden, rng),
        up_(stream, up_type, sizes.num_experts * sizes.width, sizes.hidden, rng),
        down_(stream, type, sizes.num_experts * sizes.hidden, sizes.width, rng),
        x_(reference::ready(random_floats(size_t{num_rows_} * sizes.hidden, rng), sizes.hidden)),
        before_(random_floats(size_t{num_rows_} * sizes.hidden, rng)),
        gate_up_bias_(random_floats(size_t{2} * sizes.num_experts * sizes.width, rng, 5.0f)),
        down_bias_(random_floats(size_t{sizes.num_experts} * sizes.hidden, rng)),
        router_(stream, logits),
        device_gate_up_bias_(stream, gate_up_bias_),
        device_down_bias_(stream, down_bias_),
        in_(stream, x_),
        gated_(stream, sizes.width, num_rows_ * sizes.num_used),
        out_(stream, before_) {
    for (uint32_t row = 0; row < num_rows_; ++row) {
      const std::span of_row = std::span(logits).subspan(size_t{row} * sizes.num_experts, sizes.num_experts);
      for (const ExpertUse& use : uses_of(of_row, sizes.num_used)) uses_.push_back(use);
    }
  }

  uint32_t num_rows() const { return num_rows_; }
  FloatRows logits() const { return {router_.view(), sizes_.num_experts}; }
  DeviceMatrix gate() const { return gate_.on_device(); }
  DeviceMatrix up() const { return up_.on_device(); }
  DeviceMatrix down() const { return down_.on_device(); }
  ExpertBias gate_up_bias() const { return {sizes_.has_bias, device_gate_up_bias_.read_view()}; }
  ExpertBias down_bias() const { return {sizes_.has_bias, device_down_bias_.read_view()}; }
  Nonlinearity nonlinearity() const {
    return sizes_.has_bias ? Nonlinearity::kClampedSwish : Nonlinearity::kSilu;
  }
  ReadyRows in() const { return in_.view(); }
  ReadyRows gated() const { return gated_.view(); }
  FloatRows out() const { return {out_.view(), sizes_.hidden}; }

  // The bytes that the matrices of all experts have on the device.
  uint64_t gate_up_bytes() const { return bytes_of(gate_) + bytes_of(up_); }
  uint64_t down_bytes() const { return bytes_of(down_); }

  // Those that scalar code chooses.
  const std::vector<ExpertUse>& uses() const { return uses_; }
  // Whether gated() and out() have the bits of scalar code, after all that was to be computed.
  bool is_right() const {
    std::vector<float> rows;
    for (uint32_t use = 0; use < uses_.size(); ++use) {
      for (uint32_t i = 0; i < sizes_.width; ++i) {
        const uint32_t output = uses_[use].expert * sizes_.width + i;
        const float gate = biased(gate_, output, x_, use / sizes_.num_used, gate_up_bias_, output);
        const float up = biased(up_, output, x_, use / sizes_.num_used, gate_up_bias_,
                                sizes_.num_experts * sizes_.width + output);
        rows.push_back((sizes_.has_bias ? reference::clamped_swish : reference::gated)(gate, up));
      }
    }
    const reference::Ready ready = reference::ready(rows, sizes_.width);
    std::vector<float> wanted = before_;
    for (uint32_t row = 0; row < num_rows_; ++row) {
      for (uint32_t i = 0; i < sizes_.hidden; ++i) {
        float sum = 0.0f;
        for (uint32_t use = row * sizes_.num_used; use < (row + 1) * sizes_.num_used; ++use) {
          const uint32_t output = uses_[use].expert * sizes_.hidden + i;
          sum = std::fma(uses_[use].weight, biased(down_, output, ready, use, down_bias_, output), sum);
        }
        float& to = wanted[size_t{row} * sizes_.hidden + i];
        to = sum + to;
      }
    }
    return gated_.is(ready) && bits_of(out_.values()) == bits_of(wanted);
  }

 private:
  static uint64_t bytes_of(const RandomMatrix& matrix) {
    return sizeof(uint32_t) * matrix.quants->values().size() +
           sizeof(uint16_t) * matrix.scales->values().size();
  }
  float biased(const RandomMatrix& matrix, uint32_t output, const reference::Ready& x, uint32_t row,
               const std::vector<float>& bias, uint32_t bias_index) const {
    const float product = reference::product(matrix.tensor.type, matrix.row(output), x, row);
    return sizes_.has_bias ? product + bias[bias_index] : product;
  }

  ExpertSizes sizes_;
  uint32_t num_rows_;
  RandomMatrix gate_;
  RandomMatrix up_;
  RandomMatrix down_;
  reference::Ready x_;
  std::vector<float> before_;
  std::vector<float> gate_up_bias_;
  std::vector<float> down_bias_;
  std::vector<ExpertUse> uses_;
  DeviceArray<float> router_;
  DeviceArray<float> device_gate_up_bias_;
  DeviceArray<float> device_down_bias_;
  DeviceReady in_;
  DeviceReady gated_;
  DeviceArray<float> out_;
};

}  // namespace runnel::test
