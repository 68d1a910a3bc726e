#include "cuda-runner/emulator/stream.h"

#include <algorithm>
#include <utility>

#include "cuda-runner/emulator/collective.h"
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
  if (device_error() != cudaSuccess) return;
  // What it runs may run other streams, which it waits for.
  if (std::exchange(is_running_, true)) {
    runnel::emulator::lose_device(cudaErrorLaunchTimeout,
                                  "A deadlock: a stream of device " + std::to_string(device) +
                                      " waits for a stream that waits for what comes later in the first.");
    return;
  }
  operation();
  is_running_ = false;
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

bool Graph::has_collective_of(const void* owner) const {
  return std::ranges::any_of(lanes, [&](const Lane& lane) {
    return std::ranges::any_of(lane, [&](const Node& node) {
      const auto* collective = std::get_if<std::shared_ptr<Collective>>(&node);
      return collective != nullptr && (*collective)->owner() == owner;
    });
  });
}

std::vector<size_t> Graph::ready_with(size_t lane, const std::vector<size_t>& num_done) const {
  const Node* const next = next_of(lane, num_done);
  if (next == nullptr) return {};
  if (const auto* wait = std::get_if<Point>(next))
    return num_done[wait->lane] < wait->num_nodes ? std::vector<size_t>() : std::vector{lane};
  const auto* collective = std::get_if<std::shared_ptr<Collective>>(next);
  if (collective == nullptr) return {lane};
  std::vector<size_t> there;
  for (size_t other = 0; other < lanes.size(); ++other) {
    const Node* const its = next_of(other, num_done);
    const auto* same = its == nullptr ? nullptr : std::get_if<std::shared_ptr<Collective>>(its);
    if (same != nullptr && *same == *collective) there.push_back(other);
  }
  return there.size() == (*collective)->num_ranks() ? there : std::vector<size_t>();
}

void Graph::run(uint64_t order_seed) const {
  Random random(order_seed);
  std::vector<size_t> num_done(lanes.size());
  while (device_error() == cudaSuccess) {
    std::vector<std::vector<size_t>> ready;
    for (size_t lane = 0; lane < lanes.size(); ++lane)
      if (auto with = ready_with(lane, num_done); !with.empty()) ready.push_back(std::move(with));
    if (ready.empty()) break;
    const std::vector<size_t>& chosen = ready[random.next() % ready.size()];
    const Node& node = *next_of(chosen.front(), num_done);
    for (const size_t lane : chosen) ++num_done[lane];
    if (const auto* operation = std::get_if<CUstream_st::Operation>(&node)) (*operation)();
    if (const auto* collective = std::get_if<std::shared_ptr<Collective>>(&node)) (*collective)->run();
  }
  for (size_t lane = 0; lane < lanes.size() && device_error() == cudaSuccess; ++lane) {
    const Node* const waits = next_of(lane, num_done);
    const auto* collective = waits == nullptr ? nullptr : std::get_if<std::shared_ptr<Collective>>(waits);
    if (collective != nullptr)
      lose_device(cudaErrorLaunchTimeout,
                  "A deadlock in a graph: not all ranks can reach " + (*collective)->name() + ".");
  }
}

}  // namespace runnel::emulator
