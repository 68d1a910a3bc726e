// What is remembered of a byte of device memory while a kernel runs: who wrote it, who read it, and when. Two
// threads at one byte, one of them writing, need a barrier between, as in shared memory; nothing orders the
// blocks of a launch.
#pragma once

#include <cstdint>
#include <span>

#include "cuda-runner/emulator/block.h"
#include "cuda-runner/emulator/device_memory.h"

namespace runnel::emulator {

// What is wrong with an access; kNothing: it may be made.
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
      if (!is_in_block(written_ago)) return Race::kOtherBlockWrote;
      if (written_ago == 0 && !is_before_now(writer_, write_sync_)) return Race::kReadAfterWrite;
    }
    remember_reader(is_read_only);
    return Race::kNothing;
  }

  // is_same: the byte becomes what it is. Of writers of one value nobody can tell the order.
  Race write(bool is_same) {
    const uint32_t written_ago = ago(written_at_);
    if (is_in_launch(written_ago) && !is_same) {
      if (!is_in_block(written_ago)) return Race::kOtherBlockWrote;
      if (written_ago == 0 && !is_before_now(writer_, write_sync_)) return Race::kWriteAfterWrite;
    }
    const uint32_t read_ago = ago(read_at_);
    if (is_in_launch(read_ago)) {
      if ((readers_ & kReadOnly) != 0) return Race::kWriteAfterReadOnly;
      if ((readers_ & kOtherBlocks) != 0 || !is_in_block(read_ago)) return Race::kOtherBlockRead;
      if (read_ago == 0 && !is_before_now(reader(), read_sync_)) return Race::kWriteAfterRead;
    }
    written_at_ = static_cast<uint32_t>(now.epoch);
    write_sync_ = sync_now();
    writer_ = now.thread;
    return Race::kNothing;
  }

  // Who last wrote.
  uint16_t writer() const { return writer_; }

 private:
  // Readers are one thread, several lanes of a warp in one sync, or several warps; and flags.
  static constexpr uint16_t kSeveralLanes = kMaxThreads;  // and the warp's number
  static constexpr uint16_t kSeveralWarps = 0x3fff;
  static constexpr uint16_t kOtherBlocks = 0x4000;
  static constexpr uint16_t kReadOnly = 0x8000;

  // Epochs since; their numbers go round after days of launches.
  static uint32_t ago(uint32_t epoch) { return static_cast<uint32_t>(now.epoch) - epoch; }
  static bool is_in_launch(uint32_t epochs_ago) { return epochs_ago <= now.epoch - now.launch_epoch; }
  static bool is_in_block(uint32_t epochs_ago) { return epochs_ago <= now.epoch - now.first_epoch; }
  // What a warp counts beyond is taken as ordered.
  static constexpr uint16_t kMaxSync = 0xffff;
  static uint16_t sync_now() { return static_cast<uint16_t>(now.sync < kMaxSync ? now.sync : kMaxSync); }

  static uint32_t warp_of(uint16_t who) {
    return who < kSeveralLanes ? who / kLanes : static_cast<uint32_t>(who - kSeveralLanes);
  }
  // Of an access in this epoch.
  static bool is_before_now(uint16_t who, uint16_t sync) {
    return who == now.thread || (warp_of(who) == now.warp && (sync < sync_now() || sync == kMaxSync));
  }

  uint16_t reader() const { return readers_ & kSeveralWarps; }

  void remember_reader(bool is_read_only) {
    const uint32_t read_ago = ago(read_at_);
    uint16_t flags = is_read_only ? kReadOnly : 0;
    if (is_in_launch(read_ago)) {
      flags |= readers_ & (kReadOnly | kOtherBlocks);
      if (!is_in_block(read_ago)) flags |= kOtherBlocks;
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
};

// Of memory in the address space, where races are looked for.
inline GlobalRecord* records_of(const void* memory) {
  return address_space.records + offset_of(memory);
}

// "which thread 5 wrote, without a barrier between"
void describe(Race race, const GlobalRecord& record, std::span<char> text);

}  // namespace runnel::emulator
