// What a fuzz target is. The two functions in extern "C" are libFuzzer's own, so that a clang build can link
// that instead of driver.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// Changes data in place, which may grow up to max_size; returns its new size.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed);

namespace runnel::fuzz {

// Good inputs to begin with, always the same.
std::vector<std::string> seed_corpus();

// What the target counts: files, or frames. More than one may be in an input.
std::string_view unit_name();

// Told by targets while an input runs: one unit was read, and how it went. Sentences that differ in numbers
// and quoted names alone are one kind of outcome.
void tell_outcome(std::string_view outcome);

// For properties that must hold whatever the input is: prints the sentence and aborts.
[[noreturn]] void finding(std::string_view sentence);

}  // namespace runnel::fuzz
