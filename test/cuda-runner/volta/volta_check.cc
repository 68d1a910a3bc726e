// volta-check [SOURCE...]: compiles kernels, all of them by default, for Volta (compute capability 7.0),
// which CUDA 13 does not support. NVRTC is the only compiler of CUDA 12 that can be fetched. It compiles
// device code only, so launchers are compiled as device code too, with host_stand_in.h. Must be run in the
// root of the repository.
#include <nvrtc.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "runner/check.h"

namespace runnel {
namespace {

// The headers that host_stand_in.h replaces. They are empty, since host_stand_in.h is included before
// everything.
constexpr const char* kHostHeaders[] = {"algorithm", "array",          "bit",        "cmath",    "cstddef",
                                        "cstdint",   "cuda_runtime.h", "limits",     "optional", "span",
                                        "string",    "string_view",    "type_traits"};
constexpr const char* kOptions[] = {
    "--std=c++20", "--gpu-architecture=sm_70", "--fmad=false", "--device-as-default-execution-space",
    // Without optimization it takes half the time, and says the same.
    "--device-debug",
    // Needed because launchers call functions of other sources.
    "--relocatable-device-code=true", "--pre-include=test/cuda-runner/volta/host_stand_in.h",
    "--include-path=.", "--include-path=" RUNNEL_CUDA_12_INCLUDE};
// NVRTC prints this warning each time.
constexpr const char* kDeprecation = "nvrtc: warning: Architectures prior to";

std::vector<std::string> all_sources() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("cuda-runner"))
    if (entry.path().extension() == ".cu") paths.push_back(entry.path().string());
  std::ranges::sort(paths);
  return paths;
}

void expect_success(nvrtcResult result) {
  if (result != NVRTC_SUCCESS) std::fprintf(stderr, "NVRTC says: %s\n", nvrtcGetErrorString(result));
  CHECK(result == NVRTC_SUCCESS);
}

class Program {
 public:
  Program(const std::string& path, const std::string& source) {
    const std::vector<const char*> headers(std::size(kHostHeaders), "");
    expect_success(nvrtcCreateProgram(&program_, source.c_str(), path.c_str(),
                                      static_cast<int>(headers.size()), headers.data(), kHostHeaders));
  }
  ~Program() { nvrtcDestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Compiles to machine code: for a real architecture NVRTC calls the assembler too.
  bool compile() const {
    return nvrtcCompileProgram(program_, static_cast<int>(std::size(kOptions)), kOptions) == NVRTC_SUCCESS;
  }
  std::string log() const {
    size_t size = 0;
    expect_success(nvrtcGetProgramLogSize(program_, &size));
    std::string log(size, '\0');
    expect_success(nvrtcGetProgramLog(program_, log.data()));
    return log.c_str();
  }
  size_t num_kernels() const {
    size_t size = 0;
    expect_success(nvrtcGetPTXSize(program_, &size));
    std::string ptx(size, '\0');
    expect_success(nvrtcGetPTX(program_, ptx.data()));
    size_t count = 0;
    for (size_t at = ptx.find(".entry "); at != std::string::npos; at = ptx.find(".entry ", at + 1)) ++count;
    return count;
  }

 private:
  nvrtcProgram program_ = nullptr;
};

// The messages of NVRTC except kDeprecation. A warning counts as an error.
std::string complaints(const std::string& log) {
  std::istringstream lines(log);
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && !line.starts_with(kDeprecation)) kept += line + '\n';
  return kept;
}

// The number of kernels in a source. 0 if the source does not compile without warnings; prints the reason to
// stderr.
size_t check(const std::string& path) {
  std::ifstream stream(path);
  const std::string source(std::istreambuf_iterator<char>(stream), {});
  const Program program(path, source);
  const bool is_compiled = program.compile();
  const std::string complaint = complaints(program.log());
  const size_t num_kernels = is_compiled && complaint.empty() ? program.num_kernels() : 0;
  if (num_kernels == 0)
    std::fprintf(stderr, "%s does not compile for Volta, or has no kernel.\n%s", path.c_str(),
                 complaint.c_str());
  return num_kernels;
}

}  // namespace
}  // namespace runnel

int main(int argc, char** argv) {
  std::vector<std::string> paths(argv + 1, argv + argc);
  if (paths.empty()) paths = runnel::all_sources();
  size_t num_kernels = 0;
  bool is_good = true;
  for (const std::string& path : paths) {
    const size_t count = runnel::check(path);
    num_kernels += count;
    is_good &= count > 0;
  }
  std::printf("%zu kernels compile for Volta\n", num_kernels);
  return is_good ? 0 : 1;
}
