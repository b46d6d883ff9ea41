#include "backends/gpu/renderer/kinds.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
Rendered render(const Kernel& kernel, const RenderLimits& limits) {
  return std::visit([&](const auto& k) { return render_kernel(k, limits); }, kernel);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
