// The frame of a source that is compiled once per instruction set and gives a table of its loops for each. First in it,
// before any header of Highway, stand
//
//   #define HWY_TARGET_INCLUDE "backends/cpu/row/chain_table.cpp"  // the file itself
//   #include "backends/cpu/simd_table.h"
//
// and after its other headers
//
//   LOCKSTEP_TARGET_BEGIN()
//   namespace { ... }
//   LOCKSTEP_TARGET_END(ChainTable, chain_table, make_table())
//
// which define `const ChainTable& chain_table(Isa)`. Macros, because the namespace and the compiler's options between
// them are the target's. No include guard: Highway includes the source again for each target, and each time it needs
// what stands here.
#include "backends/cpu/simd_targets.h"

#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/isa.h"

// Any processor's loops are half a megabyte that no x86 processor since 2013 runs: they are made small, a third less.
#if (HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128) && defined(__OPTIMIZE__) && !defined(__clang__) && \
    !defined(LOCKSTEP_SANITIZED)
#pragma GCC optimize("Os")
#endif

#ifndef LOCKSTEP_TARGET_BEGIN

#define LOCKSTEP_TARGET_BEGIN()                  \
  HWY_BEFORE_NAMESPACE();                        \
  namespace lockstep::inline v0::HWY_NAMESPACE { \
  namespace hn = hwy::HWY_NAMESPACE;

#define LOCKSTEP_TARGET_END(Table, function, make) \
  const Table& function() {                        \
    static const Table table = make;               \
    return table;                                  \
  }                                                \
  }                                                \
  HWY_AFTER_NAMESPACE();                           \
  LOCKSTEP_TARGET_CHOICE(Table, function)

// Defines `const Table& function(Isa isa)` out of one `const Table& local()` per target. Use in an HWY_ONCE section.
#if (defined(__x86_64__) || defined(__i386__)) && defined(LOCKSTEP_SANITIZED)
#define LOCKSTEP_TABLE_OF_ISA(Table, function, local)                         \
  const Table& function(Isa isa) {                                            \
    return isa == Isa::avx2 ? N_AVX2::local() : HWY_STATIC_DISPATCH(local)(); \
  }
#elif defined(__x86_64__) || defined(__i386__)
#define LOCKSTEP_TABLE_OF_ISA(Table, function, local) \
  const Table& function(Isa isa) {                    \
    switch (isa) {                                    \
      case Isa::amx:                                  \
      case Isa::avx512: return N_AVX3::local();       \
      case Isa::avx2: return N_AVX2::local();         \
      default: return HWY_STATIC_DISPATCH(local)();   \
    }                                                 \
  }
#else
#define LOCKSTEP_TABLE_OF_ISA(Table, function, local) \
  const Table& function(Isa) {                        \
    return HWY_STATIC_DISPATCH(local)();              \
  }
#endif

#endif

// What is there once is defined in the last pass.
#undef LOCKSTEP_TARGET_CHOICE
#if HWY_ONCE
#define LOCKSTEP_TARGET_CHOICE(Table, function)    \
  namespace lockstep::inline v0 {                  \
  LOCKSTEP_TABLE_OF_ISA(Table, function, function) \
  }
#else
#define LOCKSTEP_TARGET_CHOICE(Table, function)
#endif
