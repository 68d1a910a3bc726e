// The backend under test. Each program is linked with one, and its main says which.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "runner/backend.h"
#include "runner/result.h"
#include "test/exactness/case.h"

namespace runnel::exactness {

struct Contender {
  Sizes tiny;
  Sizes real;  // with a model that is not made for this
  std::function<Result<std::unique_ptr<Backend>>(const BackendOptions& options)> make;
  // Launches of graphs in this process, without the first of each.
  std::function<uint64_t()> num_graph_replays = [] { return uint64_t{0}; };
};

}  // namespace runnel::exactness
