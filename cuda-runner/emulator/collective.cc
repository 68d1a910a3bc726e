#include "cuda-runner/emulator/collective.h"

#include "cuda-runner/emulator/fault.h"

namespace runnel::emulator {

void Collective::give(const std::shared_ptr<Collective>& collective, size_t rank, CUstream_st& stream,
                      CUstream_st::Operation part) {
  const Graph* const graph = stream.captured.get();
  if (std::exchange(collective->is_given_, true) && collective->graph_ != graph) {
    lose_device(cudaErrorStreamCaptureIsolation,
                collective->name_ + " is captured from the streams of some ranks only, or into two graphs.");
    return;
  }
  collective->graph_ = graph;
  collective->ranks_[rank].stream = &stream;
  collective->ranks_[rank].part = std::move(part);
  if (graph != nullptr) {
    stream.captured->lanes[stream.lane].emplace_back(collective);
  } else {
    stream.add([collective, rank] { collective->reach(rank); });
  }
}

void Collective::run() const {
  for (const Rank& rank : ranks_) rank.part();
}

void Collective::reach(size_t rank) {
  ranks_[rank].is_here = true;
  for (size_t other = 0; other < ranks_.size(); ++other) {
    CUstream_st* const stream = ranks_[other].stream;
    if (stream == nullptr) {
      lose_device(cudaErrorLaunchTimeout, "A deadlock: " + name_ + " waits for rank " +
                                              std::to_string(other) + ", which was not given it.");
    }
    while (device_error() == cudaSuccess && !ranks_[other].is_here) stream->run_one();
  }
  if (device_error() == cudaSuccess && !std::exchange(is_done_, true)) run();
}

}  // namespace runnel::emulator
