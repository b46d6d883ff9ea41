// GLSL to SPIR-V by shaderc, opened at run time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace gpu {

class Shaderc {
 public:
  Shaderc();
  bool is_usable() const { return problem_.empty(); }
  const std::string& problem() const { return problem_; }
  std::string version() const;
  /// A compute shader for Vulkan 1.2. Throws BackendError with the compiler's messages.
  std::vector<std::uint32_t> compile(const std::string& source) const;

 private:
  std::string problem_;
};

/// The process's compiler.
const Shaderc& shaderc();

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
