// A case: the request under test, and the requests that are computed together with it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runner/engine/pooling.h"
#include "runner/serving/messages.h"
#include "test/exactness/random.h"

namespace runnel::exactness {

// Limits of the sizes of cases, and the variants of computation that a backend has.
struct Sizes {
  uint32_t max_prompt_tokens;
  uint32_t max_answer_tokens;
  uint32_t max_neighbours;
  bool has_threads = false;
  bool has_portable_kernels = false;
  bool has_graphs = false;
  uint32_t num_devices = 1;  // on which a model can be computed together
  bool has_nccl = false;     // which they can gather by
};

struct Arrival {
  wire::Generate request;
  uint32_t step;  // the request arrives before this step
  // If set, the request asks for the vector of its prompt, and for no token. Never set for the request under
  // test.
  std::optional<Pooling> pooling = {};
};

struct Case {
  uint32_t max_model_len;         // of every engine; some answers end at this length
  wire::Generate request;         // the request under test
  std::vector<Arrival> arrivals;  // of all requests; the first is that under test
  bool is_plain = false;          // no request has lists of ids or asks for log-probabilities
};

constexpr uint32_t kRequestUnderTest = 1;  // the id of that request

Case random_case(Random& random, const Sizes& sizes, uint32_t vocab_size);

}  // namespace runnel::exactness
