// Work that several streams do together, as a collective of NCCL is: a stream that reaches it waits until all
// of them have.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda-runner/emulator/stream.h"

namespace runnel::emulator {

class Collective {
 public:
  // name: for messages about faults. owner: whose collective it is.
  Collective(std::string name, const void* owner, size_t num_ranks)
      : name_(std::move(name)), owner_(owner), ranks_(num_ranks) {}

  // Gives a rank's part to its stream, or to the graph that is captured from the stream. The other parts must
  // be captured into the same one.
  static void give(const std::shared_ptr<Collective>& collective, size_t rank, CUstream_st& stream,
                   CUstream_st::Operation part);
  size_t num_ranks() const { return ranks_.size(); }
  const std::string& name() const { return name_; }
  const void* owner() const { return owner_; }
  // Does all parts.
  void run() const;

 private:
  struct Rank {
    CUstream_st* stream = nullptr;  // null: it was not given its part
    CUstream_st::Operation part;
    bool is_here = false;
  };
  // Called by the stream of a rank. Runs the other streams until they are here too.
  void reach(size_t rank);

  const std::string name_;
  const void* const owner_;
  std::vector<Rank> ranks_;
  const Graph* graph_ = nullptr;  // that captures the parts
  bool is_given_ = false;
  bool is_done_ = false;
};

}  // namespace runnel::emulator
