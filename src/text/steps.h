// The steps of a tokenizer around its model, as tokenizer.json describes them. Each `read_` function makes one of its
// JSON, and throws FormatError naming a type that is not supported.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/json_fields.h"

namespace lockstep {
inline namespace v0 {
namespace text {

/// A part of the text. Its first `front` characters come from the first one of the whole text: none, if a step took
/// that away, or the part stands elsewhere.
struct Piece {
  std::u32string text;
  std::size_t front = 0;
};
using Normalizer = std::function<Piece(Piece)>;
Piece part_of(const Piece& piece, std::size_t begin, std::size_t end);

/// Splits pieces; in byte-level tokenizers the results are characters of the alphabet of bytes.
using PreTokenizer = std::function<std::vector<Piece>(std::vector<Piece>)>;

/// The texts of tokens to texts whose concatenation is the result. Bytes need not be UTF-8 in between.
using Decoder = std::function<std::vector<std::string>(std::vector<std::string>)>;

// Null where the JSON is null.
Normalizer read_normalizer(const nlohmann::json* json, const std::string& where);
PreTokenizer read_pre_tokenizer(const nlohmann::json* json, const std::string& where);
Decoder read_decoder(const nlohmann::json* json, const std::string& where);

struct BertNormalizing {
  bool clean = true;    ///< Control characters go, white space becomes spaces.
  bool chinese = true;  ///< Chinese characters are words of their own.
  bool strip_accents = true;
  bool lower = true;
};
Normalizer bert_normalizer(BertNormalizing how);
/// Words, and each sign of punctuation.
PreTokenizer bert_pre_tokenizer();
/// Tokens with the prefix go on with the one before; `clean_up`: English punctuation loses the space in front of it.
Decoder word_piece_decoder(const std::string& prefix, bool clean_up);

/// The character that stands for a byte in byte-level vocabularies (GPT-2), and back.
char32_t character_of_byte(unsigned char byte);
/// -1 for characters that stand for none.
int byte_of_character(char32_t c);
/// Splits as GPT-2 does, then replaces bytes by their characters.
PreTokenizer byte_level(bool add_prefix_space, bool use_regex);
/// Splits by a pattern, every match and everything between a piece of its own.
PreTokenizer split_by(std::string_view pattern);
Decoder byte_level_decoder();
/// "<0x0A>" to its byte.
Decoder byte_fallback_decoder();
/// The byte that a token "<0x0A>" stands for, or -1.
int byte_of_token(std::string_view token);

}  // namespace text
}  // namespace v0
}  // namespace lockstep
