// Running text broken into lines.
#pragma once

#include <cstddef>
#include <string>

namespace runnel {

// Breaks text at spaces, so that no line is longer than this, unless a single word is.
std::string wrapped(const std::string& text, size_t columns);

}  // namespace runnel
