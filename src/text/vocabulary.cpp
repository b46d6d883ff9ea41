#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "text/token_model.h"

namespace lockstep {
inline namespace v0 {
namespace text {

// Added tokens may stand behind a gap, which costs memory: it is bounded.
constexpr std::int64_t kMaxGap = 65'536;

void Vocabulary::add(const std::string& where, const std::string& text, std::int64_t id, std::size_t count) {
  const auto fail = [&](std::string_view message) {
    throw FormatError(fmt::format("{}: token {} {}", where, in_quotes(text), message));
  };
  if (id < 0 || id >= static_cast<std::int64_t>(count) + kMaxGap) {
    fail(fmt::format("has the id {}, but there are {} tokens", id, count));
  }
  if (texts_.size() <= static_cast<std::size_t>(id)) texts_.resize(static_cast<std::size_t>(id) + 1);
  std::optional<std::string>& place = texts_[static_cast<std::size_t>(id)];
  if (place && *place != text) fail(fmt::format("has the id {}, which is that of {}", id, in_quotes(*place)));
  place = text;
  ids_.emplace(text, id);
}

std::optional<std::int64_t> Vocabulary::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* Vocabulary::text(std::int64_t id) const {
  if (id < 0 || id >= size() || !texts_[static_cast<std::size_t>(id)]) return nullptr;
  return &*texts_[static_cast<std::size_t>(id)];
}

std::vector<std::int64_t> Vocabulary::byte_tokens() const {
  std::vector<std::int64_t> result;
  for (int byte = 0; byte < 256; ++byte) result.push_back(find(fmt::format("<0x{:02X}>", byte)).value_or(-1));
  return result;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
