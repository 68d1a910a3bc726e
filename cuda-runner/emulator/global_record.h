// The record of one byte of device memory while a kernel runs: which threads wrote and read it last, and
// when. If two threads of a block use one byte and one of them writes, a barrier must lie between the
// accesses, as in shared memory. Of two blocks of a launch, only reads of the last one to arrive at a counter
// are ordered after what others wrote, and only its writes after what others read (arrivals.h).
#pragma once

#include <cstdint>
#include <span>

#include "cuda-runner/emulator/arrivals.h"
#include "cuda-runner/emulator/block.h"
#include "cuda-runner/emulator/device_memory.h"

namespace runnel::emulator {

// The fault of an access, or kNothing if the access is allowed.
enum class Race {
  kNothing,
  kReadAfterWrite,
  kWriteAfterWrite,
  kWriteAfterRead,
  kOtherBlockWrote,
  kOtherBlockRead,
  kReadOnlyAfterWrite,
  kWriteAfterReadOnly,
};

class GlobalRecord {
 public:
  Race read(bool is_read_only) {
    const uint32_t written_ago = ago(written_at_);
    if (is_in_launch(written_ago)) {
      if (is_read_only) return Race::kReadOnlyAfterWrite;
      if (!is_in_block(written_ago) && !was_seen(now.epoch - written_ago)) return Race::kOtherBlockWrote;
      if (written_ago == 0 && !is_before_now(writer_, write_sync_)) return Race::kReadAfterWrite;
    }
    remember_reader(is_read_only);
    return Race::kNothing;
  }

  // is_same: the write does not change the byte. Such a write is no race with another write, because the
  // order of two writes of one value does not matter.
  Race write(bool is_same) {
    const uint32_t written_ago = ago(written_at_);
    if (is_in_launch(written_ago) && !is_same) {
      if (!is_in_block(written_ago)) return Race::kOtherBlockWrote;
      if (written_ago == 0 && !is_before_now(writer_, write_sync_)) return Race::kWriteAfterWrite;
    }
    const uint32_t read_ago = ago(read_at_);
    if (is_in_launch(read_ago)) {
      if ((readers_ & kReadOnly) != 0) return Race::kWriteAfterReadOnly;
      if (!were_seen(other_reads_)) return Race::kOtherBlockRead;
      if (!is_in_block(read_ago) && !was_seen(now.epoch - read_ago)) return Race::kOtherBlockRead;
      if (read_ago == 0 && !is_before_now(reader(), read_sync_)) return Race::kWriteAfterRead;
    }
    written_at_ = static_cast<uint32_t>(now.epoch);
    write_sync_ = sync_now();
    writer_ = now.thread;
    return Race::kNothing;
  }

  // The thread that wrote the byte last.
  uint16_t writer() const { return writer_; }

 private:
  // readers_ is a thread, or kSeveralLanes + a warp for several lanes of it in one sync, or kSeveralWarps;
  // the highest bit is a flag.
  static constexpr uint16_t kSeveralLanes = kMaxThreads;
  static constexpr uint16_t kSeveralWarps = 0x7fff;
  static constexpr uint16_t kReadOnly = 0x8000;

  // The number of epochs since this one. 32 bits of an epoch wrap around, but only after days of launches.
  static uint32_t ago(uint32_t epoch) { return static_cast<uint32_t>(now.epoch) - epoch; }
  static bool is_in_launch(uint32_t epochs_ago) { return epochs_ago <= now.epoch - now.launch_epoch; }
  static bool is_in_block(uint32_t epochs_ago) { return epochs_ago <= now.epoch - now.first_epoch; }
  // Syncs are counted up to here. Accesses of one warp with this count are taken as ordered.
  static constexpr uint16_t kMaxSync = 0xffff;
  static uint16_t sync_now() { return static_cast<uint16_t>(now.sync < kMaxSync ? now.sync : kMaxSync); }

  static uint32_t warp_of(uint16_t who) {
    return who < kSeveralLanes ? who / kLanes : static_cast<uint32_t>(who - kSeveralLanes);
  }
  // Whether an access of this epoch, by `who` in its warp's `sync`, is ordered before the running thread's
  // next access.
  static bool is_before_now(uint16_t who, uint16_t sync) {
    return who == now.thread || (warp_of(who) == now.warp && (sync < sync_now() || sync == kMaxSync));
  }

  uint16_t reader() const { return readers_ & kSeveralWarps; }

  void remember_reader(bool is_read_only) {
    const uint32_t read_ago = ago(read_at_);
    uint16_t flags = is_read_only ? kReadOnly : 0;
    if (!is_in_launch(read_ago)) {
      other_reads_ = 0;
    } else {
      flags |= readers_ & kReadOnly;
      if (!is_in_block(read_ago)) other_reads_ = with_epoch(other_reads_, now.epoch - read_ago);
    }
    uint16_t who = now.thread;
    if (read_ago != 0 || (warp_of(reader()) == now.warp && read_sync_ < sync_now())) {
      read_at_ = static_cast<uint32_t>(now.epoch);
      read_sync_ = sync_now();
    } else if (warp_of(reader()) != now.warp) {
      who = kSeveralWarps;
    } else if (reader() != now.thread) {
      who = static_cast<uint16_t>(kSeveralLanes + now.warp);
    }
    readers_ = flags | who;
  }

  uint32_t written_at_;  // epochs
  uint32_t read_at_;
  uint16_t write_sync_;
  uint16_t read_sync_;
  uint16_t writer_;
  uint16_t readers_;
  uint32_t other_reads_;  // the set (arrivals.h) of the last reads of blocks before the one that read last
};

// memory must lie in the address space, and races must be detected.
inline GlobalRecord* records_of(const void* memory) {
  return address_space.records + offset_of(memory);
}

// "which thread 5 wrote, without a barrier between"
void describe(Race race, const GlobalRecord& record, std::span<char> text);

}  // namespace runnel::emulator
