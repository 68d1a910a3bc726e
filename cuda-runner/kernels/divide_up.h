#pragma once

#include <cstdint>

namespace runnel {

constexpr uint32_t divide_up(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}

}  // namespace runnel
