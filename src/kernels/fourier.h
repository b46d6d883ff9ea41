// How lines are transformed: which steps a discrete Fourier transform of n elements takes, and where the table of roots
// has what each of them needs. docs/numerics.md (section 4) says what a step computes; the order in it is the
// specification, so all backends take it from here.
//
// All steps go forward (e^(-2 pi i j k / n)): an inverse transform is the forward one of numbers whose parts are
// swapped, and swapped again. Tables hold c and s of a root c + i s; a block of `count` roots is count c's and then
// count s's.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {
inline namespace v0 {

enum class FourierKind : std::uint8_t {
  forward,       ///< n complex numbers to n, sum_j x_j e^(-2 pi i j k / n)
  inverse,       ///< the same with e^(+2 pi i j k / n)
  real,          ///< n real numbers to the first n/2 + 1 of their forward transform
  real_inverse,  ///< such numbers to the n real ones of their inverse transform
};
constexpr bool is_real(FourierKind kind) {
  return kind == FourierKind::real || kind == FourierKind::real_inverse;
}
/// The largest prime factor that is a stage of its own; with a larger one all of the transform goes by a chirp.
inline constexpr std::int64_t kLargestRadix = 128;

/// One stage: number (j * rest + p) * done + q goes to (p * radix + k) * done + q, for p < rest, q < done.
struct FourierStage {
  std::int64_t radix = 1;
  std::int64_t rest = 1;
  std::int64_t done = 1;
  /// Block of radix - 1 times rest roots e^(-2 pi i p k / (radix rest)), at (k - 1) * rest + p; none where rest is 1.
  std::int64_t twiddles = -1;
  /// Block of the radix' own roots e^(-2 pi i j / radix); only for odd radices.
  std::int64_t roots = -1;
};

struct FourierPlan {
  FourierPlan(FourierKind kind, std::int64_t n);

  FourierKind kind;
  std::int64_t n;
  /// Whether a real signal is taken as n/2 complex numbers, its neighbours' pairs: for even n.
  bool paired = false;
  std::int64_t points = 1;  ///< complex numbers that are transformed: n, or n/2 of pairs
  bool chirped = false;     ///< Bluestein's algorithm
  std::int64_t size = 1;    ///< numbers of the stages: points, or with a chirp the power of two that holds 2 points - 1
  std::vector<FourierStage> stages;
  std::int64_t chirp = -1;   ///< block of `points` roots e^(-pi i j^2 / points)
  std::int64_t filter = -1;  ///< block of `size` numbers: the transform of the conjugate chirp, divided by size
  std::int64_t turns = -1;   ///< block of points + 1 roots e^(-2 pi i k / n); of pairs
  std::int64_t table = 0;    ///< elements of the table. It is the same for real and real_inverse, forward and inverse

  bool is_inverse() const { return kind == FourierKind::inverse || kind == FourierKind::real_inverse; }
  std::int64_t inputs() const { return kind == FourierKind::real_inverse ? n / 2 + 1 : n; }
  std::int64_t outputs() const { return kind == FourierKind::real ? n / 2 + 1 : n; }
  bool reads_pairs() const { return kind != FourierKind::real; }  ///< of a real and an imaginary part
  bool writes_pairs() const { return kind != FourierKind::real_inverse; }
};

}  // namespace v0
}  // namespace lockstep
