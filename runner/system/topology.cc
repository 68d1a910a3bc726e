#include "runner/system/topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "runner/system/affinity.h"

namespace runnel {
namespace {

// Takes a number off the front of the text.
std::optional<uint32_t> take_number(std::string_view& text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// Numbers such as "0-3,8", ascending. Nothing for anything else.
std::optional<std::vector<uint32_t>> parse_list(std::string_view text) {
  std::vector<uint32_t> numbers;
  while (!text.empty()) {
    const std::optional<uint32_t> first = take_number(text);
    std::optional<uint32_t> last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      last = take_number(text);
    }
    if (!first || !last || *first > *last || *last >= kMaxProcessors) return std::nullopt;
    if (!numbers.empty() && *first <= numbers.back()) return std::nullopt;
    for (uint32_t number = *first; number <= *last; ++number) numbers.push_back(number);
    if (text.empty()) break;
    if (!text.starts_with(',') || text.size() == 1) return std::nullopt;
    text.remove_prefix(1);
  }
  return numbers;
}

std::optional<std::vector<uint32_t>> read_list(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return parse_list(line);
}

// All of the processors, if the kernel does not tell the siblings of each.
uint32_t num_cores_of(std::span<const uint32_t> processors, const std::string& system) {
  std::set<uint32_t> cores;
  for (const uint32_t processor : processors) {
    const std::string folder = system + "cpu/cpu" + std::to_string(processor);
    const auto siblings = read_list(folder + "/topology/thread_siblings_list");
    if (!siblings || !std::ranges::binary_search(*siblings, processor))
      return static_cast<uint32_t>(processors.size());
    cores.insert(siblings->front());
  }
  return static_cast<uint32_t>(cores.size());
}

// Nothing if the kernel does not tell nodes that have each of the processors once.
std::optional<std::vector<NumaNode>> read_nodes(std::span<const uint32_t> processors,
                                                const std::string& system) {
  const auto online = read_list(system + "node/online");
  if (!online) return std::nullopt;
  std::vector<NumaNode> nodes;
  std::vector<uint32_t> all;
  for (const uint32_t number : *online) {
    const auto listed = read_list(system + "node/node" + std::to_string(number) + "/cpulist");
    if (!listed) return std::nullopt;
    std::vector<uint32_t> own;
    std::ranges::set_intersection(*listed, processors, std::back_inserter(own));
    if (own.empty()) continue;
    all.insert(all.end(), own.begin(), own.end());
    const uint32_t num_cores = num_cores_of(own, system);
    nodes.push_back({num_cores, std::move(own)});
  }
  std::ranges::sort(all);
  if (!std::ranges::equal(all, processors)) return std::nullopt;
  return nodes;
}

}  // namespace

uint32_t Topology::num_cores() const {
  uint32_t sum = 0;
  for (const NumaNode& node : nodes) sum += node.num_cores;
  return sum;
}

Topology read_topology(std::span<const uint32_t> processors, const std::string& root) {
  if (processors.empty()) {
    const uint32_t num_processors = std::max(1u, std::thread::hardware_concurrency());
    return Topology{.nodes = {NumaNode{.num_cores = num_processors, .processors = {}}}};
  }
  const std::string system = root + "/sys/devices/system/";
  if (auto nodes = read_nodes(processors, system)) return Topology{.nodes = *std::move(nodes)};
  return Topology{.nodes = {NumaNode{.num_cores = num_cores_of(processors, system),
                                     .processors = {processors.begin(), processors.end()}}}};
}

Topology read_topology() {
  return read_topology(allowed_processors());
}

}  // namespace runnel
