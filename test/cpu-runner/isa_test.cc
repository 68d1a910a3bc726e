#include "cpu-runner/isa.h"

#include <algorithm>
#include <string>

#include "cpu-runner/cpu_backend.h"
#include "test/unit_test.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace runnel {
namespace {

#if defined(__x86_64__)
constexpr std::string_view kNames[] = {"portable", "avx2", "avxvnni", "avx512vnni"};
#elif defined(__aarch64__)
constexpr std::string_view kNames[] = {"portable", "dotprod", "i8mm"};
#endif

TEST_CASE("without a name the best instruction set of the processor is taken") {
  const std::vector<const Kernels*> usable = usable_kernels();
  CHECK(std::string(usable.front()->name) == "portable");
  CHECK(*kernels_for("") == usable.back());
#if defined(__x86_64__)
  const bool has_avx512 = __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vnni");
  CHECK((std::string(usable.back()->name) == "avx512vnni") == has_avx512);
#elif defined(__aarch64__)
  CHECK((std::string(usable.back()->name) == "i8mm") == ((getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0));
#endif
}

TEST_CASE("an instruction set is had by name, and one that the processor lacks is refused by name") {
  for (const std::string_view name : kNames) {
    const Result<const Kernels*> kernels = kernels_for(name);
    const bool is_usable =
        std::ranges::any_of(usable_kernels(), [&](const Kernels* table) { return table->name == name; });
    REQUIRE(kernels.ok() == is_usable);
    if (is_usable) {
      CHECK((*kernels)->name == name);
      continue;
    }
    CHECK(kernels.error().exit_code == ExitCode::kUsage);
    CHECK(kernels.error().message.starts_with("--isa is " + std::string(name) +
                                              ", which this processor lacks; it has portable"));
  }
}

TEST_CASE("an instruction set that there are no kernels for is refused, with those there are") {
  const auto backend = make_cpu_backend({.num_threads = 1, .isa = "sse9"});
  REQUIRE_FALSE(backend.ok());
  CHECK(backend.error().exit_code == ExitCode::kUsage);
  std::string names;
  for (const std::string_view name : kNames) names += (names.empty() ? "" : ", ") + std::string(name);
  CHECK(backend.error().message == "--isa is \"sse9\"; it must be one of " + names + ".");
}

TEST_CASE("the device says which instruction set computes") {
  const auto backend = make_cpu_backend({.num_threads = 2, .isa = "portable"});
  CHECK((*backend)->device().name() == "cpu, portable, 2 threads");
}

}  // namespace
}  // namespace runnel
