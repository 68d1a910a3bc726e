#include "cuda-runner/emulator/stream.h"

#include <utility>

#include "cuda-runner/emulator/fault.h"
#include "cuda-runner/emulator/random.h"

using runnel::emulator::device_error;
using runnel::emulator::kMaxQueued;

void CUstream_st::add(Operation operation) {
  if (captured != nullptr) {
    captured->lanes[lane].emplace_back(std::move(operation));
    return;
  }
  queue_.push_back(std::move(operation));
  if (queue_.size() > kMaxQueued) run_one();
}

// On a lost device the operation is dropped.
void CUstream_st::run_one() {
  const Operation operation = std::move(queue_.front());
  queue_.pop_front();
  if (device_error() == cudaSuccess) operation();
}

void CUstream_st::run_all() {
  while (!queue_.empty()) run_one();
}

void CUstream_st::run_until(const runnel::emulator::Mark& mark) {
  while (!mark.is_reached && !queue_.empty()) run_one();
}

namespace runnel::emulator {

bool Graph::is_joined() const {
  // Of each lane, the nodes that have been done when the first lane is done.
  std::vector<size_t> num_done(lanes.size());
  std::vector<Point> awaited = {end_of(0)};
  while (!awaited.empty()) {
    const Point point = awaited.back();
    awaited.pop_back();
    for (; num_done[point.lane] < point.num_nodes; ++num_done[point.lane]) {
      if (const auto* wait = std::get_if<Point>(&lanes[point.lane][num_done[point.lane]]))
        awaited.push_back(*wait);
    }
  }
  for (size_t lane = 0; lane < lanes.size(); ++lane)
    if (num_done[lane] < lanes[lane].size()) return false;
  return true;
}

void Graph::run(uint64_t order_seed) const {
  Random random(order_seed);
  std::vector<size_t> num_done(lanes.size());
  const auto may_go_on = [&](size_t lane) {
    if (num_done[lane] == lanes[lane].size()) return false;
    const auto* wait = std::get_if<Point>(&lanes[lane][num_done[lane]]);
    return wait == nullptr || num_done[wait->lane] >= wait->num_nodes;
  };
  while (device_error() == cudaSuccess) {
    std::vector<size_t> ready;
    for (size_t lane = 0; lane < lanes.size(); ++lane)
      if (may_go_on(lane)) ready.push_back(lane);
    if (ready.empty()) return;
    const size_t chosen = ready[random.next() % ready.size()];
    const Node& node = lanes[chosen][num_done[chosen]++];
    if (const auto* operation = std::get_if<CUstream_st::Operation>(&node)) (*operation)();
  }
}

}  // namespace runnel::emulator
