// One case: a request under test, those that keep it company, and how large it all is.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runner/pooling.h"
#include "runner/serving/messages.h"
#include "test/exactness/random.h"

namespace runnel::exactness {

// How large cases are, and what a backend can do one way or another.
struct Sizes {
  uint32_t max_prompt_tokens;
  uint32_t max_answer_tokens;
  uint32_t max_neighbours;
  bool has_threads = false;
  bool has_portable_kernels = false;
  bool has_graphs = false;
};

struct Arrival {
  wire::Generate request;
  uint32_t step;  // before which it comes
  // It asks for the vector of its prompt, and for no token. Never of the request under test.
  std::optional<Pooling> pooling = {};
};

struct Case {
  uint32_t max_model_len;         // that of every engine; some answers end there
  wire::Generate request;         // the one under test
  std::vector<Arrival> arrivals;  // of all requests; the first is the one under test
};

constexpr uint32_t kRequestUnderTest = 1;  // its id

Case random_case(Random& random, const Sizes& sizes, uint32_t vocab_size);

}  // namespace runnel::exactness
