#include "cli/suggest.h"

#include <algorithm>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  // Rows of the usual table: of the letters of `a` so far, one fewer, and two fewer.
  std::vector<std::size_t> row(b.size() + 1), before(b.size() + 1), two_before(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_before, before);
    std::swap(before, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, before[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const bool longer = word.size() >= 3 && candidate.starts_with(word);
    const std::size_t found = longer ? 1 : distance(word, candidate);
    if (found >= least) continue;
    least = found;
    best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string found = nearest(word, candidates);
  return found.empty() ? "" : "; did you mean " + found + "?";
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
