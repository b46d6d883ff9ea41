#include "text/text_stream.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace lockstep {
inline namespace v0 {
namespace text {

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::int64_t> prompt)
    : tokenizer_(&tokenizer), tokens_(std::move(prompt)) {
  before_ = tokenizer_->decode(tokens_, {.skip_special_tokens = true});
}

std::string TextStream::rest(const std::string& whole) {
  const std::size_t known = before_.size() + given_.size();
  if (whole.size() <= known) return "";
  std::string added = whole.substr(known);
  given_ += added;
  return added;
}

std::string TextStream::add(std::int64_t token) {
  tokens_.push_back(token);
  std::string whole = tokenizer_->decode(tokens_, {.skip_special_tokens = true});
  while (whole.ends_with("\ufffd")) whole.resize(whole.size() - 3);
  return rest(whole);
}

std::string TextStream::finish() {
  return rest(tokenizer_->decode(tokens_, {.skip_special_tokens = true}));
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
