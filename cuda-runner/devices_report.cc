#include "cuda-runner/devices_report.h"

#include <cuda_runtime.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cuda-runner/device/device.h"

namespace runnel {
namespace {

using nlohmann::ordered_json;

ordered_json driver_version() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) return nullptr;
  return cuda_version_name(version);
}

// Describes a device even if it cannot be used, as far as the driver knows it.
ordered_json describe(int number, bool is_asked) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, number) != cudaSuccess) properties = {};
  ordered_json description = {
      {"number", number},
      {"name", properties.name},
      {"compute_capability", std::to_string(properties.major) + "." + std::to_string(properties.minor)},
      {"memory_bytes", properties.totalGlobalMem},
      {"free_bytes", nullptr},
      {"usable", nullptr},
      {"reason", nullptr}};
  if (!is_asked) return description;
  const Result<Device> device = Device::open(number);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (!device.ok() || cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) free_bytes = 0;
  description["free_bytes"] = free_bytes;
  description["usable"] = device.ok();
  if (!device.ok()) description["reason"] = device.error().message;
  return description;
}

void print_lines(const ordered_json& report, std::ostream& out) {
  const ordered_json& driver = report["driver"];
  out << "built for CUDA " << report["cuda"].get<std::string>() << "; "
      << (driver.is_null() ? "there is no driver"
                           : "the driver supports CUDA up to " + driver.get<std::string>())
      << '\n';
  for (const ordered_json& device : report["devices"]) {
    out << "GPU " << device["number"] << ": " << device["name"].get<std::string>() << ", compute capability "
        << device["compute_capability"].get<std::string>() << ", " << device["memory_bytes"] << " bytes";
    if (!device["free_bytes"].is_null()) out << ", " << device["free_bytes"] << " free";
    if (device["usable"] == false) out << "; not usable: " << device["reason"].get<std::string>();
    out << '\n';
  }
}

}  // namespace

Result<void> report_devices(std::optional<uint32_t> asked, bool json, std::ostream& out) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  ordered_json devices = ordered_json::array();
  bool is_any_usable = false;
  for (int number = 0; number < count; ++number) {
    devices.push_back(describe(number, !asked || static_cast<int>(*asked) == number));
    is_any_usable |= devices.back()["usable"] == true;
  }
  std::string reason;
  // Device::open says what is missing, also if there is no device at all.
  if (!is_any_usable) reason = Device::open(static_cast<int>(asked.value_or(0))).error().message;
  const ordered_json report = {{"cuda", cuda_version_name(CUDART_VERSION)},
                               {"driver", driver_version()},
                               {"devices", devices},
                               {"reason", is_any_usable ? ordered_json(nullptr) : ordered_json(reason)}};
  if (json) {
    out << report.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;
  } else {
    print_lines(report, out);
  }
  if (is_any_usable) return {};
  return Error{ExitCode::kNoDevice, reason};
}

}  // namespace runnel
