#if defined(LOCKSTEP_CONTRACTION_THIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_THIN_INL_H_
#undef LOCKSTEP_CONTRACTION_THIN_INL_H_
#else
#define LOCKSTEP_CONTRACTION_THIN_INL_H_
#endif
#include "backends/cpu/contraction/packing-inl.h"
HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {
template <typename T>
auto thin_function() -> void (*)(const ThinArgs&) { return nullptr; }
}
}
}
}
HWY_AFTER_NAMESPACE();
#endif
