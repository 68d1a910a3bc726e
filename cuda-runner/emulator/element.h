// What view[i] is: a place to read from and to write to, each checked. It lives for the expression alone, so
// `auto x = view[i]` does not compile past its first use: write the type.
#pragma once

#include <utility>

#include "cuda-runner/emulator/place.h"

namespace runnel::emulator {

template <typename T, typename View>
class Element {
 public:
  Element(View view, Index index) : view_(view), index_(index) {}
  Element(const Element&) = delete;

  operator T() && { return read(); }
  const Element& operator=(T value) && {
    write(value);
    return *this;
  }
  const Element& operator=(Element&& other) && {
    write(other.read());
    return *this;
  }
  template <typename Other>
  const Element& operator+=(const Other& other) && {
    write(static_cast<T>(read() + other));
    return *this;
  }
  template <typename Other>
  const Element& operator-=(const Other& other) && {
    write(static_cast<T>(read() - other));
    return *this;
  }
  template <typename Other>
  const Element& operator*=(const Other& other) && {
    write(static_cast<T>(read() * other));
    return *this;
  }
  template <typename Other>
  const Element& operator|=(const Other& other) && {
    write(static_cast<T>(read() | other));
    return *this;
  }

 private:
  T read() const { return view_.template load<T>(index_); }
  void write(T value) const { view_.template store<T>(index_, value); }

  View view_;
  Index index_;
};

}  // namespace runnel::emulator
