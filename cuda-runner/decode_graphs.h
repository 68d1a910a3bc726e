// Forward passes of batches in which every sequence has one row, captured once for each of a few numbers of
// rows and launched for all batches that fill up to one of them. As in nano-vLLM's model runner, but captured
// when first met, so that starting does not wait for them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "cuda-runner/device/graph.h"
#include "cuda-runner/device/stream.h"

namespace runnel {

// 1, 2, 4, 8, then every 16 up to here.
inline constexpr uint32_t kMaxGraphRows = 512;

class DecodeGraphs {
 public:
  // The least number of rows there is a graph for that holds so many; none: too many rows.
  static std::optional<uint32_t> padded_rows(uint32_t num_rows);

  const Graph* find(uint32_t num_rows) const {
    const auto found = graphs_.find(num_rows);
    return found == graphs_.end() ? nullptr : &found->second;
  }
  void add(uint32_t num_rows, Graph graph) { graphs_.insert_or_assign(num_rows, std::move(graph)); }
  // What they point to is about to go.
  void clear() { graphs_.clear(); }

 private:
  std::map<uint32_t, Graph> graphs_;
};

}  // namespace runnel
