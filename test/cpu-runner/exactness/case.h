// One case: a request under test, those that keep it company, and how large it all is.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/serving/messages.h"
#include "test/cpu-runner/exactness/random.h"

namespace runnel::exactness {

struct Sizes {
  uint32_t max_prompt_tokens;
  uint32_t max_answer_tokens;
  uint32_t max_neighbours;
  bool portable_kernels;  // without a processor's fma a token of a real model takes them seconds
};

struct Arrival {
  wire::Generate request;
  uint32_t step;  // before which it comes
};

struct Case {
  uint32_t max_model_len;         // that of every engine; some answers end there
  wire::Generate request;         // the one under test
  std::vector<Arrival> arrivals;  // of all requests; the first is the one under test
};

constexpr uint32_t kRequestUnderTest = 1;  // its id

Case random_case(Random& random, const Sizes& sizes, uint32_t vocab_size);

}  // namespace runnel::exactness
