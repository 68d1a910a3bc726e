// The last line of defence against what the standard library throws when the system refuses memory or
// threads: the process then ends with the status that says so, instead of looking like a crash.
#pragma once

#include <new>
#include <string>
#include <system_error>
#include <type_traits>

#include "runner/result.h"

namespace runnel {

// What action() returns; kSystem when it throws one of those two.
template <typename Action>
std::invoke_result_t<Action> with_system_errors(Action action) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    return Error{ExitCode::kSystem, "The system refused memory."};
  } catch (const std::system_error& error) {
    return Error{ExitCode::kSystem, std::string("The system refused something: ") + error.what() + "."};
  }
}

}  // namespace runnel
