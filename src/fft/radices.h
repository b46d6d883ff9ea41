// Into which factors a transform of a length is cut.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace fft {

/// Factors of n, each transformed by one product, the first one over the outermost index: those whose sum, with what a
/// stage costs beside its products, is smallest. {n} for short lengths; nothing where a prime factor is too large.
std::vector<std::int64_t> radices_of(std::int64_t n);

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
