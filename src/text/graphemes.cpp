// Extended grapheme clusters, by the rules GB1 to GB999 of UAX #29.
#include "text/unicode.h"
#include "text/unicode_data.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

// As tools/make_unicode_tables.py numbers them.
enum class Break : std::uint8_t { other, cr, lf, control, zwj, extend, regional, prepend, spacing, l, v, t, lv, lvt };

struct Properties {
  std::uint32_t bits = 0;

  Break kind() const { return static_cast<Break>(bits & 15); }
  bool pictographic() const { return (bits & 16) != 0; }
  bool consonant() const { return (bits & 32) != 0; }
  bool linker() const { return (bits & 64) != 0; }
  bool extends_conjunct() const { return (bits & 128) != 0; }
};

Properties properties_of(char32_t c) {
  static const UnicodeRuns runs(UnicodeTable::graphemes);
  return {runs(c)};
}

/// What of the characters before a place the rules look at.
struct Before {
  Break kind = Break::other;
  bool odd_regional = false;    ///< An odd number of regional indicators stands before.
  bool picture = false;         ///< A pictographic one, and only what extends it,
  bool picture_joined = false;  ///< and a joiner behind that.
  bool conjunct = false;        ///< A consonant, and only linkers and what extends it,
  bool linked = false;          ///< of which one is a linker.

  void take(Properties next) {
    odd_regional = next.kind() == Break::regional && !odd_regional;
    picture_joined = picture && next.kind() == Break::zwj;
    picture = next.pictographic() || (picture && next.kind() == Break::extend);
    linked = conjunct && (linked || next.linker()) && (next.linker() || next.extends_conjunct());
    conjunct = next.consonant() || (conjunct && (next.linker() || next.extends_conjunct()));
    kind = next.kind();
  }
};

bool joins(const Before& before, Properties next) {
  const Break a = before.kind;
  const Break b = next.kind();
  if (a == Break::cr && b == Break::lf) return true;                                                        // GB3
  if (a == Break::control || a == Break::cr || a == Break::lf) return false;                                // GB4
  if (b == Break::control || b == Break::cr || b == Break::lf) return false;                                // GB5
  if (a == Break::l && (b == Break::l || b == Break::v || b == Break::lv || b == Break::lvt)) return true;  // GB6
  if ((a == Break::lv || a == Break::v) && (b == Break::v || b == Break::t)) return true;                   // GB7
  if ((a == Break::lvt || a == Break::t) && b == Break::t) return true;                                     // GB8
  if (b == Break::extend || b == Break::zwj || b == Break::spacing) return true;                            // GB9, 9a
  if (a == Break::prepend) return true;                                                                     // GB9b
  if (before.linked && next.consonant()) return true;                                                       // GB9c
  if (before.picture_joined && next.pictographic()) return true;                                            // GB11
  return before.odd_regional && b == Break::regional;                                                       // GB12, 13
}

}  // namespace

std::vector<std::size_t> grapheme_ends(std::u32string_view characters) {
  std::vector<std::size_t> result;
  Before before;
  for (std::size_t i = 0; i < characters.size(); ++i) {
    const Properties next = properties_of(characters[i]);
    if (i > 0 && !joins(before, next)) result.push_back(i);
    before.take(next);
  }
  if (!characters.empty()) result.push_back(characters.size());
  return result;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
