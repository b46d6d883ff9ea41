// How much memory something takes at its worst moment.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "core/os.h"

namespace lockstep::test {

inline std::uint64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return 0;
}

/// Bytes by which the resident memory of this process was larger, at most, while `action` ran than before it. Nothing
/// where the system cannot tell, and under sanitizers, whose bookkeeping is larger than what it watches.
template <typename Action> std::optional<std::uint64_t> peak_growth(const Action& action) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr bool kSanitized = true;
#elif defined(__has_feature)
  constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
  constexpr bool kSanitized = false;
#endif
  const bool reset = static_cast<bool>(std::ofstream("/proc/self/clear_refs") << "5" << std::flush);
  const std::uint64_t before = os::resident_bytes();
  action();
  const std::uint64_t peak = peak_resident_bytes();
  if (kSanitized || !reset || peak == 0) return std::nullopt;
  return peak > before ? peak - before : 0;
}

}  // namespace lockstep::test
