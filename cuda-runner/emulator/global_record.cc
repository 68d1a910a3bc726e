#include "cuda-runner/emulator/global_record.h"

#include <cstdio>

#include "runner/check.h"

namespace runnel::emulator {

void describe(Race race, const GlobalRecord& record, std::span<char> text) {
  const unsigned writer = record.writer();
  switch (race) {
    case Race::kNothing:
      CHECK(false);
    case Race::kReadAfterWrite:
    case Race::kWriteAfterWrite:
      std::snprintf(text.data(), text.size(), "which thread %u wrote, without a barrier between", writer);
      break;
    case Race::kWriteAfterRead:
      std::snprintf(text.data(), text.size(), "which another thread read, without a barrier between");
      break;
    case Race::kOtherBlockWrote:
      std::snprintf(text.data(), text.size(),
                    "which another block of this launch wrote; nothing orders the blocks of a launch");
      break;
    case Race::kOtherBlockRead:
      std::snprintf(text.data(), text.size(),
                    "which another block of this launch read; nothing orders the blocks of a launch");
      break;
    case Race::kReadOnlyAfterWrite:
      std::snprintf(text.data(), text.size(), "by load_read_only(), which this launch wrote");
      break;
    case Race::kWriteAfterReadOnly:
      std::snprintf(text.data(), text.size(), "which this launch read by load_read_only()");
      break;
  }
}

}  // namespace runnel::emulator
