#include "runner/bench/bench_report.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace runnel {
namespace {

using nlohmann::ordered_json;

// The processor's name, on machines whose kernel reports it.
std::string machine_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

void add_subject(const BenchSubject& subject, ordered_json& figures) {
  figures["model"] = subject.model;
  figures["device"] = subject.device;
  figures["threads"] = subject.num_threads;
  figures["machine"] = machine_name();
  if (!subject.device_use) return;
  const DeviceUse use = subject.device_use();
  figures["weights_bytes"] = use.weights_bytes;
  figures["device_bytes_beside_kv_cache"] = use.bytes_beside_kv_cache;
}

void print_json(const ordered_json& figures, std::ostream& out) {
  out << figures.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;
}

void print_lines(const ordered_json& figures, std::ostream& out) {
  for (const auto& [key, value] : figures.items())
    out << key << ": " << value.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
  out.flush();
}

}  // namespace runnel
