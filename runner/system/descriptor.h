// An open file, by its number. It is closed with its owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace runnel {

class Descriptor {
 public:
  Descriptor() = default;
  // Takes the number over; -1: none.
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }

  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

}  // namespace runnel
