#include <algorithm>
#include <functional>
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

using Step = std::function<std::u32string(std::u32string)>;

// Steps that make the characters of the text's front of these alone.
Normalizer each_by_itself(Step step) {
  return [step = std::move(step)](Piece piece) {
    const std::size_t front = piece.front == 0 ? 0 : step(piece.text.substr(0, piece.front)).size();
    piece.text = step(std::move(piece.text));
    piece.front = std::min(front, piece.text.size());
    return piece;
  };
}

// As tokenizers aligns it: what is put in belongs to the last character that it replaces.
Piece replaced(const Piece& piece, const std::vector<Match>& matches, const std::u32string& content) {
  Piece result;
  const auto append = [&](std::u32string_view text, bool front) {
    if (front) result.front += text.size();
    result.text += text;
  };
  const auto keep = [&](std::size_t begin, std::size_t end) {
    const Piece part = part_of(piece, begin, end);
    result.front += part.front;
    result.text += part.text;
  };
  std::size_t from = 0;
  for (const Match& match : matches) {
    keep(from, match.begin);
    append(content, match.end <= piece.front);
    from = match.end;
  }
  keep(from, piece.text.size());
  return result;
}

Normalizer replace_normalizer(const JsonFields& fields) {
  const std::u32string content = characters_of(fields, "content");
  const JsonFields pattern = fields.object("pattern");
  if (pattern.has("String")) {
    const std::u32string what = characters_of(pattern, "String");
    if (what.empty()) pattern.fail("String", "is empty");
    return [what, content](const Piece& piece) { return replaced(piece, all_of(piece.text, what), content); };
  }
  const auto regex = std::make_shared<Regex>(pattern.text("Regex"), true);
  return [regex, content](const Piece& piece) { return replaced(piece, regex->all(piece.text), content); };
}

bool is_chinese(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

Normalizer strip_normalizer(const JsonFields& fields) {
  const bool left = fields.flag_or("strip_left", true);
  const bool right = fields.flag_or("strip_right", true);
  return [left, right](const Piece& piece) {
    std::size_t begin = 0;
    std::size_t end = piece.text.size();
    while (left && begin < end && is_space(piece.text[begin])) ++begin;
    while (right && end > begin && is_space(piece.text[end - 1])) --end;
    return part_of(piece, begin, end);
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

// Control characters go, what is white space or invisible becomes spaces.
std::u32string nmt(const std::u32string& text) {
  std::u32string result;
  for (const char32_t c : text) {
    const bool gone = (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
    const bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                       c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
    if (!gone) result += space ? U' ' : c;
  }
  return result;
}

std::u32string characters_of_bytes(const std::u32string& text) {
  std::u32string result;
  for (const char byte : encode_utf8(text)) result += character_of_byte(static_cast<unsigned char>(byte));
  return result;
}

Normalizer precompiled_normalizer(const JsonFields& fields) {
  const std::optional<std::string> bytes = bytes_of_base64(fields.text_or("precompiled_charsmap", ""));
  if (!bytes) fields.fail("precompiled_charsmap", "is no base64");
  const auto table = std::make_shared<CharsMap>(fields.where(), *bytes);
  // A first character of which nothing is left counts as there, as in tokenizers.
  return [table](const Piece& piece) {
    const std::size_t front = precompiled(*table, piece.text.substr(0, piece.front)).size();
    std::u32string text = precompiled(*table, piece.text);
    const std::size_t most = text.size();
    return Piece{std::move(text), piece.front == 0 ? 0 : std::min(std::max<std::size_t>(front, 1), most)};
  };
}

}  // namespace

// "BERT: Pre-training of Deep Bidirectional Transformers", its BasicTokenizer.
Normalizer bert_normalizer(BertNormalizing how) {
  return each_by_itself([how](std::u32string text) {
    const auto [clean, chinese, strip, lower] = how;
    std::u32string result;
    for (const char32_t c : text) {
      const bool line = c == U'\t' || c == U'\n' || c == U'\r';
      if (clean && (c == 0 || c == 0xfffd || (!line && is_bert_control(c)))) continue;
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
      std::erase_if(result, is_bert_mark);
    }
    return lower ? to_lower(result) : result;
  });
}

Normalizer read_normalizer(const nlohmann::json* json, const std::string& where) {
  if (json == nullptr) return nullptr;
  const JsonFields fields(*json, where);
  const std::string type = fields.text("type");
  const auto form = [](NormalForm f) {
    return each_by_itself([f](const std::u32string& text) { return normalize(text, f); });
  };
  if (type == "NFC") return form(NormalForm::nfc);
  if (type == "NFD") return form(NormalForm::nfd);
  if (type == "NFKC") return form(NormalForm::nfkc);
  if (type == "NFKD") return form(NormalForm::nfkd);
  if (type == "Lowercase") return each_by_itself([](const std::u32string& text) { return to_lower(text); });
  if (type == "StripAccents") {
    return each_by_itself([](std::u32string text) {
      std::erase_if(text, is_mark);
      return text;
    });
  }
  if (type == "Nmt") return each_by_itself(nmt);
  if (type == "ByteLevel") return each_by_itself(characters_of_bytes);
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
    return [front](Piece piece) {
      if (piece.text.empty()) return piece;
      piece.text = front + piece.text;
      if (piece.front > 0) piece.front += front.size();
      return piece;
    };
  }
  if (type == "Sequence") {
    std::vector<Normalizer> steps;
    for (const auto& step : fields.array("normalizers")) steps.push_back(read_normalizer(&step, where));
    return [steps](Piece piece) {
      for (const Normalizer& step : steps) piece = step(std::move(piece));
      return piece;
    };
  }
  fields.fail("type", fmt::format("the normalizer {} is not supported", in_quotes(type)));
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
