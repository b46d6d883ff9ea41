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
  /// What to do about the problem.
  const std::string& fix() const { return fix_; }
  std::string version() const;
  /// Whether it has the extension of GLSL.
  bool knows(const char* extension) const;
  /// A compute shader for Vulkan 1.2. Throws BackendError with the compiler's messages.
  std::vector<std::uint32_t> compile(const std::string& source) const;

 private:
  std::string problem_;
  std::string fix_;
};

/// What to do where shaderc cannot be opened: `first_tried` failed with `error`; this code lies in `directory`.
std::string shaderc_advice(const std::string& first_tried, const std::string& error, const std::string& directory);

/// The process's compiler.
const Shaderc& shaderc();

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
