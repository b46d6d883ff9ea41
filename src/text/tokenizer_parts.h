// What a Tokenizer consists of, and who makes it: one file for each source.
#pragma once

#include <lockstep/text/tokenizer.h>

#include "core/os.h"
#include "io/json_fields.h"
#include "text/steps.h"
#include "text/token_model.h"

namespace lockstep {
inline namespace v0 {
namespace text {

/// A token that is found in the text before anything else is done with it.
struct AddedToken {
  std::u32string content;
  std::int64_t id = 0;
  bool special = false;
  bool single_word = false;  ///< Not inside a word.
  bool left_strip = false;   ///< Takes the white space before it, or after it.
  bool right_strip = false;
  bool normalized = false;  ///< Looked for behind the normaliser.
};

/// Finds added tokens: the leftmost one, of several there the longest.
class AddedTokens {
 public:
  struct Found {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int64_t id = -1;  ///< -1: text between tokens.
  };
  void add(const AddedToken& token);
  /// The whole text in order, without empty parts.
  std::vector<Found> split(std::u32string_view text) const;

 private:
  const AddedToken* longest_at(std::u32string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  ///< Of a trie: node << 21 | character.
  std::vector<std::int64_t> ends_ = {-1};                   ///< Position in tokens_, or -1.
};

/// A part of what two texts become: a special token, or one of the texts.
struct PairPart {
  enum class Kind : std::uint8_t { special, first, second };
  Kind kind = Kind::special;
  std::int64_t type = 0;
  std::int64_t id = 0;  ///< Of a special token.
};

struct Tokenizer::Parts {
  Vocabulary vocabulary;
  std::unique_ptr<TokenModel> model;  ///< Refers to the vocabulary.
  AddedTokens raw;                    ///< Found in the text as it is,
  AddedTokens normalized;             ///< and in normalised text.
  std::vector<bool> special;          ///< By id.
  /// Of added tokens that are looked for in normalised text: what they are decoded to.
  std::unordered_map<std::int64_t, std::string> normalized_texts;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;                   ///< Null: tokens are joined by spaces.
  std::vector<std::int64_t> before;  ///< Special tokens around a text.
  std::vector<std::int64_t> after;
  std::vector<PairPart> pair;         ///< Empty: not known.
  std::optional<std::int64_t> first;  ///< Before a text and behind it, where the file names them,
  std::optional<std::int64_t> end;    ///< whether or not they are put there.
  std::vector<std::int64_t> ends;     ///< That end an answer, beside `end`, which may stand there again.
};

/// `before`, the first text, `between`, the second one, `after`; types 0 up to `between`, `second` from there on.
std::vector<PairPart> pair_of(const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& between,
                              const std::vector<std::int64_t>& after, std::int64_t second);

std::shared_ptr<Tokenizer::Parts> parts_of_json(std::string_view file, std::string_view json);
std::shared_ptr<const Tokenizer::Parts> parts_of_gguf(const os::FileBytes& file);
/// Fills `parts` with RWKV's tokens, as GGUF files have them. FormatError naming `path` if one is no string of bytes,
/// or a byte has no token.
void read_rwkv(const std::string& path, const std::vector<std::string>& tokens, const std::vector<TokenKind>& kinds,
               Tokenizer::Parts& parts);
/// Of SentencePiece. Nothing is put around texts.
std::shared_ptr<Tokenizer::Parts> parts_of_model_file(const std::string& file, std::string_view bytes);
bool is_tiktoken_file(std::string_view text);
std::shared_ptr<Tokenizer::Parts> parts_of_tiktoken(const std::string& file, std::string_view text);
std::shared_ptr<Tokenizer::Parts> parts_of_tiktoken(const std::string& file, std::string_view text,
                                                    std::string_view pattern, const std::vector<SpecialToken>& special);

}  // namespace text
}  // namespace v0
}  // namespace lockstep
