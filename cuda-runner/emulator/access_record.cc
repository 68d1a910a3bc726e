#include "cuda-runner/emulator/access_record.h"

#include "runner/check.h"

namespace runnel::emulator {

std::string describe(Conflict conflict, const AccessRecord& record) {
  const std::string writer = "thread " + std::to_string(record.writer());
  switch (conflict) {
    case Conflict::kNothing:
      break;
    case Conflict::kNeverWritten:
      return "which this block never wrote";
    case Conflict::kCopyUnderWay:
      return "to which " + writer + " copies: it has not waited for the copy";
    case Conflict::kReadAfterWrite:
    case Conflict::kWriteAfterWrite:
      return "which " + writer + " of the block wrote, without a barrier between";
    case Conflict::kWriteAfterRead:
      return "which another thread read, without a barrier between";
  }
  CHECK(false);
}

}  // namespace runnel::emulator
