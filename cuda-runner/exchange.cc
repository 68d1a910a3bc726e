#include "cuda-runner/exchange.h"

#include <algorithm>

#include "runner/check.h"

namespace runnel {

Result<void> Exchange::allocate_pieces(uint32_t rank, size_t piece) {
  return allocate("what NCCL gathers", Wanted{ranks_[rank].pieces, ranks_.size() * piece});
}

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
  if (uses_nccl()) return gather_by_nccl(shares, num_rows, own, all);
  meet();
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    for (uint32_t other = 0; other < ranks_.size(); ++other) {
      const DeviceColumns to = all(rank).from(shares[other].first);
      const DeviceColumns from = own(other);
      if (to != from) copy(rank, to, from, shares[other].count, num_rows);
    }
  }
}

// NCCL gathers pieces of one size, each without gaps. One row of equal shares is gathered where it is wanted.
// Otherwise each rank copies its columns to its piece, and from the pieces of the others.
void Exchange::gather_by_nccl(std::span<const RowRange> shares, uint32_t num_rows,
                              const std::function<DeviceColumns(uint32_t rank)>& own,
                              const std::function<DeviceColumns(uint32_t rank)>& all) {
  const uint32_t width = std::ranges::max(shares, {}, &RowRange::count).count;
  const size_t piece = size_t{width} * num_rows;
  bool is_in_place = num_rows == 1;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
    is_in_place &= shares[rank] == RowRange{rank * width, width};
  std::vector<NcclClique::Part> parts;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& of = ranks_[rank];
    if (is_in_place) {
      parts.push_back({own(rank).data(), all(rank).data(), of.stream});
      continue;
    }
    CHECK(ranks_.size() * piece <= of.pieces.size());
    const DeviceColumns in_pieces{&ranks_[rank].pieces, shares[rank].count, rank * piece};
    copy(rank, in_pieces, own(rank), shares[rank].count, num_rows);
    parts.push_back({in_pieces.data(), ranks_[rank].pieces.data(), of.stream});
  }
  nccl_->all_gather(parts, piece);
  if (is_in_place) return;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    for (uint32_t other = 0; other < ranks_.size(); ++other) {
      const RowRange& share = shares[other];
      const DeviceColumns to = all(rank).from(share.first);
      const DeviceColumns from =
          other == rank ? own(rank) : DeviceColumns{&ranks_[rank].pieces, share.count, other * piece};
      if (to != from) copy(rank, to, from, share.count, num_rows);
    }
  }
}

}  // namespace runnel
