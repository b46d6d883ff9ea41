// Unicode's normal forms (UAX #15) over the decompositions of unicode_data.h; Hangul by arithmetic.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "text/unicode.h"
#include "text/unicode_data.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

constexpr char32_t kSyllables = 0xac00;
constexpr char32_t kLeads = 0x1100;
constexpr char32_t kVowels = 0x1161;
constexpr char32_t kTrails = 0x11a7;
constexpr char32_t kVowelCount = 21;
constexpr char32_t kTrailCount = 28;
constexpr char32_t kSyllableCount = 11172;

struct Decomposition {
  std::u32string mapping;
  bool compatibility = false;
};

struct Tables {
  std::unordered_map<char32_t, Decomposition> decompositions;
  std::unordered_map<std::uint64_t, char32_t> compositions;
};

// Made from the packed table at the first use.
const Tables& tables() {
  static const Tables made = [] {
    Tables result;
    char32_t c = 0;
    char32_t first = 0;
    UnicodeReader firsts(UnicodeTable::decomposition_firsts), others(UnicodeTable::decomposition_others);
    for (UnicodeReader reader(UnicodeTable::decompositions); reader.more();) {
      c += reader.number();
      const std::uint32_t about = reader.number();
      first += static_cast<char32_t>(firsts.signed_number());
      std::u32string mapping(1, first);
      for (std::uint32_t i = 1; i < about >> 2; ++i) mapping += others.number();
      if ((about >> 1 & 1) != 0) result.compositions.emplace(std::uint64_t{first} << 32 | mapping[1], c);
      result.decompositions.emplace(c, Decomposition{std::move(mapping), (about & 1) != 0});
    }
    return result;
  }();
  return made;
}

int combining_class(char32_t c) {
  static const UnicodeRuns runs(UnicodeTable::combining_classes);
  return static_cast<int>(runs(c));
}

void decompose(char32_t c, bool compatibility, std::u32string& result) {
  if (c >= kSyllables && c < kSyllables + kSyllableCount) {
    const char32_t index = c - kSyllables;
    result += kLeads + index / (kVowelCount * kTrailCount);
    result += kVowels + index % (kVowelCount * kTrailCount) / kTrailCount;
    if (index % kTrailCount != 0) result += kTrails + index % kTrailCount;
    return;
  }
  const auto found = c < 0xa0 ? tables().decompositions.end() : tables().decompositions.find(c);
  if (found == tables().decompositions.end() || (found->second.compatibility && !compatibility)) {
    result += c;
    return;
  }
  for (const char32_t part : found->second.mapping) decompose(part, compatibility, result);
}

void order_marks(std::u32string& characters) {
  for (auto start = characters.begin(); start != characters.end();) {
    if (combining_class(*start) == 0) {
      ++start;
      continue;
    }
    const auto end = std::find_if(start, characters.end(), [](char32_t c) { return combining_class(c) == 0; });
    std::stable_sort(start, end, [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    start = end;
  }
}

// Zero where the two do not compose.
char32_t composed(char32_t first, char32_t second) {
  if (first >= kLeads && first < kLeads + 19 && second >= kVowels && second < kVowels + kVowelCount) {
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTrailCount;
  }
  const bool open =
      first >= kSyllables && first < kSyllables + kSyllableCount && (first - kSyllables) % kTrailCount == 0;
  if (open && second > kTrails && second < kTrails + kTrailCount) return first + (second - kTrails);
  const auto found = tables().compositions.find(std::uint64_t{first} << 32 | second);
  return found == tables().compositions.end() ? 0 : found->second;
}

std::u32string compose(const std::u32string& characters) {
  std::u32string result;
  std::size_t starter = std::u32string::npos;
  int last_class = 0;
  for (const char32_t c : characters) {
    const int own_class = combining_class(c);
    // A mark reaches its starter unless one of its own class, or another starter, stands between.
    const bool adjacent = starter != std::u32string::npos && result.size() == starter + 1;
    if (starter != std::u32string::npos && (adjacent || (last_class != 0 && last_class < own_class))) {
      if (const char32_t both = composed(result[starter], c)) {
        result[starter] = both;
        continue;
      }
    }
    if (own_class == 0) starter = result.size();
    last_class = own_class;
    result += c;
  }
  return result;
}

}  // namespace

std::u32string normalize(std::u32string_view characters, NormalForm form) {
  if (std::all_of(characters.begin(), characters.end(), [](char32_t c) { return c < 0x80; })) {
    return std::u32string(characters);
  }
  std::u32string result;
  const bool compatibility = form == NormalForm::nfkd || form == NormalForm::nfkc;
  for (const char32_t c : characters) decompose(c, compatibility, result);
  order_marks(result);
  return form == NormalForm::nfc || form == NormalForm::nfkc ? compose(result) : result;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
