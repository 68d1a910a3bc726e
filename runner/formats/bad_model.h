// What a file of a model is refused with.
#pragma once

#include <string>

#include "runner/result.h"

namespace runnel {

// kBadModel with "PATH sentence."
inline Error bad_model(const std::string& path, const std::string& sentence) {
  return Error{ExitCode::kBadModel, path + " " + sentence + "."};
}

}  // namespace runnel
