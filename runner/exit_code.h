// Exit statuses of the runner binaries, numbered as in sysexits.h where it has the meaning. docs/protocol.md
// says what the gateway does about each.
#pragma once

namespace runnel {

enum class ExitCode : int {
  kOk = 0,
  kDifferent = 1,      // replay: what was computed is not what was recorded
  kUsage = 64,         // a flag or a value of one
  kBadModel = 65,      // the model file is damaged or of a kind that is not supported
  kNoFile = 66,        // a file that was named does not exist or is not a regular file
  kNoDevice = 69,      // the device does not answer
  kInternal = 70,      // a broken promise inside the program, caught in time
  kSystem = 71,        // the operating system refused something: memory, descriptors, threads
  kInputOutput = 74,   // writing failed: the gateway is gone
  kTryAgain = 75,      // the model file was replaced between the gateway's look at it and ours
  kProtocol = 76,      // bytes on stdin that are not frames of this protocol
  kNoPermission = 77,  // a file that was named may not be read
  kDeviceLost = 79,    // every further call to the device fails in this process; ours, not sysexits.h's
};

}  // namespace runnel
