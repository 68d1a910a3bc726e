// Where in a kernel something is done, for the sentences about faults. Both types take it from the line that
// names the element or calls the word, without anything to write there.
#pragma once

#include <concepts>
#include <cstddef>
#include <source_location>
#include <string>

namespace runnel::emulator {

using Place = std::source_location;

// "product.cu:12"
std::string name_of(const Place& place);

// Which element, and where it was asked for. A negative index is a very large one.
struct Index {
  template <std::integral Integer>
  constexpr Index(Integer index, Place where = Place::current())
      : value(static_cast<size_t>(index)), place(where) {}

  size_t value;
  Place place;
};

}  // namespace runnel::emulator
