// Errors as values. A function that can fail because of the outside world returns a Result. No exception
// crosses a function of this project.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "runner/check.h"
#include "runner/exit_code.h"

namespace runnel {

// Memory that was requested and not available, if that is the error.
struct MemoryShortage {
  uint64_t required_bytes;
  std::optional<uint64_t> available_bytes;  // nothing: unknown
};

// A sentence that names the thing, its value and what to do, and the exit status of the process if the error
// ends it.
struct Error {
  ExitCode exit_code;
  std::string message;
  std::optional<MemoryShortage> shortage = std::nullopt;
  std::string device = {};  // the device for which a model could not be loaded
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    RUNNEL_CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    RUNNEL_CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    RUNNEL_CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    RUNNEL_CHECK(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

// The Result of a function without a value.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    RUNNEL_CHECK(error_.has_value());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace runnel
