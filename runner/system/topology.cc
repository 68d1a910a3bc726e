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

// The nodes whose memory this process may have (cpuset.mems). Nothing if the kernel does not tell.
std::optional<std::vector<uint32_t>> allowed_memory(const std::string& root) {
  constexpr std::string_view kName = "Mems_allowed_list:\t";
  std::ifstream file(root + "/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(kName)) return parse_list(std::string_view(line).substr(kName.size()));
  return std::nullopt;
}

// Without its node's memory a thread has none that is near. Its processors are then those of the first node
// that has memory.
void join_nodes_without_memory(std::vector<NumaNode>& nodes, std::span<const uint32_t> numbers,
                               std::span<const uint32_t> with_memory) {
  const auto has_memory = [&](size_t i) { return std::ranges::binary_search(with_memory, numbers[i]); };
  std::vector<NumaNode> joined;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (has_memory(i)) joined.push_back(nodes[i]);
  if (joined.empty()) return;
  NumaNode& first = joined.front();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (has_memory(i)) continue;
    first.num_cores += nodes[i].num_cores;
    first.processors.insert(first.processors.end(), nodes[i].processors.begin(), nodes[i].processors.end());
  }
  std::ranges::sort(first.processors);
  nodes = std::move(joined);
}

// Nothing if the kernel does not tell nodes that have each of the processors once.
std::optional<std::vector<NumaNode>> read_nodes(std::span<const uint32_t> processors, const std::string& root,
                                                const std::string& system) {
  const auto online = read_list(system + "node/online");
  if (!online) return std::nullopt;
  std::vector<NumaNode> nodes;
  std::vector<uint32_t> numbers;
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
    numbers.push_back(number);
  }
  std::ranges::sort(all);
  if (!std::ranges::equal(all, processors)) return std::nullopt;
  if (const auto with_memory = allowed_memory(root)) join_nodes_without_memory(nodes, numbers, *with_memory);
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
  if (auto nodes = read_nodes(processors, root, system)) return Topology{.nodes = *std::move(nodes)};
  return Topology{.nodes = {NumaNode{.num_cores = num_cores_of(processors, system),
                                     .processors = {processors.begin(), processors.end()}}}};
}

Topology read_topology() {
  return read_topology(allowed_processors());
}

}  // namespace runnel
