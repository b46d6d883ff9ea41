// Which of Highway's targets are compiled. Include this before any header of Highway, in every file that uses it.
// Targets without a native fma would need it in software, lane by lane; the scalar fallback does that already.
#pragma once

// Sanitized builds leave AVX-512 out: its instrumented code takes minutes to compile and shows nothing that AVX2's,
// from the same lines, does not.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LOCKSTEP_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LOCKSTEP_SANITIZED 1
#endif
#endif

#if (defined(__x86_64__) || defined(__i386__)) && defined(LOCKSTEP_SANITIZED)
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_EMU128 | HWY_SCALAR))
#elif defined(__x86_64__) || defined(__i386__)
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3 | HWY_EMU128 | HWY_SCALAR))
#elif defined(__aarch64__)
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

// Loops over arrays that are either the same or do not overlap: an element never depends on another one's result.
#if defined(__clang__)
#define LOCKSTEP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOCKSTEP_INDEPENDENT _Pragma("GCC ivdep")
#endif
