// Updates: the whole is copied where it is not written in place, and then the region.
#include "backends/gpu/renderer/irregular.h"
#include "backends/gpu/renderer/kinds.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

Rendered render_kernel(const UpdateKernel& kernel, const RenderLimits& limits) {
  Rendered rendered;
  Input whole;
  whole.slot = kernel.self;
  whole.dtype = kernel.dtype;
  whole.view = View::contiguous({kernel.elements});
  rendered = render_kernel(move_kernel(whole, kernel.out, {1}), limits);
  for (Launch& copy : rendered.launches) {
    copy.copies_from = kernel.self;
    copy.copies_to = kernel.out;
  }
  const View& region = kernel.region;
  Rendered writes = render_kernel(move_kernel(kernel.values, kernel.out, region.strides, region.offset), limits);
  for (Launch& write : writes.launches) {
    for (Patch& patch : write.patches) {
      if (patch.kind != Patch::Kind::address || patch.index != kernel.out) continue;
      patch.start = kernel.start;
      patch.stride = static_cast<std::int64_t>(size_of(kernel.dtype));
    }
    rendered.launches.push_back(std::move(write));
  }
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
