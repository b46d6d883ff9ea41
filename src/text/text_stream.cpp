#include "text/text_stream.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace lockstep {
inline namespace v0 {
namespace text {

namespace {

constexpr std::string_view kReplaced = "\ufffd";

std::string without_incomplete(std::string text) {
  while (text.ends_with(kReplaced)) text.resize(text.size() - kReplaced.size());
  return text;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::int64_t> prompt)
    : tokenizer_(&tokenizer), tokens_(std::move(prompt)), later_(tokens_.size()), known_(decode(0)) {}

std::string TextStream::decode(std::size_t first) const {
  const auto begin = tokens_.begin() + static_cast<std::ptrdiff_t>(first);
  return tokenizer_->decode({begin, tokens_.end()}, {.skip_special_tokens = true});
}

std::string TextStream::take(bool all) {
  const auto settled = [&](const std::string& text) { return all ? text : without_incomplete(text); };
  std::string whole = decode(0);
  std::string now = settled(whole);
  std::string added;
  if (now.starts_with(known_)) {
    added = now.substr(known_.size());
    known_ = std::move(now);
    known_later_ += added;
  } else {
    // Beside what came before they would change it.
    whole = decode(later_);
    now = settled(whole);
    if (!now.starts_with(known_later_) || now.size() == known_later_.size()) return "";
    added = now.substr(known_later_.size());
    tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(later_));
    later_ = 0;
    known_ = known_later_ = std::move(now);
  }
  if (!added.empty() && known_.size() == whole.size()) {
    tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(later_));
    later_ = tokens_.size();
    known_ = decode(0);
    known_later_.clear();
  }
  given_ += added;
  return added;
}

std::string TextStream::add(std::int64_t token) {
  tokens_.push_back(token);
  return take(false);
}

std::string TextStream::finish() {
  return take(true);
}

std::size_t find_stop(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops) {
    if (!stop.empty()) first = std::min(first, text.find(stop));
  }
  return first;
}

std::size_t possible_stop(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t size = std::min(stop.size(), text.size()); size > longest; --size) {
      if (text.ends_with(std::string_view(stop).substr(0, size))) longest = size;
    }
  }
  return longest;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
