// The list of devices. Which of them get a context is visible on the emulated machine.
#include "cuda-runner/devices_report.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "cuda-runner/emulator/machine.h"
#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

struct Reported {
  Result<void> end;
  nlohmann::json json;
  std::set<int> contexts;
};

Reported report(const emulator::Settings& settings, std::optional<uint32_t> number) {
  const Emulated emulated(settings);
  std::ostringstream out;
  const Result<void> end = report_devices(number, true, out);
  std::set<int> contexts;
  for (int device = 0; const emulator::OneDevice& each : emulator::machine().devices) {
    if (each.has_context) contexts.insert(device);
    ++device;
  }
  return {end, nlohmann::json::parse(out.str()), contexts};
}

TEST_CASE("devices: without a number each of them runs a kernel") {
  const Reported all = report({.num_devices = 3}, std::nullopt);
  CHECK(all.end.ok());
  CHECK(all.contexts == std::set{0, 1, 2});
  for (const auto& device : all.json["devices"]) CHECK(device["usable"] == true);
}

TEST_CASE("devices: with a number only that one has a context, and the others are listed") {
  const Reported one = report({.num_devices = 3}, 1);
  CHECK(one.end.ok());
  CHECK(one.contexts == std::set{1});
  REQUIRE(one.json["devices"].size() == 3);
  CHECK(one.json["devices"][1]["usable"] == true);
  CHECK(one.json["devices"][1]["free_bytes"] > 0);
  for (const size_t other : {0, 2}) {
    CHECK(one.json["devices"][other]["usable"].is_null());
    CHECK(one.json["devices"][other]["free_bytes"].is_null());
    CHECK(one.json["devices"][other]["name"] == "emulated GPU");
  }
}

TEST_CASE("devices: a number that does not exist is refused with those that do") {
  const Reported none = report({.num_devices = 2}, 2);
  REQUIRE_FALSE(none.end.ok());
  CHECK(none.end.error().exit_code == ExitCode::kNoDevice);
  CHECK(none.json["reason"] == "GPU 2 does not exist; the last GPU is GPU 1.");
  CHECK(none.contexts.empty());
}

}  // namespace
}  // namespace runnel
