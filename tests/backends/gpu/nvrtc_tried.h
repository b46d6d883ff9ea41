// Whether tests of the renderer give what is rendered to NVRTC.
#pragma once

#include "backends/gpu/cuda/nvrtc.h"
#include "support/long_forms.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// It is not sanitized itself, so it finds nothing in a sanitized build that it does not find elsewhere.
inline bool nvrtc_is_tried() {
  return nvrtc().is_usable() && !takes_long_here();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
