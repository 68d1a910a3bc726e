// The output of the benchmarks: the figures and their subject.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

namespace runnel {

struct DeviceUse {
  uint64_t bytes_beside_kv_cache;
  uint64_t weights_bytes;
};

// What was measured, for readers of the figures.
struct BenchSubject {
  std::string model;
  std::string device;
  uint32_t num_threads;
  // What the process has allocated on a device of its own without the KV cache, and what of it are weights.
  // Called after the measurement; none: the system's memory is used.
  std::function<DeviceUse()> device_use = nullptr;
};

// Adds the subject and the machine's name to the figures.
void add_subject(const BenchSubject& subject, nlohmann::ordered_json& figures);

// Prints one line of JSON. A path in it need not be UTF-8.
void print_json(const nlohmann::ordered_json& figures, std::ostream& out);

// Prints one line for each member.
void print_lines(const nlohmann::ordered_json& figures, std::ostream& out);

}  // namespace runnel
