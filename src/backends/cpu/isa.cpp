#include "backends/cpu/isa.h"

#include <cstdlib>
#include <fstream>

#include <lockstep/error.h>

#include "backends/cpu/simd_targets.h"
#include "core/os_tiles.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif HWY_TARGETS & HWY_AVX3
#include <cpuid.h>
#endif

namespace lockstep {
inline namespace v0 {
namespace {

#if HWY_TARGETS & HWY_AVX3
// Tiles of bytes, whose registers the system has to allow besides, and VNNI.
bool has_amx() {
  constexpr unsigned kTilesOfBytes = 3u << 24;  // EDX's bits AMX-TILE and AMX-INT8
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTilesOfBytes) == kTilesOfBytes &&
         __builtin_cpu_supports("avx512vnni") != 0 && os::allow_tiles();
}
#endif

std::vector<Isa> detect() {
#if defined(__aarch64__)
  std::vector<Isa> isas{Isa::neon};
#if defined(__linux__)
  constexpr unsigned long kDotProducts = 1UL << 20;   // AT_HWCAP's bit asimddp
  constexpr unsigned long kByteMatrices = 1UL << 13;  // AT_HWCAP2's bit i8mm
  if ((getauxval(AT_HWCAP) & kDotProducts) != 0) {
    isas.push_back(Isa::neon_dot);
    if ((getauxval(AT_HWCAP2) & kByteMatrices) != 0) isas.push_back(Isa::neon_i8mm);
  }
#endif
  return isas;
#else
  std::vector<Isa> isas{Isa::scalar};
  const auto supported = hwy::SupportedTargets();
#if HWY_TARGETS & HWY_AVX2
  if ((supported & HWY_AVX2) != 0) isas.push_back(Isa::avx2);
#endif
#if HWY_TARGETS & HWY_AVX3
  if ((supported & HWY_AVX3) != 0) {
    isas.push_back(Isa::avx512);
    if (has_amx()) isas.push_back(Isa::amx);
  }
#endif
  return isas;
#endif
}

std::string list_of_available() {
  std::string names;
  for (Isa isa : available_isas()) {
    if (!names.empty()) names += ", ";
    names += name_of(isa);
  }
  return names;
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::scalar: return "scalar";
    case Isa::neon: return "neon";
    case Isa::neon_dot: return "neon_dot";
    case Isa::neon_i8mm: return "neon_i8mm";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::amx: return "amx";
  }
  return "?";
}

const std::vector<Isa>& available_isas() {
  static const auto& isas = *new std::vector<Isa>(detect());
  return isas;
}

Isa choose_isa(std::string_view requested) {
  if (requested.empty()) return available_isas().back();
  for (Isa isa : available_isas()) {
    if (name_of(isa) == requested) return isa;
  }
  for (Isa isa : kIsas) {
    if (name_of(isa) != requested) continue;
    throw DeviceError("cpu: LOCKSTEP_CPU_ISA=" + std::string(requested) +
                      ": this processor does not have it\n  available: " + list_of_available() +
                      "\n  fix: choose one of them, or unset the variable for the best");
  }
  throw ValueError("cpu: LOCKSTEP_CPU_ISA=" + std::string(requested) + ": no such instruction set\n  available: " +
                   list_of_available() + "\n  fix: choose one of them, or unset the variable for the best");
}

Isa selected_isa() {
  static const Isa isa = [] {
    const char* requested = std::getenv("LOCKSTEP_CPU_ISA");
    return choose_isa(requested == nullptr ? "" : requested);
  }();
  return isa;
}

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace v0
}  // namespace lockstep
