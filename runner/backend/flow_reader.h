// The data between the operations of a backend, to look at after an operation that was launched by itself.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/backend/batch.h"
#include "runner/backend/decoder_spec.h"

namespace runnel {

enum class Flow { kHidden, kNormed, kQkv, kAttended, kGated };

class FlowReader {
 public:
  // What the last operation that writes this data has left: (num_rows, width) floats.
  virtual std::vector<float> read_rows(Flow flow, uint32_t num_rows) = 0;
  // The keys, then the values of a layer, as stored: (2, num_positions, num_kv_heads, head_dim).
  virtual std::vector<float> read_kv(const LayerSpec& layer, const BatchSequence& sequence,
                                     uint32_t num_positions) = 0;

 protected:
  ~FlowReader() = default;
};

}  // namespace runnel
