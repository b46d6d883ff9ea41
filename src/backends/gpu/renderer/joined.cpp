#include "backends/gpu/renderer/joined.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::size_t kMostJoinedAddresses = 24;  ///< Metal binds each

// What stands for a launch's own words, addresses and workgroups in the joined one.
struct Places {
  int words = 0;       ///< before its own
  int addresses = 0;   ///< the same
  int group_word = 0;  ///< its first workgroup, and how many it has
};

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// A number at `at`, which moves behind it.
int number_at(std::string_view text, std::size_t& at) {
  while (text[at] == ' ' || text[at] == ',' || text[at] == '(') ++at;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  LOCKSTEP_ASSERT(error == std::errc());
  at = static_cast<std::size_t>(end - text.data());
  return number;
}

std::string moved(std::string_view body, const Places& places) {
  std::string result;
  for (std::size_t i = 0; i < body.size();) {
    std::size_t end = i;
    while (end < body.size() && is_of_name(body[end])) ++end;
    if (end == i) {
      result += body[i++];
      continue;
    }
    const std::string_view name = body.substr(i, end - i);
    i = end;
    if (name == "GROUP") {
      result += fmt::format("(GROUP - P({}))", places.group_word);
    } else if (name == "GROUPS") {
      result += fmt::format("P({})", places.group_word + 1);
    } else if (name == "P") {
      result += fmt::format("P({}", number_at(body, i) + places.words);
    } else if (name == "MEMORY_AT" || name == "EARLY_MEMORY_AT") {
      const int address = number_at(body, i) + places.addresses;
      result += fmt::format("{}({}, {}", name, address, number_at(body, i) + places.words);
    } else {
      result += name;
    }
  }
  return result;
}

bool are_alike(const KernelText& a, const KernelText& b) {
  return a.threads == b.threads && a.functions == b.functions && a.copies == b.copies &&
         a.integer_tiles == b.integer_tiles && a.attention_tiles == b.attention_tiles &&
         a.byte_products == b.byte_products && a.byte_fragments == b.byte_fragments &&
         a.warpgroup_bytes == b.warpgroup_bytes && a.warpgroup_halves == b.warpgroup_halves &&
         a.byte_matrices == b.byte_matrices;
}

// Of one name are one array, as large as the largest.
bool add_shared(std::vector<SharedArray>& all, const std::vector<SharedArray>& more) {
  for (const SharedArray& array : more) {
    const auto known = std::find_if(all.begin(), all.end(), [&](const SharedArray& a) { return a.name == array.name; });
    if (known == all.end()) {
      all.push_back(array);
    } else if (known->type != array.type || known->fours != array.fours) {
      return false;
    } else {
      known->size = std::max(known->size, array.size);
    }
  }
  return true;
}

}  // namespace

std::optional<Launch> joined(std::span<const Launch> launches, const RenderLimits& limits) {
  Launch result;
  KernelText& text = result.text;
  text = launches.front().text;
  text.body.clear();
  text.shared.clear();
  text.addresses.clear();
  result.groups = 0;
  std::size_t words = 0;
  for (const Launch& launch : launches) words += launch.words.size();
  std::vector<std::uint32_t> group_words;
  for (const Launch& launch : launches) {
    if (launch.call || launch.copies_from >= 0 || launch.makes >= 0 || !are_alike(text, launch.text)) {
      return std::nullopt;
    }
    if (!add_shared(text.shared, launch.text.shared)) return std::nullopt;
    // Registers for those which need most.
    text.groups_per_unit = std::min(text.groups_per_unit, launch.text.groups_per_unit);
    const Places places{.words = static_cast<int>(result.words.size()),
                        .addresses = static_cast<int>(text.addresses.size()),
                        .group_word = static_cast<int>(words + group_words.size())};
    const bool last = &launch == &launches.back();
    const bool waits = launch.text.body.find("AFTER_EARLIER()") != std::string::npos;
    text.body += fmt::format("  {}{}{{\n{}{}  }}\n", &launch == &launches.front() ? "" : "else ",
                             last ? "" : fmt::format("if (GROUP < P({})) ", places.group_word + 2),
                             waits ? "" : "  AFTER_EARLIER()\n", moved(launch.text.body, places));
    for (const int word : launch.text.addresses) text.addresses.push_back(word + places.words);
    for (Patch patch : launch.patches) {
      patch.word += places.words;
      result.patches.push_back(patch);
    }
    for (const int word : launch.early) result.early.push_back(word + places.words);
    result.words.insert(result.words.end(), launch.words.begin(), launch.words.end());
    group_words.push_back(result.groups);
    group_words.push_back(launch.groups);
    result.groups += launch.groups;
  }
  result.words.insert(result.words.end(), group_words.begin(), group_words.end());
  text.words = static_cast<int>(result.words.size());
  const bool fits = text.addresses.size() <= kMostJoinedAddresses && result.groups <= limits.groups &&
                    shared_bytes_of(text) + 64 <= limits.shared_bytes;
  if (!fits) return std::nullopt;
  return result;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
