// SentencePiece (Kudo and Richardson, 2018) around its models: what is done to a text before, and to tokens after. Its
// vocabularies come in .model files and in GGUF files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/charsmap.h"
#include "text/tokenizer_parts.h"

namespace lockstep {
inline namespace v0 {
namespace text {

struct SentencePieceSpec {
  bool unigram = true;  ///< else byte pair encoding
  std::vector<float> scores;
  std::vector<TokenKind> kinds;
  CharsMap replacements;
  bool prefix = true;                ///< The text gets a space in front,
  bool suffix = false;               ///< or, instead, behind.
  bool remove_extra_spaces = false;  ///< At the beginning, at the end, and of several in a row.
  bool mark_spaces = true;           ///< Spaces become U+2581.
  bool byte_fallback = true;
};

/// Gives `parts`, whose vocabulary is complete, all other steps, and finds the unknown token. FormatError naming
/// `where` if scores or kinds are not as many as tokens, or a score is NaN.
void use_sentence_piece(const std::string& where, SentencePieceSpec spec, Tokenizer::Parts& parts);

}  // namespace text
}  // namespace v0
}  // namespace lockstep
