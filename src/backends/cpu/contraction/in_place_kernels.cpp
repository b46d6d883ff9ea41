// Compiles in_place-inl.h once per instruction set; by itself, since it takes as long as all of kernels.cpp.
#define HWY_TARGET_INCLUDE "backends/cpu/contraction/in_place_kernels.cpp"
#include "backends/cpu/simd_table.h"

#include "backends/cpu/contraction/in_place-inl.h"
#include "backends/cpu/contraction/in_place.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

const InPlaceFunction& local_in_place_function() {
  static const InPlaceFunction kFunction = local_in_place();
  return kFunction;
}

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

LOCKSTEP_TABLE_OF_ISA(InPlaceFunction, function_of, local_in_place_function)

}  // namespace

InPlaceFunction in_place_function(Isa isa) {
  return function_of(isa);
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
#endif  // HWY_ONCE
