#pragma once

#include <chrono>
#include <functional>

namespace runnel {

// A clock that never goes back. Tests bring their own.
using SteadyClock = std::function<std::chrono::steady_clock::time_point()>;

}  // namespace runnel
