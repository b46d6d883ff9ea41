#include "kernels/fourier.h"

namespace lockstep {
inline namespace v0 {
namespace {

// The largest first, so that later stages have long runs of neighbours: odd primes and 8; what is left of the twos is
// 2, 4 or 4 times 4. Nothing where a prime factor is too large.
std::vector<std::int64_t> radices_of(std::int64_t n) {
  std::vector<std::int64_t> primes;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  for (std::int64_t prime = 3; prime < kLargestRadix; prime += 2) {
    for (; n % prime == 0; n /= prime) primes.insert(primes.begin(), prime);
  }
  if (n > 1) return {};
  std::vector<std::int64_t> even;
  while (twos >= 3 && twos != 4) {
    even.push_back(8);
    twos -= 3;
  }
  for (; twos >= 2; twos -= 2) even.push_back(4);
  if (twos == 1) even.push_back(2);
  std::vector<std::int64_t> radices;
  auto prime = primes.begin();
  for (const std::int64_t radix : even) {
    while (prime != primes.end() && *prime > radix) radices.push_back(*prime++);
    radices.push_back(radix);
  }
  radices.insert(radices.end(), prime, primes.end());
  return radices;
}

}  // namespace

FourierPlan::FourierPlan(FourierKind a_kind, std::int64_t length)
    : kind(a_kind), n(length), paired(is_real(a_kind) && length % 2 == 0), points(paired ? length / 2 : length) {
  const auto block = [this](std::int64_t count) {
    const std::int64_t at = table;
    table += 2 * count;
    return at;
  };
  size = points;
  std::vector<std::int64_t> radices = radices_of(points);
  if (radices.empty() && points > 1) {
    chirped = true;
    size = 1;
    while (size < 2 * points - 1) size *= 2;
    radices = radices_of(size);
    chirp = block(points);
    filter = block(size);
  }
  std::int64_t done = 1;
  for (const std::int64_t radix : radices) {
    FourierStage stage{.radix = radix, .rest = size / done / radix, .done = done};
    if (stage.rest > 1) stage.twiddles = block((radix - 1) * stage.rest);
    if (radix % 2 == 1) stage.roots = block(radix);
    stages.push_back(stage);
    done *= radix;
  }
  if (paired) turns = block(points + 1);
}

}  // namespace v0
}  // namespace lockstep
