#include "server/infill.h"

#include <algorithm>
#include <iterator>

#include "server/http.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

// In front of what is before, of what is behind, and of the middle.
constexpr const char* kInfillTokens[][3] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},  // Qwen, CodeGemma
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},        // StarCoder, Granite
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},  // DeepSeek
};

std::vector<std::int64_t> infill_tokens(const text::Tokenizer& tokenizer) {
  for (const auto& names : kInfillTokens) {
    std::vector<std::int64_t> result;
    for (const char* name : names) {
      if (const auto id = tokenizer.find(name)) result.push_back(*id);
    }
    if (result.size() == std::size(names)) return result;
  }
  throw HttpError(400, "suffix: this model has no tokens for the middle of a text");
}

// What stands in front of every text.
std::vector<std::int64_t> beginning(const text::Tokenizer& tokenizer) {
  std::vector<std::int64_t> none = tokenizer.encode("");
  const std::vector<std::int64_t> some = tokenizer.encode("a");
  none.erase(std::mismatch(none.begin(), none.end(), some.begin(), some.end()).first, none.end());
  return none;
}

}  // namespace

std::vector<std::int64_t> infill_prompt(const text::Tokenizer& tokenizer, const std::vector<std::int64_t>& before,
                                        const std::string& suffix) {
  const std::vector<std::int64_t> marks = infill_tokens(tokenizer);
  const std::vector<std::int64_t> behind = tokenizer.encode(suffix, {.add_special_tokens = false});
  std::vector<std::int64_t> result = beginning(tokenizer);
  result.push_back(marks[0]);
  result.insert(result.end(), before.begin(), before.end());
  result.push_back(marks[1]);
  result.insert(result.end(), behind.begin(), behind.end());
  result.push_back(marks[2]);
  return result;
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
