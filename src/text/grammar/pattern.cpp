// A pattern becomes an automaton (Thompson's), and a state of it with the characters read so far a rule: so a rule ends
// with the next one, and the matcher's stacks do not grow.
#include "text/grammar/pattern.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "text/grammar/rules.h"
#include "text/regex_node.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

using Node = RegexNode;

// What is around the match.
constexpr std::size_t kAnyCharacters = 0;

// As ECMAScript's dialect has them: without intersections and comparisons that ignore case.
std::vector<CharacterRange> ranges_of(const CharacterSet& set) {
  std::vector<CharacterRange> result;
  for (const CharacterSet::Range& range : set.ranges) result.emplace_back(range.first, range.last);
  for (const CharacterRange& range : category_ranges(set.categories)) result.push_back(range);
  for (const CharacterSet& part : set.parts) {
    for (const CharacterRange& range : ranges_of(part)) result.push_back(range);
  }
  return normal_ranges(std::move(result), set.inverted);
}

// One of the characters, as JSON writes it.
std::string json_character(const std::vector<CharacterRange>& ranges) {
  const auto has = [&](char32_t c) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const CharacterRange& range) { return c >= range.first && c <= range.second; });
  };
  constexpr std::pair<char32_t, const char*> kShort[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "b"}, {'\f', "f"},
                                                         {'\n', "n"},   {'\r', "r"},    {'\t', "t"}};
  std::string letters;
  for (const auto& [c, letter] : kShort) letters += has(c) ? letter : "";
  std::string digits[2];
  for (char32_t c = 0; c < 0x20; ++c) {
    const bool named =
        std::any_of(std::begin(kShort), std::end(kShort), [&](const auto& own) { return own.first == c; });
    if (named || !has(c)) continue;
    const auto digit = static_cast<std::uint32_t>(c & 15);
    digits[c >> 4] += digit < 10 ? fmt::format("{}", digit) : fmt::format("{:x}{:X}", digit, digit);
  }
  std::string plain;
  for (const CharacterRange& range : ranges) {
    // Cut at what needs an escape.
    char32_t first = std::max<char32_t>(range.first, 0x20);
    for (const char32_t stop : {U'"', U'\\', char32_t{0x110000}}) {
      const char32_t last = std::min<char32_t>(range.second, stop - 1);
      if (first <= last) {
        plain +=
            fmt::format("\\U{:08x}-\\U{:08x}", static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last));
      }
      first = std::max<char32_t>(first, stop + 1);
    }
  }
  std::string result;
  const auto add = [&](const char* before, const std::string& characters) {
    if (!characters.empty()) result += fmt::format("{}{}[{}]", result.empty() ? "" : " | ", before, characters);
  };
  add("", plain);
  add("\"\\\\\" ", letters);
  add("\"\\\\u000\" ", digits[0]);
  add("\"\\\\u001\" ", digits[1]);
  return result;
}

class PatternConverter {
 public:
  PatternConverter(std::string_view pattern, std::int64_t least, std::int64_t most, const std::string& name,
                   std::size_t& steps_left)
      : pattern_(pattern), name_(name), least_(least), most_(most), steps_left_(steps_left) {}

  std::string convert() {
    // Searched in the whole text: any characters, the pattern, any characters.
    const std::size_t final = add({Part::Kind::final, kAnyCharacters, {}});
    const std::size_t begin = add({Part::Kind::branch, kAnyCharacters, {}});
    const std::size_t before = add({Part::Kind::character, kAnyCharacters, {begin}});
    const std::size_t body = compile(parse_regex(pattern_, RegexDialect::ecmascript), final);
    parts_[begin].to = {before, body};
    walk(begin);
    return rules();
  }

 private:
  struct Part {
    enum class Kind : std::uint8_t { character, branch, start, end, final };
    Kind kind = Kind::branch;
    std::size_t set = kAnyCharacters;
    std::vector<std::size_t> to;
  };
  // Where a text can be: in front of a part, so many characters read (counted as far as they matter), and whether `$`
  // has been passed, behind which nothing is read.
  struct Place {
    std::size_t part = 0;
    std::int64_t count = 0;
    bool ended = false;
    auto operator<=>(const Place&) const = default;
  };
  struct Step {
    std::size_t to = 0;
    bool reads = false;
  };
  struct PlaceSteps {
    Place place;
    std::vector<Step> steps;
  };

  [[noreturn]] void fail(std::string_view message) const {
    throw FormatError(fmt::format("the pattern {} {}", in_quotes(pattern_), message));
  }

  void spend() {
    if (steps_left_ == 0) {
      fail(fmt::format("needs more than {} steps, repetitions and lengths written out, with the patterns before it",
                       kMostPatternSteps));
    }
    --steps_left_;
  }

  std::size_t add(Part part) {
    parts_.push_back(std::move(part));
    return parts_.size() - 1;
  }

  // A node in front of the part `next`.
  std::size_t compile(const Node& node, std::size_t next) {
    spend();  // for nodes that add no part, too: an empty group may be repeated often
    switch (node.kind) {
      case Node::Kind::set: return add({Part::Kind::character, set_number(node.set), {next}});
      case Node::Kind::start: return add({Part::Kind::start, kAnyCharacters, {next}});
      case Node::Kind::end: return add({Part::Kind::end, kAnyCharacters, {next}});
      case Node::Kind::sequence:
        for (std::size_t i = node.children.size(); i-- > 0;) next = compile(node.children[i], next);
        return next;
      case Node::Kind::alternatives: {
        Part part;
        for (const Node& child : node.children) part.to.push_back(compile(child, next));
        return add(std::move(part));
      }
      case Node::Kind::repeat: return repeat(node, next);
      case Node::Kind::look_ahead: fail("looks ahead, which is not offered: a grammar reads each character once");
      case Node::Kind::look_behind: fail("looks behind, which is not offered: a grammar reads each character once");
    }
    return next;
  }

  std::size_t repeat(const Node& node, std::size_t next) {
    const Node& child = node.children.front();
    std::size_t entry = next;
    if (node.most == Node::kUnlimited) {
      entry = add({});
      const std::size_t body = compile(child, entry);
      parts_[entry].to = {body, next};
    } else {
      for (std::uint32_t i = node.least; i < node.most; ++i) {
        const std::size_t body = compile(child, entry);
        entry = add({Part::Kind::branch, kAnyCharacters, {body, next}});
      }
    }
    for (std::uint32_t i = 0; i < node.least; ++i) entry = compile(child, entry);
    return entry;
  }

  std::size_t set_number(const CharacterSet& set) {
    std::vector<CharacterRange> ranges = ranges_of(set);
    const auto [found, added] = set_numbers_.emplace(ranges, set_numbers_.size() + 1);
    return found->second;
  }

  std::size_t reach(const Place& place) {
    const auto [found, added] = numbers_.emplace(place, places_.size());
    if (added) places_.push_back({place, {}});
    spend();
    return found->second;
  }

  // All places that a text can come to.
  void walk(std::size_t begin) {
    reach({begin, 0, false});
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Place place = places_[i].place;
      const Part& part = parts_[place.part];
      std::vector<Step> steps;
      const auto read = [&](std::size_t to) {
        if (place.ended || place.count == most_) return;
        const std::int64_t count =
            most_ < 0 ? std::min(place.count + 1, std::max<std::int64_t>(least_, 1)) : place.count + 1;
        steps.push_back({reach({to, count, false}), true});
      };
      switch (part.kind) {
        case Part::Kind::character: read(part.to.front()); break;
        case Part::Kind::final: read(place.part); break;
        case Part::Kind::start:
          if (place.count > 0) break;
          [[fallthrough]];
        case Part::Kind::branch:
          for (const std::size_t to : part.to) steps.push_back({reach({to, place.count, place.ended}), false});
          break;
        case Part::Kind::end: steps.push_back({reach({part.to.front(), place.count, true}), false}); break;
      }
      places_[i].steps = std::move(steps);
    }
  }

  bool accepts(const Place& place) const {
    return parts_[place.part].kind == Part::Kind::final && place.count >= least_;
  }

  // From which a text can end.
  std::vector<bool> live_places(const std::vector<std::string>& sets) const {
    std::vector<std::vector<std::size_t>> back(places_.size());
    std::vector<bool> live(places_.size(), false);
    std::vector<std::size_t> work;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i].place;
      for (const Step& step : places_[i].steps) {
        if (!step.reads || !sets[parts_[place.part].set].empty()) back[step.to].push_back(i);
      }
      if (accepts(place)) work.push_back(i);
    }
    while (!work.empty()) {
      const std::size_t i = work.back();
      work.pop_back();
      if (live[i]) continue;
      live[i] = true;
      work.insert(work.end(), back[i].begin(), back[i].end());
    }
    return live;
  }

  std::string rules() const {
    std::vector<std::string> sets(set_numbers_.size() + 1);
    sets[kAnyCharacters] = "char";
    std::string result;
    for (const auto& [ranges, number] : set_numbers_) {
      const std::string body = json_character(ranges);
      if (body.empty()) continue;
      sets[number] = fmt::format("{}-c{}", name_, number);
      result += fmt::format("{} ::= {}\n", sets[number], body);
    }
    const std::vector<bool> live = live_places(sets);
    if (!live.front()) fail("is found in no text of these lengths");
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!live[i]) continue;
      const auto& [place, steps] = places_[i];
      std::string body = accepts(place) ? "\"\"" : "";
      for (const Step& step : steps) {
        if (!live[step.to]) continue;
        const std::string& set = sets[parts_[place.part].set];
        if (step.reads && set.empty()) continue;
        body += fmt::format("{}{}{}-{}", body.empty() ? "" : " | ", step.reads ? set + " " : "", name_, step.to);
      }
      result += fmt::format("{}-{} ::= {}\n", name_, i, body);
    }
    return result + fmt::format("{} ::= {}-0\n", name_, name_);
  }

  std::string_view pattern_;
  std::string name_;
  std::int64_t least_;
  std::int64_t most_;
  std::vector<Part> parts_;
  std::map<std::vector<CharacterRange>, std::size_t> set_numbers_;
  std::vector<PlaceSteps> places_;
  std::map<Place, std::size_t> numbers_;
  std::size_t& steps_left_;
};

}  // namespace

std::string pattern_rules(std::string_view pattern, std::int64_t least, std::int64_t most, const std::string& name,
                          std::size_t& steps_left) {
  return PatternConverter(pattern, least, most, name, steps_left).convert();
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
