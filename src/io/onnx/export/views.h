// Where the elements of views lie, for rules that need them one by one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/view.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// The place of each element in the dense base, row-major; -1 outside. None for more than a constant may have.
std::optional<std::vector<std::int64_t>> places_of(const View& view);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
