// RWKV's vocabulary, whose tokens are strings of bytes; a text is cut into the longest ones from left to right. GGUF
// files have the bytes as Python writes them: \x00, \n.
#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Nothing for what Python would not have written.
std::optional<std::string> without_escapes(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes += text[i];
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    switch (text[i]) {
      case '\\':
      case '\'':
      case '"': bytes += text[i]; break;
      case 'n': bytes += '\n'; break;
      case 'r': bytes += '\r'; break;
      case 't': bytes += '\t'; break;
      case 'x': {
        const int high = i + 2 < text.size() ? digit_of(text[i + 1]) : -1;
        const int low = i + 2 < text.size() ? digit_of(text[i + 2]) : -1;
        if (high < 0 || low < 0) return std::nullopt;
        bytes += static_cast<char>(static_cast<unsigned char>(high * 16 + low));
        i += 2;
        break;
      }
      default: return std::nullopt;
    }
  }
  return bytes;
}

std::string in_byte_alphabet(std::string_view bytes) {
  std::string result;
  for (const char byte : bytes) result += encode_utf8(character_of_byte(static_cast<unsigned char>(byte)));
  return result;
}

}  // namespace

LongestToken::LongestToken(const Vocabulary& vocabulary, const std::vector<std::int64_t>& ids)
    : vocabulary_(&vocabulary) {
  for (const std::int64_t id : ids) texts_.add(*vocabulary.text(id));
}

void LongestToken::encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const {
  const std::string text = encode_utf8(piece);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t size = texts_.longest_at(rest);
    tokens.push_back(*vocabulary_->find(rest.substr(0, size)));
    rest.remove_prefix(size);
  }
}

void read_rwkv(const std::string& path, const std::vector<std::string>& tokens, const std::vector<TokenKind>& kinds,
               Tokenizer::Parts& parts) {
  parts.special.resize(tokens.size());
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    if (kinds[i] == TokenKind::normal) {
      const std::optional<std::string> bytes = without_escapes(tokens[i]);
      if (!bytes || bytes->empty()) {
        throw FormatError(fmt::format("{}: the token {} is no string of bytes", path, in_quotes(tokens[i])));
      }
      parts.vocabulary.add(path, in_byte_alphabet(*bytes), id, tokens.size());
      ids.push_back(id);
      continue;
    }
    parts.vocabulary.add(path, tokens[i], id, tokens.size());
    parts.special[i] = kinds[i] == TokenKind::control;
    const std::optional<std::u32string> content = decode_utf8(tokens[i]);
    if (parts.special[i] && content) parts.raw.add({.content = *content, .id = id, .special = true});
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::string own(1, static_cast<char>(static_cast<unsigned char>(byte)));
    const auto found = parts.vocabulary.find(in_byte_alphabet(own));
    if (found && kinds[static_cast<std::size_t>(*found)] == TokenKind::normal) continue;
    throw FormatError(fmt::format("{}: there is no token for the byte {:#04x}", path, byte));
  }
  parts.model = std::make_unique<LongestToken>(parts.vocabulary, ids);
  parts.pre_tokenizer = byte_level(false, false);
  parts.decoder = byte_level_decoder();
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
