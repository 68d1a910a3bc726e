#include "cuda-runner/emulator/access_record.h"

#include <cstdio>

#include "runner/check.h"

namespace runnel::emulator {

void describe(Conflict conflict, const AccessRecord& record, std::span<char> text) {
  const unsigned writer = record.writer();
  switch (conflict) {
    case Conflict::kNothing:
      CHECK(false);
    case Conflict::kNeverWritten:
      std::snprintf(text.data(), text.size(), "which this block never wrote");
      break;
    case Conflict::kCopyUnderWay:
      std::snprintf(text.data(), text.size(), "to which thread %u copies and has not waited", writer);
      break;
    case Conflict::kReadAfterWrite:
    case Conflict::kWriteAfterWrite:
      std::snprintf(text.data(), text.size(), "which thread %u wrote, without a barrier between", writer);
      break;
    case Conflict::kWriteAfterRead:
      std::snprintf(text.data(), text.size(), "which another thread read, without a barrier between");
      break;
  }
}

}  // namespace runnel::emulator
