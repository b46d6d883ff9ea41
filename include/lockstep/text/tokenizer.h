// Text to tokens and back, by the tokenizers that models are published with: tokenizer.json of Hugging Face, the
// vocabulary of GGUF files, SentencePiece's .model files, and tiktoken's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {
namespace text {

struct EncodeOptions {
  /// The tokens that the model expects around a text, e.g. one for its beginning.
  bool add_special_tokens = true;
};
struct DecodeOptions {
  bool skip_special_tokens = false;
};

/// Two texts as one.
struct TokenPair {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> types;  ///< Of each token: 0 and 1 where models tell the texts apart (BERT), else 0.
};

struct SpecialToken {
  std::string text;
  std::int64_t id = 0;
};

/// A value; copies share the tables. May be used from several threads.
class LOCKSTEP_API Tokenizer {
 public:
  /// Reads tokenizer.json, a GGUF file, a .model file of SentencePiece or one of tiktoken's with the name of a
  /// published encoding (cl100k_base.tiktoken); or a folder that holds one of them. In a folder without tokenizer.json,
  /// tokenizer_config.json says which tokens are put around a text (add_bos_token, add_eos_token, else as is usual
  /// for its tokenizer_class). Throws IoError if the file cannot be read, FormatError if it is malformed or has a
  /// component that is not supported, naming it.
  static Tokenizer load(const std::string& path);
  /// The bytes of a .model file of SentencePiece; `file` names it in messages.
  static Tokenizer from_sentencepiece(std::string_view bytes, std::string_view file = "tokenizer.model");
  /// The text of a file of tiktoken, whose encoding splits texts by `pattern`. FormatError as above.
  static Tokenizer from_tiktoken(std::string_view text, std::string_view pattern,
                                 const std::vector<SpecialToken>& special = {}, std::string_view file = "tiktoken");
  /// The text of a tokenizer.json; `file` names it in messages.
  static Tokenizer from_json(std::string_view json, std::string_view file = "tokenizer.json");

  /// Throws ValueError for a text that is not UTF-8, or has a character that the vocabulary cannot express and no
  /// token for unknown ones.
  std::vector<std::int64_t> encode(std::string_view text, EncodeOptions options = {}) const;
  /// A query and a document, say, as the model expects two texts: "[CLS] a [SEP] b [SEP]", "<s> a </s></s> b </s>", by
  /// the template of tokenizer.json or what is usual for a GGUF file's vocabulary. Of more than `most` tokens (0: any
  /// number are right), the longer text loses its last ones until both have as many, then both do (longest_first of the
  /// package tokenizers; two texts of one length that are an odd number of tokens too long: the first loses one more).
  /// ValueError as above, for a `most` that leaves no room for texts, and where a file does not say how two texts are
  /// put together (.model and tiktoken's files).
  TokenPair encode_pair(std::string_view first, std::string_view second, std::int64_t most = 0) const;
  /// Bytes that are not UTF-8 become U+FFFD. IndexError for ids that are no tokens.
  std::string decode(const std::vector<std::int64_t>& ids, DecodeOptions options = {}) const;

  /// Ids are below it; not every one need be a token.
  std::int64_t size() const;
  /// The token's name in the vocabulary; nothing if there is none of that id.
  std::optional<std::string> token(std::int64_t id) const;
  std::optional<std::int64_t> find(std::string_view token) const;
  /// What the token adds to a text behind others; not always whole characters. Empty for special tokens and for ids
  /// that are no tokens.
  std::string bytes(std::int64_t id) const;
  /// The token behind a text, where the file says it.
  std::optional<std::int64_t> end_token() const;
  /// Those that end an answer: end_token() first, then what ends a turn or a call. Of a folder as
  /// generation_config.json says (eos_token_id; else config.json), of a GGUF file eos, eot and eom with the tokens that
  /// are published as such
  /// (<|im_end|>, <|eot_id|>, <end_of_turn>, ...), of other files these.
  std::vector<std::int64_t> end_tokens() const;

  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

 private:
  std::shared_ptr<const Parts> parts_;
};

}  // namespace text
}  // namespace v0
}  // namespace lockstep
