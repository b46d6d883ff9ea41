#include <memory>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "text/regex.h"
#include "text/steps.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

using io::JsonFields;

std::string replace_all(std::string_view text, std::string_view what, std::string_view by) {
  std::string result;
  for (std::size_t at; (at = text.find(what)) != std::string_view::npos; text.remove_prefix(at + what.size())) {
    result.append(text.substr(0, at)).append(by);
  }
  return result.append(text);
}

Decoder each(std::function<std::string(const std::string&, bool first)> change) {
  return [change = std::move(change)](std::vector<std::string> tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = change(tokens[i], i == 0);
    return tokens;
  };
}

Decoder metaspace_decoder(const JsonFields& fields) {
  const std::string mark = fields.text_or("replacement", "\u2581");
  const std::string usual = fields.flag_or("add_prefix_space", true) ? "always" : "never";
  const bool drop = fields.text_or("prepend_scheme", usual) != "never";
  if (mark.empty()) fields.fail("replacement", "is empty");
  // All marks of the first token, not only the one in front, are what was prepended.
  return each([mark, drop](const std::string& token, bool first) {
    return replace_all(token, mark, drop && first ? "" : " ");
  });
}

// English punctuation loses the space in front of it.
std::string clean_up(std::string text) {
  for (const auto& [what, by] : {std::pair{" .", "."},
                                 {" ?", "?"},
                                 {" !", "!"},
                                 {" ,", ","},
                                 {" ' ", "'"},
                                 {" n't", "n't"},
                                 {" 'm", "'m"},
                                 {" do not", " don't"},
                                 {" 's", "'s"},
                                 {" 've", "'ve"},
                                 {" 're", "'re"}}) {
    text = replace_all(text, what, by);
  }
  return text;
}

// The end of a word becomes a space, but of the last one.
Decoder bpe_decoder(const JsonFields& fields) {
  const std::string suffix = fields.text_or("suffix", "</w>");
  if (suffix.empty()) fields.fail("suffix", "is empty");
  return [suffix](std::vector<std::string> tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replace_all(tokens[i], suffix, i + 1 < tokens.size() ? " " : "");
    return tokens;
  };
}

Decoder replace_decoder(const JsonFields& fields) {
  const JsonFields pattern = fields.object("pattern");
  const std::string by = fields.text("content");
  if (pattern.has("Regex")) {
    const auto regex = std::make_shared<Regex>(pattern.text("Regex"), true);
    return each([regex, by](const std::string& token, bool) {
      const std::u32string text = decode_utf8_lossy(token);
      std::string result;
      std::size_t from = 0;
      for (const Match& match : regex->all(text)) {
        result += encode_utf8(text.substr(from, match.begin - from)) + by;
        from = match.end;
      }
      return result + encode_utf8(text.substr(from));
    });
  }
  const std::string what = pattern.text("String");
  if (what.empty()) fields.fail("pattern", "is empty");
  return each([what, by](const std::string& token, bool) { return replace_all(token, what, by); });
}

Decoder strip_decoder(const JsonFields& fields) {
  const std::string content = fields.text("content");
  const std::int64_t start = fields.integer_or("start", 0, 0, 1024);
  const std::int64_t stop = fields.integer_or("stop", 0, 0, 1024);
  if (content.empty()) fields.fail("content", "is empty");
  return each([=](const std::string& token, bool) {
    std::string_view text = token;
    for (std::int64_t i = 0; i < start && text.starts_with(content); ++i) text.remove_prefix(content.size());
    for (std::int64_t i = 0; i < stop && text.ends_with(content); ++i) text.remove_suffix(content.size());
    return std::string(text);
  });
}

}  // namespace

Decoder word_piece_decoder(const std::string& prefix, bool clean) {
  return each([prefix, clean](const std::string& token, bool first) {
    std::string text = token;
    if (!first) text = !prefix.empty() && token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
    return clean ? clean_up(std::move(text)) : text;
  });
}

Decoder byte_level_decoder() {
  return [](const std::vector<std::string>& tokens) {
    std::string bytes;
    for (const std::string& token : tokens) {
      std::string own;
      bool all = true;
      for (const char32_t c : decode_utf8_lossy(token)) {
        const int byte = byte_of_character(c);
        all = all && byte >= 0;
        own += static_cast<char>(static_cast<unsigned char>(byte & 255));
      }
      // A token with another character is a text already, e.g. an added one.
      bytes += all ? own : token;
    }
    return std::vector<std::string>{std::move(bytes)};
  };
}

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9';
    const bool letter = (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
    if (!digit && !letter) return -1;
    value = value * 16 + (digit ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return value;
}

// A run of bytes that is no UTF-8 as a whole becomes one U+FFFD for each byte.
Decoder byte_fallback_decoder() {
  return [](const std::vector<std::string>& tokens) {
    std::vector<std::string> result;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      std::string replaced;
      for (std::size_t i = 0; i < bytes.size(); ++i) replaced += "\ufffd";
      result.push_back(decode_utf8(bytes) ? bytes : replaced);
      bytes.clear();
    };
    for (const std::string& token : tokens) {
      const int byte = byte_of_token(token);
      if (byte >= 0) {
        bytes += static_cast<char>(static_cast<unsigned char>(byte));
      } else {
        flush();
        result.push_back(token);
      }
    }
    flush();
    return result;
  };
}

Decoder read_decoder(const nlohmann::json* json, const std::string& where) {
  if (json == nullptr) return nullptr;
  const JsonFields fields(*json, where);
  const std::string type = fields.text("type");
  if (type == "ByteLevel") return byte_level_decoder();
  if (type == "ByteFallback") return byte_fallback_decoder();
  if (type == "Metaspace") return metaspace_decoder(fields);
  if (type == "WordPiece") return word_piece_decoder(fields.text_or("prefix", "##"), fields.flag_or("cleanup", true));
  if (type == "Strip") return strip_decoder(fields);
  if (type == "Fuse") {
    return [](const std::vector<std::string>& tokens) {
      std::string all;
      for (const std::string& token : tokens) all += token;
      return std::vector<std::string>{std::move(all)};
    };
  }
  if (type == "Replace") return replace_decoder(fields);
  if (type == "BPEDecoder") return bpe_decoder(fields);
  if (type == "Sequence") {
    std::vector<Decoder> steps;
    for (const auto& step : fields.array("decoders")) steps.push_back(read_decoder(&step, where));
    return [steps](std::vector<std::string> tokens) {
      for (const Decoder& step : steps) tokens = step(std::move(tokens));
      return tokens;
    };
  }
  fields.fail("type", fmt::format("the decoder {} is not supported", in_quotes(type)));
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
