// Streams: work that waits. It runs when somebody synchronises, and then no more of it than must, so that a
// host that reads too early sees the old bytes, and a stream that waits for no event may run too early or too
// late.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "cuda-runner/emulator/runtime_api.h"

namespace runnel::emulator {

// How much work may wait in a stream; then the oldest runs, as on a device.
inline constexpr size_t kMaxQueued = 1024;

// A moment in a stream: an event was recorded there.
struct Mark {
  CUstream_st* stream;
  bool is_reached = false;
  double at_ms = 0;
};

struct Graph;

}  // namespace runnel::emulator

struct CUstream_st {
 public:
  using Operation = std::function<void()>;

  // While a graph is captured, it goes there.
  void add(Operation operation);
  bool is_empty() const { return queue_.empty(); }
  void run_one();
  void run_all();
  void run_until(const runnel::emulator::Mark& mark);
  void drop_all() { queue_.clear(); }

  std::shared_ptr<runnel::emulator::Graph> captured;  // none: nothing is captured
  bool is_capture_broken = false;

 private:
  std::deque<Operation> queue_;
};

namespace runnel::emulator {

// The nodes of a graph, in their order, with their arguments.
struct Graph {
  std::deque<CUstream_st::Operation> nodes;
};

}  // namespace runnel::emulator

struct CUevent_st {
  bool has_time;
  std::shared_ptr<runnel::emulator::Mark> last;  // none: never recorded
};

struct CUgraph_st {
  std::shared_ptr<runnel::emulator::Graph> graph;
};

struct CUgraphExec_st {
  std::shared_ptr<const runnel::emulator::Graph> graph;
};
