// What is said where NCCL is not there, or is another library.
#include "cuda-runner/device/nccl.h"

#include "cuda-runner/emulator/machine.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

void check_refusal(const std::string& library, const std::vector<std::string>& parts) {
  const Result<std::unique_ptr<NcclClique>> clique = NcclClique::create({0, 1}, library);
  REQUIRE_FALSE(clique.ok());
  CAPTURE(clique.error().message);
  CHECK(clique.error().exit_code == ExitCode::kUsage);
  for (const std::string& part : parts) CHECK(clique.error().message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("nccl: a library that cannot be loaded, and one without its functions, are refused by name") {
  check_refusal("libnccl-of-nowhere.so.2", {"NCCL cannot be loaded: libnccl-of-nowhere.so.2: ",
                                            "LD_LIBRARY_PATH", "or use --all-gather-backend copies."});
  check_refusal("libm.so.6", {"libm.so.6", "ncclGetVersion"});
}

TEST_CASE("nccl: versions are named as NVIDIA names them") {
  CHECK(nccl_version_name(23203) == "2.32.3");
  CHECK(nccl_version_name(20900) == "2.9.0");
  CHECK(nccl_version_name(2804) == "2.8.4");
}

TEST_CASE("nccl: devices that it cannot connect are an error of the device") {
  emulator::start({.num_devices = 1});
  const Result<std::unique_ptr<NcclClique>> clique = NcclClique::create({0, 1});
  emulator::start(emulator::settings_from_environment());
  REQUIRE_FALSE(clique.ok());
  CHECK(clique.error().exit_code == ExitCode::kNoDevice);
  CHECK(clique.error().message == "NCCL 2.32.3 cannot connect the GPUs: invalid argument.");
}

}  // namespace runnel
