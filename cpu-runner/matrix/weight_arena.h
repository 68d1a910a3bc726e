// The memory of all weights, taken piece by piece from one mapping of huge pages. The page table stays short,
// and there are no gaps between matrices. The memory is the process's own, or a file in memory, which one
// process packs and seals and others map:
//
//   header      WeightsHeader, filled up with zeros to kHeaderBytes
//   pieces      in the order in which they are taken; each begins at a multiple of kAlignment
//
// Those who take the same pieces in the same order find them at the same places, so no table is needed.
//
// The places do not depend on NUMA nodes, but the memory does: a page comes from the node whose thread writes
// to it first. A page of two nodes' parts comes from either. Weights that another process has packed lie
// where the threads of that one have put them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu-runner/thread_pool.h"
#include "runner/result.h"
#include "runner/system/memory.h"
#include "runner/system/memory_file.h"

namespace runnel {

// Changes with the layout of tiles (matrix.h), with the order in which weights are taken and with the header.
inline constexpr uint32_t kWeightsLayout = 2;

struct WeightsHeader {
  char magic[8];
  uint32_t layout;
  uint32_t identity_bytes;
  char identity[304];    // of the model, see ModelFile::identity()
  uint64_t num_bytes;    // of header and pieces
  uint64_t fingerprint;  // of names and sizes of all pieces, in order
};

class WeightArena {
 public:
  // Memory of its own.
  WeightArena() = default;
  // Memory in the file, which must be empty or sealed by the process that packed it. Both must outlive this.
  WeightArena(MemoryFile& shared, ThreadPool& threads) : shared_(&shared), threads_(&threads) {}

  // Maps memory for this many bytes of tensors, with room for the rows and planes that tiles are filled up
  // with. identity: of the model. Fails with kSystem, and with kTryAgain if a sealed file does not hold the
  // weights of this model in this layout. If the system has no file in memory of this size, the process gets
  // memory of its own, and stderr says why.
  Result<void> expect(uint64_t tensor_bytes, const std::string& identity);

  // Returns bytes, aligned to kAlignment, that live as long as the arena: zeroed ones, or those that are
  // filled. num_sections: those of which each node has a part (node_parts.h). Maps more memory if expect()
  // was told too little. Fails with kSystem, and with kTryAgain if a sealed file ends before; purpose ends
  // the sentence "... bytes for <purpose>".
  Result<std::byte*> take(uint64_t bytes, const std::string& purpose, uint32_t num_sections = 1);

  // Whether the bytes have been packed by another process, and must not be written to.
  bool is_filled() const { return shared_ != nullptr && shared_->is_sealed(); }

  // Called after the last take. Seals a file that this process has packed; if that is refused, stderr says
  // why, and the file stays this process's own. Fails with kTryAgain if a sealed file holds other pieces than
  // those that were taken.
  Result<void> finish();
  // What take(bytes) adds to bytes().
  static uint64_t bytes_taken(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  // Bytes taken so far.
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr uint64_t kAlignment = 64;
  static constexpr uint64_t kHeaderBytes = 4096;

  struct Segment {
    Memory memory;    // empty in a sealed file, which is mapped as a whole
    uint64_t offset;  // in the file
    uint64_t bytes;
  };

  Result<void> add_segment(uint64_t bytes, const std::string& purpose);
  Result<void> map_sealed(const std::string& identity);
  // What was taken last: its place in the last segment, and the bytes of a section.
  struct Piece {
    uint64_t begin;
    uint64_t end;
    uint64_t section_bytes;
  };
  Result<void> provide_pages(const Piece& piece);
  void seal();
  void fill_page_table(const std::byte* data, uint64_t num_bytes);
  Error refusal(const std::string& fault) const;

  MemoryFile* shared_ = nullptr;
  ThreadPool* threads_ = nullptr;
  std::vector<Segment> segments_;
  uint64_t num_taken_ = 0;           // bytes of the last segment
  uint64_t num_expected_ = 0;        // bytes of the last segment that are sure to be taken
  uint64_t num_provided_ = 0;        // bytes of the last segment that have pages
  uint64_t num_in_small_pages_ = 0;  // bytes at most, of those that huge pages were refused for
  uint64_t bytes_ = 0;
  uint64_t fingerprint_ = 0;
  std::string identity_;
  Memory sealed_;  // a sealed file
};

}  // namespace runnel
