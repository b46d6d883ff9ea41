// NVIDIA's run-time compiler, opened at run time. Needs no GPU: tests compile every text with it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace gpu {

class Nvrtc {
 public:
  Nvrtc();
  bool is_usable() const { return problem_.empty(); }
  const std::string& problem() const { return problem_; }
  std::string version() const;
  /// The flags that keep arithmetic IEEE's.
  static std::string flags();
  /// Machine code for an architecture such as sm_90. Throws BackendError with the compiler's log.
  std::vector<std::byte> compile(const std::string& source, const std::string& architecture) const;

 private:
  std::string problem_;
};

/// The process's compiler.
const Nvrtc& nvrtc();

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
