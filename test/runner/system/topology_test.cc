#include "runner/system/topology.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <random>

#include "runner/system/affinity.h"
#include "test/fixtures/temporary_folder.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

// Contents by path below /sys/devices/system.
using Files = std::map<std::string, std::string>;

// The files of a kernel with these processors in its nodes, and with these siblings.
Files files_of(const std::string& online, const std::map<uint32_t, std::string>& nodes,
               const std::vector<std::string>& siblings) {
  Files files = {{"node/online", online}};
  for (const auto& [node, list] : nodes) files["node/node" + std::to_string(node) + "/cpulist"] = list;
  for (size_t i = 0; i < siblings.size(); ++i)
    files["cpu/cpu" + std::to_string(i) + "/topology/thread_siblings_list"] = siblings[i];
  return files;
}

Topology topology_with(const Files& files, const std::vector<uint32_t>& processors) {
  const test::TemporaryFolder folder;
  for (const auto& [path, content] : files) {
    const std::filesystem::path file = folder.path() + "/sys/devices/system/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content << '\n';
  }
  return read_topology(processors, folder.path());
}

std::vector<uint32_t> first_numbers(uint32_t count) {
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

// "cores: processors" of each node.
std::string text_of(const Topology& topology) {
  std::string text;
  for (const NumaNode& node : topology.nodes) {
    text += (text.empty() ? "" : "; ") + std::to_string(node.num_cores) + ":";
    for (const uint32_t processor : node.processors) text += " " + std::to_string(processor);
  }
  return text;
}

// Two sockets of 4 cores with two threads each.
const Files kTwoSockets = files_of("0-1", {{0, "0-3,8-11"}, {1, "4-7,12-15"}},
                                   {"0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15", "0,8",
                                    "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"});
// One socket of 2 cores, whose threads have neighbouring numbers.
const Files kOneSocket = files_of("0", {{0, "0-3"}}, {"0-1", "0-1", "2-3", "2-3"});
// A socket of four nodes.
const Files kFourNodes = files_of("0-3", {{0, "0-1"}, {1, "2-3"}, {2, "4-5"}, {3, "6-7"}},
                                  {"0", "1", "2", "3", "4", "5", "6", "7"});
// Nodes of memory alone, whose numbers do not follow those of the others.
const Files kMemoryNodes =
    files_of("0-1,8,10", {{0, "0-1"}, {1, ""}, {8, "2-3"}, {10, ""}}, {"0", "1", "2", "3"});

}  // namespace

TEST_CASE("topology: nodes and cores are those that the kernel tells") {
  CHECK(text_of(topology_with(kTwoSockets, first_numbers(16))) ==
        "4: 0 1 2 3 8 9 10 11; 4: 4 5 6 7 12 13 14 15");
  CHECK(text_of(topology_with(kOneSocket, first_numbers(4))) == "2: 0 1 2 3");
  CHECK(text_of(topology_with(kFourNodes, first_numbers(8))) == "2: 0 1; 2: 2 3; 2: 4 5; 2: 6 7");
  CHECK(text_of(topology_with(kMemoryNodes, first_numbers(4))) == "2: 0 1; 2: 2 3");
  CHECK(topology_with(kTwoSockets, first_numbers(16)).num_cores() == 8);
}

TEST_CASE(
    "topology: a node without memory for this process has none of its own, and its cores are another's") {
  const auto text_with = [](const Files& files, uint32_t num_processors, const std::string& memory) {
    Files all = files;
    all["../../../proc/self/status"] = "Name:\ttest\nMems_allowed:\tff\nMems_allowed_list:\t" + memory;
    return text_of(topology_with(all, first_numbers(num_processors)));
  };
  CHECK(text_with(kTwoSockets, 16, "0") == "8: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
  CHECK(text_with(kTwoSockets, 16, "0-1") == "4: 0 1 2 3 8 9 10 11; 4: 4 5 6 7 12 13 14 15");
  CHECK(text_with(kFourNodes, 8, "1,3") == "6: 0 1 2 3 4 5; 2: 6 7");
  // No node of the processors has memory, or the kernel's line is not understood.
  CHECK(text_with(kFourNodes, 8, "7") == "2: 0 1; 2: 2 3; 2: 4 5; 2: 6 7");
  CHECK(text_with(kFourNodes, 8, "all") == "2: 0 1; 2: 2 3; 2: 4 5; 2: 6 7");
}

TEST_CASE("topology: only processors that may be used count, and nodes and cores that have some") {
  CHECK(text_of(topology_with(kTwoSockets, {4, 5, 12, 13})) == "2: 4 5 12 13");
  CHECK(text_of(topology_with(kTwoSockets, {3, 8, 9, 15})) == "3: 3 8 9; 1: 15");
  CHECK(text_of(topology_with(kFourNodes, {6, 7})) == "2: 6 7");
  CHECK(text_of(topology_with(kFourNodes, {1, 6})) == "1: 1; 1: 6");
}

TEST_CASE("topology: where the kernel tells nothing there is one node, and each processor is a core") {
  CHECK(text_of(topology_with({}, first_numbers(4))) == "4: 0 1 2 3");
  // Nodes, but no cores; cores, but no nodes.
  CHECK(text_of(topology_with(files_of("0-1", {{0, "0-1"}, {1, "2-3"}}, {}), first_numbers(4))) ==
        "2: 0 1; 2: 2 3");
  CHECK(text_of(topology_with({{"cpu/cpu0/topology/thread_siblings_list", "0-1"},
                               {"cpu/cpu1/topology/thread_siblings_list", "0-1"}},
                              {0, 1})) == "1: 0 1");
  // The system does not tell which processors may be used.
  const Topology unknown = topology_with(kTwoSockets, {});
  REQUIRE(unknown.nodes.size() == 1);
  CHECK(unknown.num_cores() >= 1);
  CHECK(unknown.nodes[0].processors.empty());
}

TEST_CASE("topology: nodes that do not have each processor once are not believed") {
  const auto of_nodes = [](const std::string& online, const std::map<uint32_t, std::string>& nodes) {
    return text_of(topology_with(files_of(online, nodes, {}), first_numbers(4)));
  };
  const std::string one = "4: 0 1 2 3";
  CHECK(of_nodes("0-1", {{0, "0-1"}, {1, "2"}}) == one);      // 3 is missing
  CHECK(of_nodes("0-1", {{0, "0-2"}, {1, "2-3"}}) == one);    // 2 is there twice
  CHECK(of_nodes("0-1", {{0, "0-1,3"}, {1, "1-2"}}) == one);  // as many as there are, but not the same
  CHECK(of_nodes("0-1", {{0, "0-3"}}) == one);                // node 1 has no file
  CHECK(of_nodes("1", {{0, "0-3"}, {1, ""}}) == one);
}

TEST_CASE("topology: a file that is malformed counts as missing") {
  for (const std::string bad : {"",        "x",          "-",
                                "-1",      "1-",         "0-x",
                                "3-0",     "0,,1",       ",0",
                                "0,",      "0-1,1-3",    "2,1",
                                "0 1",     "0-3 ",       "0-4294967295",
                                "0-65536", "4294967296", "99999999999999999999",
                                "0x1",     "+1",         "0-1-2",
                                "\x01\xff"}) {
    CAPTURE(bad);
    CHECK(text_of(topology_with(files_of(bad, {{0, "0-1"}, {1, "2-3"}}, {}), first_numbers(4))) ==
          "4: 0 1 2 3");
    // An empty list is one of a node without processors.
    if (bad.empty()) continue;
    CHECK(text_of(topology_with(files_of("0-1", {{0, "0-1"}, {1, bad}}, {}), first_numbers(4))) ==
          "4: 0 1 2 3");
    CHECK(text_of(topology_with(files_of("0", {{0, "0-1"}}, {"0-1", bad}), {0, 1})) == "2: 0 1");
  }
  // Siblings without the processor itself.
  CHECK(text_of(topology_with(files_of("0", {{0, "0-1"}}, {"0-1", "2-3"}), {0, 1})) == "2: 0 1");
}

TEST_CASE("topology: random bytes in files never end the process, and lose no processor") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 rng(seed);
  for (int round = 0; round < 300; ++round) {
    Files files = kTwoSockets;
    for (uint32_t i = 0; i < 1 + rng() % 3; ++i) {
      auto file = std::next(files.begin(), rng() % files.size());
      static constexpr std::string_view kBytes = "0123456789,-- \nx";
      std::string& content = file->second;
      for (uint32_t change = 0; change < 1 + rng() % 4; ++change)
        content.insert(rng() % (content.size() + 1), 1, kBytes[rng() % kBytes.size()]);
      if (rng() % 4 == 0) content.resize(rng() % (content.size() + 1));
    }
    const Topology topology = topology_with(files, first_numbers(16));
    std::vector<uint32_t> all;
    for (const NumaNode& node : topology.nodes) {
      CHECK(node.num_cores >= 1);
      CHECK(node.num_cores <= node.processors.size());
      all.insert(all.end(), node.processors.begin(), node.processors.end());
    }
    std::ranges::sort(all);
    CHECK(all == first_numbers(16));
  }
}

TEST_CASE("topology: that of this machine has the processors that this thread may use") {
  const Topology topology = read_topology();
  CHECK(topology.num_cores() >= 1);
  std::vector<uint32_t> all;
  for (const NumaNode& node : topology.nodes)
    all.insert(all.end(), node.processors.begin(), node.processors.end());
  std::ranges::sort(all);
  CHECK(all == allowed_processors());
}

}  // namespace runnel
