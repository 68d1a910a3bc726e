// What the devices that compute a model together give each other. Each has a stream, and all work of a step
// is given to the streams by one thread. A device copies what it needs from the others' memory, after it has
// waited for what they have been given before: an exchange is a wait of all streams for each other, and then
// copies. Its order is that of the calls, so no two devices can wait for each other for ever.
//
// What a device has given must not be written again before the others have read it. They have when the device
// meets them the next time: each exchange begins with a meeting, and nothing is given in two exchanges that
// follow each other.
//
// With NCCL gathers are its all-gathers, which are meetings too: a device goes on when it has what all others
// give, so they have begun, and have done all that came before. What it gives has then been read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/event.h"
#include "cuda-runner/device/nccl.h"
#include "cuda-runner/device/stream.h"
#include "runner/ranks/shard_plan.h"

namespace runnel {

// Columns of rows in the memory of a device.
struct DeviceColumns {
  DeviceBuffer<float>* rows;  // (rows, stride)
  uint32_t stride;
  size_t first;

  DeviceColumns from(uint32_t column) const { return {rows, stride, first + column}; }
  float* data() const { return rows->data() + first; }
  bool operator==(const DeviceColumns&) const = default;
};

class Exchange {
 public:
  // Adds a rank, whose device must be current. The stream must outlive this.
  void add(Stream& stream) { ranks_.emplace_back(&stream); }
  // Has gather() use NCCL.
  void use(std::unique_ptr<const NcclClique> nccl) { nccl_ = std::move(nccl); }
  bool uses_nccl() const { return nccl_ != nullptr; }
  // With NCCL: allocates a rank's memory for pieces of so many floats, of which it has one for each rank. Its
  // device must be current. Fails with kSystem.
  Result<void> allocate_pieces(uint32_t rank, size_t piece);
  // Bytes of the memory of a rank that this takes.
  uint64_t pieces_bytes(size_t piece) const { return device_bytes(ranks_.size() * piece, sizeof(float)); }

  // What is given to any stream from now on waits for what was given to any of them before.
  void meet();
  // Makes the others wait for the first stream, or the first one for the others.
  void follow_first();
  void first_follows();

  // Copies to columns of rows on one rank from those on another, both with `width` columns.
  void copy(uint32_t to_rank, const DeviceColumns& to, const DeviceColumns& from, uint32_t width,
            uint32_t num_rows);
  // Gives each rank the columns of all. shares: the columns that each rank has. own: where it has them; all:
  // where it gets them; the two may be the same memory. With NCCL, the largest share of all rows must fit
  // into a piece.
  void gather(std::span<const RowRange> shares, uint32_t num_rows,
              const std::function<DeviceColumns(uint32_t rank)>& own,
              const std::function<DeviceColumns(uint32_t rank)>& all);

 private:
  struct Rank {
    explicit Rank(Stream* of) : stream(of) {}
    Stream* stream;
    Event reached;
    DeviceBuffer<float> pieces;
  };
  void wait(Rank& rank, Rank& other);
  void gather_by_nccl(std::span<const RowRange> shares, uint32_t num_rows,
                      const std::function<DeviceColumns(uint32_t rank)>& own,
                      const std::function<DeviceColumns(uint32_t rank)>& all);

  std::vector<Rank> ranks_;
  std::unique_ptr<const NcclClique> nccl_;  // null: gathers are copies
};

}  // namespace runnel
