// The C++ dialect of the kernel subset: the macros in which the texts (math.h, integer.h, cast.h, philox.h and so on)
// are written. CUDA, MSL and GLSL prepend a prelude of their own with the same names; nothing else differs.
//
// The texts themselves have no include guard and no namespace. Include this header once at file scope, then the texts
// inside the namespace they shall live in, as often as there are instruction sets (kernels/texts.h lists them):
//
//   #include "kernels/prelude.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace lockstep { inline namespace v0 { namespace HWY_NAMESPACE {
//   #include "kernels/texts.h"
//   }}}
//   HWY_AFTER_NAMESPACE();
//
// Plain host code takes them from kernels/scalar.h. Every function has internal linkage and is always inlined, so
// that it is compiled for the instruction set of its caller. Compile with -ffp-contract=off -fno-math-errno
// -fno-trapping-math. Where the target has no fma instruction, FMA is a call of the C library's exact fma: right, slow.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __FAST_MATH__
#error "-ffast-math changes results; see docs/numerics.md"
#endif

#define FUNCTION [[maybe_unused]] static inline __attribute__((always_inline))

// Types. FLOAT and DOUBLE declare variables (GLSL needs `precise` there); parameters and results are plain.
#define FLOAT float
#define DOUBLE double
#define UINT std::uint32_t
#define LONG std::int64_t
#define ULONG std::uint64_t
/// An output parameter.
#define OUT(type, name) type& name
#define CONSTANT_TABLE(type, name, size) static constexpr type name[size]
/// A 64-bit index into one.
#define TABLE_INDEX(index) index

// Memory that a text reads: bytes, pairs and fours of them, at any address, as words.
#define MEMORY const std::byte*
#define LOAD_U8(a, i) std::uint32_t((a)[i])
#define LOAD_U16(a, i) (LOAD_U8(a, 2 * (i)) | LOAD_U8(a, 2 * (i) + 1) << 8)
#define LOAD_U32(a, i) (LOAD_U16(a, 2 * (i)) | LOAD_U16(a, 2 * (i) + 1) << 16)

// Bit casts.
#define BITS(x) __builtin_bit_cast(std::uint32_t, x)
#define FROM_BITS(u) __builtin_bit_cast(float, std::uint32_t(u))
#define BITS64(x) __builtin_bit_cast(std::uint64_t, x)
#define FROM_BITS64(u) __builtin_bit_cast(double, std::uint64_t(u))
/// All ones where the highest bit of 64 is set, else 0.
#define SIGN_MASK64(u) (ULONG(0) - ((u) >> 63))

// Correctly rounded primitives.
#define FMA(x, y, z) __builtin_fmaf(x, y, z)
#define FMA64(x, y, z) __builtin_fma(x, y, z)
#define SQRT(x) __builtin_sqrtf(x)
#define SQRT64(x) __builtin_sqrt(x)
/// Upper half of the product of two unsigned words.
#define MUL_HIGH(x, y) std::uint32_t((std::uint64_t(x) * std::uint64_t(y)) >> 32)

// The words of ops.def.
#define SELECT(condition, x, y) ((condition) ? (x) : (y))
#define FLOAT_KEY(x) max_key(x)
#define MIN_KEY(x) min_key(x)
