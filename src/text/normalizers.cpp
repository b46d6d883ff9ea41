#include <memory>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/base64.h"
#include "core/checked.h"
#include "text/charsmap.h"
#include "text/regex.h"
#include "text/steps.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

using io::JsonFields;

std::u32string characters_of(const JsonFields& fields, const char* key) {
  const std::optional<std::u32string> result = decode_utf8(fields.text(key));
  if (!result) fields.fail(key, "is not UTF-8");
  return *result;
}

std::u32string replace_all(const std::u32string& text, const std::u32string& what, const std::u32string& by) {
  std::u32string result;
  std::size_t from = 0;
  for (std::size_t at; (at = text.find(what, from)) != std::u32string::npos; from = at + what.size()) {
    result.append(text, from, at - from).append(by);
  }
  return result.append(text, from);
}

Normalizer replace_normalizer(const JsonFields& fields) {
  const std::u32string content = characters_of(fields, "content");
  const JsonFields pattern = fields.object("pattern");
  if (pattern.has("String")) {
    const std::u32string what = characters_of(pattern, "String");
    if (what.empty()) pattern.fail("String", "is empty");
    return [what, content](const std::u32string& text) { return replace_all(text, what, content); };
  }
  const auto regex = std::make_shared<Regex>(pattern.text("Regex"));
  return [regex, content](const std::u32string& text) {
    std::u32string result;
    std::size_t from = 0;
    for (const Match& match : regex->all(text)) {
      result.append(text, from, match.begin - from).append(content);
      from = match.end;
    }
    return result.append(text, from);
  };
}

bool is_chinese(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

Normalizer strip_normalizer(const JsonFields& fields) {
  const bool left = fields.flag_or("strip_left", true);
  const bool right = fields.flag_or("strip_right", true);
  return [left, right](const std::u32string& text) {
    std::size_t begin = 0;
    std::size_t end = text.size();
    while (left && begin < end && is_space(text[begin])) ++begin;
    while (right && end > begin && is_space(text[end - 1])) --end;
    return text.substr(begin, end - begin);
  };
}

// The package tokenizers' way: of a grapheme cluster below 6 bytes the shortest key at its front decides, and then the
// whole cluster is replaced; of longer ones, and those without, each character is looked up.
std::u32string precompiled(const CharsMap& table, const std::u32string& text) {
  constexpr std::size_t kShort = 6;
  std::string result;
  std::size_t begin = 0;
  for (const std::size_t end : grapheme_ends(text)) {
    const std::string cluster = encode_utf8(std::u32string_view(text).substr(begin, end - begin));
    const auto whole = cluster.size() < kShort ? table.shortest(cluster) : std::nullopt;
    if (whole) {
      result += whole->by;
    } else {
      for (; begin < end; ++begin) {
        const std::string character = encode_utf8(text[begin]);
        const auto own = table.shortest(character);
        result += own ? own->by : std::string_view(character);
      }
    }
    begin = end;
  }
  return decode_utf8_lossy(result);
}

Normalizer precompiled_normalizer(const JsonFields& fields) {
  const std::optional<std::string> bytes = bytes_of_base64(fields.text_or("precompiled_charsmap", ""));
  if (!bytes) fields.fail("precompiled_charsmap", "is no base64");
  const auto table = std::make_shared<CharsMap>(fields.where(), *bytes);
  return [table](const std::u32string& text) { return precompiled(*table, text); };
}

}  // namespace

// "BERT: Pre-training of Deep Bidirectional Transformers", its BasicTokenizer.
Normalizer bert_normalizer(BertNormalizing how) {
  return [how](std::u32string text) {
    const auto [clean, chinese, strip, lower] = how;
    std::u32string result;
    const std::uint32_t control = *category_mask("C") & ~mask_of(Category::Cn) & ~mask_of(Category::Cs);
    for (const char32_t c : text) {
      const bool line = c == U'\t' || c == U'\n' || c == U'\r';
      if (clean && (c == 0 || c == 0xfffd || (!line && (mask_of(bert_category(c)) & control) != 0))) continue;
      result += clean && (line || is_space(c)) ? U' ' : c;
    }
    if (chinese) {
      text = std::move(result);
      result.clear();
      for (const char32_t c : text) {
        if (is_chinese(c)) {
          result += U' ';
          result += c;
          result += U' ';
        } else {
          result += c;
        }
      }
    }
    if (strip) {
      result = normalize(result, NormalForm::nfd);
      std::erase_if(result, [](char32_t c) { return bert_category(c) == Category::Mn; });
    }
    return lower ? to_lower(result) : result;
  };
}

Normalizer read_normalizer(const nlohmann::json* json, const std::string& where) {
  if (json == nullptr) return nullptr;
  const JsonFields fields(*json, where);
  const std::string type = fields.text("type");
  const auto form = [](NormalForm f) { return [f](const std::u32string& text) { return normalize(text, f); }; };
  if (type == "NFC") return form(NormalForm::nfc);
  if (type == "NFD") return form(NormalForm::nfd);
  if (type == "NFKC") return form(NormalForm::nfkc);
  if (type == "NFKD") return form(NormalForm::nfkd);
  if (type == "Lowercase") return [](const std::u32string& text) { return to_lower(text); };
  if (type == "StripAccents") {
    return [](std::u32string text) {
      std::erase_if(text, is_mark);
      return text;
    };
  }
  if (type == "Strip") return strip_normalizer(fields);
  if (type == "Replace") return replace_normalizer(fields);
  if (type == "BertNormalizer") {
    const bool lower = fields.flag_or("lowercase", true);
    return bert_normalizer({.clean = fields.flag_or("clean_text", true),
                            .chinese = fields.flag_or("handle_chinese_chars", true),
                            .strip_accents = fields.flag_or("strip_accents", lower),
                            .lower = lower});
  }
  if (type == "Precompiled") return precompiled_normalizer(fields);
  if (type == "Prepend") {
    const std::u32string front = characters_of(fields, "prepend");
    return [front](const std::u32string& text) { return text.empty() ? text : front + text; };
  }
  if (type == "Sequence") {
    std::vector<Normalizer> steps;
    for (const auto& step : fields.array("normalizers")) steps.push_back(read_normalizer(&step, where));
    return [steps](std::u32string text) {
      for (const Normalizer& step : steps) text = step(std::move(text));
      return text;
    };
  }
  fields.fail("type", fmt::format("the normalizer {} is not supported", in_quotes(type)));
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
