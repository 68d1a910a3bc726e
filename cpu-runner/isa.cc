#include "cpu-runner/isa.h"

#include <algorithm>
#include <string>

#include "runner/formats/in_quotes.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace runnel {
namespace {

struct Isa {
  const Kernels* kernels;
  // True only if the operating system saves the wide registers too.
  bool (*is_usable)();
};

// The best last.
constexpr Isa kIsas[] = {
    {&kPortableKernels, [] { return true; }},
#if defined(__x86_64__)
    {&kAvx2Kernels, [] { return __builtin_cpu_supports("x86-64-v3") != 0; }},
    {&kAvxVnniKernels,
     [] { return __builtin_cpu_supports("x86-64-v3") != 0 && __builtin_cpu_supports("avxvnni") != 0; }},
    {&kAvx512VnniKernels,
     [] { return __builtin_cpu_supports("x86-64-v4") != 0 && __builtin_cpu_supports("avx512vnni") != 0; }},
#elif defined(__aarch64__)
    {&kDotprodKernels, [] { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }},
    {&kI8mmKernels,
     [] { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }},
#endif
};

template <typename Filter>
std::string names(const Filter& filter) {
  std::string list;
  for (const Isa& isa : kIsas) {
    if (filter(isa)) list += (list.empty() ? "" : ", ") + std::string(isa.kernels->name);
  }
  return list;
}

}  // namespace

std::vector<const Kernels*> usable_kernels() {
  std::vector<const Kernels*> usable;
  for (const Isa& isa : kIsas) {
    if (isa.is_usable()) usable.push_back(isa.kernels);
  }
  return usable;
}

Result<const Kernels*> kernels_for(std::string_view name) {
  if (name.empty()) return usable_kernels().back();
  const auto* isa = std::ranges::find(kIsas, name, [](const Isa& each) { return each.kernels->name; });
  if (isa == std::end(kIsas)) {
    return Error{ExitCode::kUsage, "--isa is " + in_quotes(name) + "; it must be one of " +
                                       names([](const Isa&) { return true; }) + "."};
  }
  if (!isa->is_usable()) {
    return Error{ExitCode::kUsage, "--isa is " + std::string(name) + ", which this processor lacks; it has " +
                                       names([](const Isa& each) { return each.is_usable(); }) +
                                       ". Leave it out for the best of these."};
  }
  return isa->kernels;
}

}  // namespace runnel
