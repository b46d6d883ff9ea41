#include "text/sentence_piece.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/utf8.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

constexpr std::string_view kMark = "\u2581";

// What a normaliser and a decoder need of the vocabulary; shared by both.
struct Steps {
  SentencePieceSpec spec;
  TextSet user_defined;

  std::string_view space() const { return spec.mark_spaces ? kMark : " "; }

  /// What the front of the text becomes, and how many bytes of it that takes. User-defined tokens stay as they are.
  CharsMap::Match front(std::string_view text) const {
    if (const std::size_t own = user_defined.longest_at(text)) return {own, text.substr(0, own)};
    if (const auto match = spec.replacements.longest(text)) return *match;
    const std::size_t bytes = first_character(text).bytes;
    return {bytes, text.substr(0, bytes)};
  }

  std::string normalized(std::string_view text, bool first) const {
    const bool remove = spec.remove_extra_spaces;
    while (remove && !text.empty()) {
      const CharsMap::Match match = front(text);
      if (match.by != " ") break;
      text.remove_prefix(match.bytes);
    }
    if (text.empty()) return "";
    std::string result;
    if (spec.prefix && !spec.suffix && first) result += space();
    bool after_space = remove;
    while (!text.empty()) {
      CharsMap::Match match = front(text);
      text.remove_prefix(match.bytes);
      while (after_space && match.by.starts_with(' ')) match.by.remove_prefix(1);
      for (const char c : match.by) {
        if (c == ' ') {
          result += space();
        } else {
          result += c;
        }
      }
      if (!match.by.empty()) after_space = remove && match.by.ends_with(' ');
    }
    while (remove && result.ends_with(space())) result.resize(result.size() - space().size());
    if (spec.prefix && spec.suffix) result += space();
    return result;
  }

  // Each byte of a run of byte tokens that is in no character becomes U+FFFD.
  static void append_bytes(std::string_view bytes, std::string& result) {
    while (!bytes.empty()) {
      const Utf8Character next = first_character(bytes);
      const std::size_t count = next.valid ? next.bytes : 1;
      result += next.valid ? bytes.substr(0, count) : std::string_view("\ufffd");
      bytes.remove_prefix(count);
    }
  }

  std::string decoded(const std::vector<std::string>& tokens) const {
    std::string result;
    std::string bytes;
    // Spaces in front are those that normalising has put or left there.
    bool strips = spec.remove_extra_spaces || (spec.prefix && !spec.suffix);
    for (const std::string& token : tokens) {
      const int byte = byte_of_token(token);
      if (byte >= 0) {
        bytes += static_cast<char>(static_cast<unsigned char>(byte));
        continue;
      }
      append_bytes(bytes, result);
      bytes.clear();
      std::string_view text = token;
      if (strips && result.empty() && text.starts_with(kMark)) {
        text.remove_prefix(kMark.size());
        strips = spec.remove_extra_spaces;
      }
      while (!text.empty()) {
        const std::size_t mark = std::min(text.find(kMark), text.size());
        result += text.substr(0, mark);
        text.remove_prefix(mark);
        if (text.empty()) break;
        result += ' ';
        text.remove_prefix(kMark.size());
      }
    }
    append_bytes(bytes, result);
    return result;
  }
};

}  // namespace

void use_sentence_piece(const std::string& where, SentencePieceSpec spec, Tokenizer::Parts& parts) {
  const auto count = static_cast<std::size_t>(parts.vocabulary.size());
  if (spec.scores.size() != count || spec.kinds.size() != count) {
    throw FormatError(
        fmt::format("{}: {} scores and {} kinds of {} tokens", where, spec.scores.size(), spec.kinds.size(), count));
  }
  if (std::any_of(spec.scores.begin(), spec.scores.end(), [](float score) { return std::isnan(score); })) {
    throw FormatError(fmt::format("{}: a token's score is NaN", where));
  }
  const auto steps = std::make_shared<Steps>();
  std::optional<std::int64_t> unknown;
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<std::int64_t>(i);
    const std::string* text = parts.vocabulary.text(id);
    if (text == nullptr || text->empty()) continue;
    if (spec.kinds[i] == TokenKind::unknown && !unknown) unknown = id;
    if (spec.kinds[i] == TokenKind::user_defined) steps->user_defined.add(*text);
  }
  if (spec.unigram) {
    parts.model = std::make_unique<Unigram>(
        parts.vocabulary, std::vector<double>(spec.scores.begin(), spec.scores.end()),
        UnigramOptions{.unknown = unknown, .byte_fallback = spec.byte_fallback, .kinds = spec.kinds, .in_f32 = true});
  } else {
    parts.model = std::make_unique<ScoredBpe>(parts.vocabulary, spec.scores,
                                              ScoredBpeOptions{.unknown = unknown, .kinds = spec.kinds});
  }
  steps->spec = std::move(spec);
  // Only the beginning of the text gets the space, not what follows a special token.
  parts.pre_tokenizer = [steps](std::vector<Piece> pieces) {
    for (Piece& piece : pieces) {
      piece.text = decode_utf8_lossy(steps->normalized(encode_utf8(piece.text), piece.front > 0));
    }
    return pieces;
  };
  parts.decoder = [steps](const std::vector<std::string>& tokens) {
    return std::vector<std::string>{steps->decoded(tokens)};
  };
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
