// The graphs of forward passes in which every sequence has one row. There is one graph for each of a few
// numbers of rows; a batch is padded to the next of these numbers. nano-vLLM's model runner works the same
// way; here a graph is captured when its number of rows first occurs, so that the start does not wait for it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "cuda-runner/device/graph.h"
#include "cuda-runner/device/stream.h"

namespace runnel {

// Graphs have 1, 2, 4, 8, 16, 32, 48, ... rows, up to this number.
inline constexpr uint32_t kMaxGraphRows = 512;

class DecodeGraphs {
 public:
  // The number of rows that a batch of num_rows rows is padded to. Nothing if num_rows is 0 or above
  // kMaxGraphRows.
  static std::optional<uint32_t> padded_rows(uint32_t num_rows);

  // The number of graphs with at most this many rows.
  static uint32_t num_sizes(uint32_t max_rows);

  const Graph* find(uint32_t num_rows) const {
    const auto found = graphs_.find(num_rows);
    return found == graphs_.end() ? nullptr : &found->second;
  }
  void add(uint32_t num_rows, Graph graph) { graphs_.insert_or_assign(num_rows, std::move(graph)); }
  // Must be called before the memory that the graphs use is freed.
  void clear() { graphs_.clear(); }

 private:
  std::map<uint32_t, Graph> graphs_;
};

}  // namespace runnel
