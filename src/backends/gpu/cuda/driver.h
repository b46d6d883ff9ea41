// The driver of one CUDA device. gpu/driver.h opens one by its number; tests do so on functions of their own.
#pragma once

#include <memory>
#include <string>

#include "backends/gpu/cuda/api.h"
#include "backends/gpu/driver.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace cuda {

/// `api` outlives the driver; `compiler` is NVRTC's version.
std::unique_ptr<Driver> make_driver(const Api& api, const std::string& compiler, int index);

}  // namespace cuda
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
