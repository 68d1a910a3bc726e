// Errors as values. What can fail because of the outside world returns a Result; nothing is thrown across a
// function of this project.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "runner/check.h"
#include "runner/exit_code.h"

namespace runnel {

// Memory that was asked for and could not be had, where that is the fault.
struct MemoryShortage {
  uint64_t required_bytes;
  std::optional<uint64_t> available_bytes;  // none: nobody knows
};

// A sentence that names the thing, its value and what to do, and the status the process exits with if the
// error is its end.
struct Error {
  ExitCode exit_code;
  std::string message;
  std::optional<MemoryShortage> shortage = std::nullopt;
  std::string device = {};  // what a model could not be loaded for
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    CHECK(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

// The Result of something that gives no value.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    CHECK(error_.has_value());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace runnel
