// Random views for tests of kernels: any layout that the operations on views can make.
#pragma once

#include <cstdint>

#include "core/view.h"
#include "support/program_builder.h"

namespace lockstep {
inline namespace v0 {
namespace testing {

/// A view of the shape `dims` into a buffer of some other shape, and how many elements that needs.
struct RandomView {
  View view;
  std::int64_t elements = 1;
};
/// Its dims from `broadcast_from` on, if that is not negative, do not matter to it.
RandomView random_view(Random& random, const Shape& dims, DType dtype, int broadcast_from = -1);

}  // namespace testing
}  // namespace v0
}  // namespace lockstep
