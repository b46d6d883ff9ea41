// The kernel texts and the rows of ops.def for plain host code, one value at a time: lockstep::scalar::ls_exp,
// lockstep::scalar::row_add and so on.
#pragma once

#include <type_traits>

#include "kernels/prelude.h"

// Where code is made small (-Os), a function is there once for all that call it.
#ifdef __OPTIMIZE_SIZE__
#undef FUNCTION
#define FUNCTION [[maybe_unused]] static inline
#endif

namespace lockstep {
inline namespace v0 {
namespace scalar {
// rows.h uses the texts
// clang-format off
#include "kernels/texts.h"
#include "kernels/rows.h"
// clang-format on
}  // namespace scalar
}  // namespace v0
}  // namespace lockstep
