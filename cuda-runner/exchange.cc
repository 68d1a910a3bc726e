#include "cuda-runner/exchange.h"

namespace runnel {

void Exchange::wait(Rank& rank, Rank& other) {
  if (&rank != &other) rank.stream->wait(other.reached);
}

void Exchange::meet() {
  if (ranks_.size() == 1) return;
  for (Rank& rank : ranks_) rank.reached.record(*rank.stream);
  for (Rank& rank : ranks_)
    for (Rank& other : ranks_) wait(rank, other);
}

void Exchange::follow_first() {
  if (ranks_.size() == 1) return;
  ranks_.front().reached.record(*ranks_.front().stream);
  for (Rank& rank : ranks_) wait(rank, ranks_.front());
}

void Exchange::first_follows() {
  for (Rank& other : std::span(ranks_).subspan(1)) {
    other.reached.record(*other.stream);
    wait(ranks_.front(), other);
  }
}

void Exchange::copy(uint32_t to_rank, const DeviceColumns& to, const DeviceColumns& from, uint32_t width,
                    uint32_t num_rows) {
  ranks_[to_rank].stream->copy_rows(*to.rows, to.first, to.stride, *from.rows, from.first, from.stride, width,
                                    num_rows);
}

void Exchange::gather(std::span<const RowRange> shares, uint32_t num_rows,
                      const std::function<DeviceColumns(uint32_t rank)>& own,
                      const std::function<DeviceColumns(uint32_t rank)>& all) {
  if (ranks_.size() == 1) return;
  meet();
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    for (uint32_t other = 0; other < ranks_.size(); ++other) {
      const DeviceColumns to = all(rank).from(shares[other].first);
      const DeviceColumns from = own(other);
      if (to != from) copy(rank, to, from, shares[other].count, num_rows);
    }
  }
}

}  // namespace runnel
