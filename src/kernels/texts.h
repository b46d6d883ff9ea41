// All texts of the kernel subset, in the order in which they depend on each other. No guard: see prelude.h.
// clang-format off
#include "kernels/integer.h"
#include "kernels/math.h"
#include "kernels/math_power.h"
#include "kernels/math_trig.h"
#include "kernels/math_hyperbolic.h"
#include "kernels/math_special.h"
#include "kernels/math_remainder.h"
#include "kernels/math_f64.h"
#include "kernels/math_f64_log.h"
#include "kernels/math_f64_power.h"
#include "kernels/math_f64_trig.h"
#include "kernels/math_f64_inverse.h"
#include "kernels/math_f64_remainder.h"
#include "kernels/math_f64_special.h"
#include "kernels/cast.h"
#include "kernels/philox.h"
// clang-format on
