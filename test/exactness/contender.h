// The backend under test. Each program is linked with one, which its main function passes on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "runner/backend/backend.h"
#include "runner/result.h"
#include "test/exactness/case.h"

namespace runnel::exactness {

struct Contender {
  Sizes tiny;
  Sizes real;  // for a model given on the command line
  std::function<Result<std::unique_ptr<Backend>>(const BackendOptions& options)> make;
  // The number of graph launches in this process, except the first launch of each graph.
  std::function<uint64_t()> num_graph_replays = [] { return uint64_t{0}; };
};

}  // namespace runnel::exactness
