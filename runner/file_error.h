// What the operating system says about a file, as an error.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "runner/result.h"

namespace runnel {

// error: of errno; what was to be done to the file: "opened".
inline Error file_error(const std::string& path, const char* what, int error) {
  const ExitCode code = error == ENOENT || error == ENOTDIR || error == ENXIO ? ExitCode::kNoFile
                        : error == EACCES || error == EPERM                   ? ExitCode::kNoPermission
                                                                              : ExitCode::kSystem;
  return Error{code, path + " cannot be " + what + ": " + std::strerror(error) + "."};
}

}  // namespace runnel
