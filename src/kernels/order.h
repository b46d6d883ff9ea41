// The numbers of the canonical orders (docs/numerics.md sections 4 to 6), for the backends that compute in them. The
// reference backend has its own, as the specification does; tests/kernels/order_test.cpp holds both equal.
#pragma once

namespace lockstep {
inline namespace v0 {
namespace order {

/// Reductions: chunks of a row, in each of which lane l takes elements l, l + kLanes, ...
inline constexpr int kChunk = 4096;
inline constexpr int kLanes = 64;

/// Scans: the same chunks, in which a lane takes so many consecutive elements.
inline constexpr int kScanLane = 64;

/// Contractions: blocks of k, each one chain of fma.
inline constexpr int kBlock = 256;

/// Contractions in blocked numerics (section 12): elements of k that share a power of two, and the exponents it may
/// have.
inline constexpr int kSharedBlock = 128;
inline constexpr int kLeastExponent = -106;
inline constexpr int kMostExponent = 119;

/// Contractions in q8 numerics (section 14): elements of k of an activation that share a scale.
inline constexpr int kQ8Block = 32;

static_assert(kLanes * kScanLane == kChunk && kBlock % kSharedBlock == 0 && kBlock % kQ8Block == 0);

}  // namespace order
}  // namespace v0
}  // namespace lockstep
