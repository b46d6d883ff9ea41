// The search for the cheapest factors, whose results are kept.
#include "fft/radices.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace lockstep {
inline namespace v0 {
namespace fft {
namespace {

// Lengths up to this are one product, and so is every prime factor up to the largest radix.
constexpr std::int64_t kShort = 64;
constexpr std::int64_t kLargestRadix = 128;
// Reading and writing a stage, in multiply-adds per element and row of its matrix.
constexpr std::int64_t kStage = 96;

struct Cut {
  std::int64_t cost = -1;  ///< less than 0: there is none
  std::int64_t radix = 0;  ///< the largest one
};

// The cheapest cut of n into radices up to `most`; of equal cost the one with the largest radix.
Cut cheapest(std::int64_t n, std::int64_t most, std::map<std::pair<std::int64_t, std::int64_t>, Cut>& known) {
  if (n == 1) return {.cost = 0, .radix = 1};
  const auto [entry, fresh] = known.try_emplace({n, most});
  if (!fresh) return entry->second;
  Cut best;
  for (std::int64_t radix = std::min(n, most); radix >= 2; --radix) {
    if (n % radix != 0) continue;
    const Cut rest = cheapest(n / radix, radix, known);
    if (rest.cost < 0) continue;
    const std::int64_t cost = rest.cost + radix + kStage;
    if (best.cost < 0 || cost < best.cost) best = {.cost = cost, .radix = radix};
  }
  known[{n, most}] = best;
  return best;
}

std::vector<std::int64_t> search(std::int64_t n) {
  std::map<std::pair<std::int64_t, std::int64_t>, Cut> known;
  std::vector<std::int64_t> radices;
  std::int64_t most = kLargestRadix;
  while (n > 1) {
    const Cut next = cheapest(n, most, known);
    if (next.cost < 0) return {};
    radices.push_back(next.radix);
    n /= next.radix;
    most = next.radix;
  }
  return radices;
}

// What was asked for so far; a program has few lengths, and small transforms notice the search.
struct KnownCuts {
  std::mutex mutex;
  std::map<std::int64_t, std::vector<std::int64_t>> radices;

  static KnownCuts& all() {
    static KnownCuts& known = *new KnownCuts;
    return known;
  }
};
constexpr std::size_t kMostKnown = 4096;

}  // namespace

std::vector<std::int64_t> radices_of(std::int64_t n) {
  if (n <= kShort) return {n};
  KnownCuts& known = KnownCuts::all();
  const std::scoped_lock lock(known.mutex);
  if (const auto entry = known.radices.find(n); entry != known.radices.end()) return entry->second;
  if (known.radices.size() >= kMostKnown) known.radices.clear();
  return known.radices.emplace(n, search(n)).first->second;
}

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
