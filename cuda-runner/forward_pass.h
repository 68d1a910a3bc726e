// The current forward pass, and how its operations are executed: each is launched, or captured into a graph,
// or a graph of an earlier pass replaces all of them, or all rows have been computed ahead.
#pragma once

#include <cstdint>
#include <optional>

#include "cuda-runner/decode_graphs.h"
#include "cuda-runner/device/graph.h"
#include "cuda-runner/device/stream.h"
#include "cuda-runner/exchange.h"
#include "runner/backend/batch.h"
#include "runner/check.h"

namespace runnel {

class ForwardPass {
 public:
  // enforce_eager: each operation of each pass is launched.
  explicit ForwardPass(bool enforce_eager) : enforce_eager_(enforce_eager) {}

  // Plans the next pass. The batch must live until end(), and has at most max_rows rows. The caller sends
  // its rows, if there are any, to the device between plan() and begin().
  void plan(const Batch& batch, uint32_t max_rows);
  // first: the stream of the first rank. Operations are given to the streams of all; a graph has the work of
  // all, and is launched by the first. Before anything else is given to the others, they must meet it.
  void begin(const Stream& first, Exchange& exchange);
  // The batch may have lost rows since begin(). If it has none left, the result is not needed.
  void end(const Stream& first, Exchange& exchange);

  // The rows of the pass, including those that fill it up to the rows of a graph.
  uint32_t num_rows() const { return num_rows_; }
  // The rows that an operation of this pass computes. The batch may have lost rows since the pass began; a
  // graph computes the lost ones too.
  uint32_t num_rows_left() const {
    RUNNEL_CHECK(batch_ != nullptr && batch_->num_rows() <= num_rows_);
    return is_eager() ? batch_->num_rows() : num_rows_;
  }
  // Between two passes, these describe the last one.
  bool is_eager() const { return mode_ == Mode::kEager; }
  // Whether operations have nothing to do.
  bool is_launched_whole() const { return mode_ == Mode::kReplaying || mode_ == Mode::kAhead; }

  // The rows of the graph that computes so many next tokens, if there is one by now.
  std::optional<uint32_t> graph_rows(uint32_t num_rows) const;
  // Computes these rows, which have been sent, as a pass of their own between two passes.
  void replay(uint32_t graph_rows, const Stream& stream) const { graphs_.find(graph_rows)->launch(stream); }

  // Graphs for passes with at most this many rows.
  uint32_t num_graphs(uint32_t max_rows) const {
    return enforce_eager_ ? 0 : DecodeGraphs::num_sizes(max_rows);
  }
  // Must be called before the memory that graphs point to is freed.
  void forget_graphs() { graphs_.clear(); }

 private:
  enum class Mode {
    kEager,      // each operation is launched
    kCapturing,  // each goes into a graph, which is launched by end()
    kReplaying,  // a graph replaces all of them
    kAhead,      // the batch has no rows: all have been computed ahead
  };

  const bool enforce_eager_;
  Mode mode_ = Mode::kEager;
  const Batch* batch_ = nullptr;  // of the current pass; null between passes
  uint32_t num_rows_ = 0;
  // Whether a pass was completed. Some resources are made at first use, which is not possible in a capture.
  bool has_passed_ = false;
  DecodeGraphs graphs_;
  std::optional<GraphCapture> capture_;  // while kCapturing
};

}  // namespace runnel
