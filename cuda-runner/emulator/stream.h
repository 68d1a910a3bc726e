// Streams: queues of work. Work runs only when the host synchronises, and then no more than necessary. So a
// host that reads too early sees the old bytes, and a stream that does not wait for an event it depends on
// may run too early or too late.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "cuda-runner/emulator/runtime_api.h"

namespace runnel::emulator {

// Operations that may wait in a stream. If there are more, the oldest one runs, as on a device.
inline constexpr size_t kMaxQueued = 1024;

// A point in a stream at which an event was recorded.
struct Mark {
  CUstream_st* stream;
  bool is_reached = false;
  double at_ms = 0;
};

struct Graph;
class Collective;

}  // namespace runnel::emulator

struct CUstream_st {
 public:
  using Operation = std::function<void()>;

  // Appends an operation to the queue, or to the graph while one is captured.
  void add(Operation operation);
  bool is_empty() const { return queue_.empty(); }
  void run_one();
  void run_all();
  void run_until(const runnel::emulator::Mark& mark);

  int device = 0;
  std::shared_ptr<runnel::emulator::Graph> captured;  // nullptr: nothing is captured
  size_t lane = 0;                                    // of the graph that is captured

 private:
  std::deque<Operation> queue_;
  bool is_running_ = false;
};

namespace runnel::emulator {

// What was captured from some streams: a lane for each, the first one for that in which the capture began.
struct Graph {
  // So many nodes of a lane have been done.
  struct Point {
    size_t lane;
    size_t num_nodes;
  };
  // Work, or what the nodes behind it wait for, or work of several lanes together.
  using Node = std::variant<CUstream_st::Operation, Point, std::shared_ptr<Collective>>;
  using Lane = std::vector<Node>;

  std::vector<Lane> lanes = std::vector<Lane>(1);
  bool is_open = true;     // the capture goes on
  bool is_broken = false;  // it has met a call that cannot be captured

  Point end_of(size_t lane) const { return {lane, lanes[lane].size()}; }
  // Whether the first lane waits for the ends of all others.
  bool is_joined() const;
  bool has_collective_of(const void* owner) const;
  // Runs the lanes in an order that the seed decides.
  void run(uint64_t order_seed) const;

 private:
  // The lanes whose next node is that of this one, if it can run: the lane itself, or those of a collective.
  std::vector<size_t> ready_with(size_t lane, const std::vector<size_t>& num_done) const;
  const Node* next_of(size_t lane, const std::vector<size_t>& num_done) const {
    return num_done[lane] < lanes[lane].size() ? &lanes[lane][num_done[lane]] : nullptr;
  }
};

}  // namespace runnel::emulator

struct CUevent_st {
  bool has_time;
  int device;
  std::shared_ptr<runnel::emulator::Mark> last;  // nullptr: never recorded, or in a capture
  // Where it was recorded in a capture.
  std::shared_ptr<runnel::emulator::Graph> captured = nullptr;
  runnel::emulator::Graph::Point point = {};
};

struct CUgraph_st {
  std::shared_ptr<runnel::emulator::Graph> graph;
};

struct CUgraphExec_st {
  std::shared_ptr<const runnel::emulator::Graph> graph;
  int device;
};
