// The models of tokenizers: from a piece of text to tokens of a vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace text {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

/// Ids by text, and texts by id. Ids need not be dense.
class Vocabulary {
 public:
  /// FormatError naming `where` if the id is negative or far beyond `count` tokens, or taken.
  void add(const std::string& where, const std::string& text, std::int64_t id, std::size_t count);
  std::optional<std::int64_t> find(std::string_view text) const;
  /// Null for an id that is no token.
  const std::string* text(std::int64_t id) const;
  std::int64_t size() const { return static_cast<std::int64_t>(texts_.size()); }
  /// Of "<0x00>" to "<0xFF>", -1 for bytes without one.
  std::vector<std::int64_t> byte_tokens() const;

 private:
  std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>> ids_;
  std::vector<std::optional<std::string>> texts_;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Appends the tokens of a piece.
  virtual void encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const = 0;
};

struct BpeOptions {
  std::optional<std::int64_t> unknown;
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  ///< A piece that is a token is that token.
  std::string prefix = {};     ///< In the vocabulary: before characters of a piece behind the first,
  std::string suffix = {};     ///< and behind the last one.
};

/// Byte pair encoding by a list of merges, the first with the highest priority. A character that is no token is bytes,
/// the unknown token, or nothing.
class Bpe final : public TokenModel {
 public:
  /// `merges` are pairs of texts; FormatError naming `where` if one of them, or the pair together, is no token.
  Bpe(const std::string& where, const Vocabulary& vocabulary,
      const std::vector<std::pair<std::string, std::string>>& merges, const BpeOptions& options);
  void encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const override;

 private:
  struct Merge {
    std::int64_t rank;
    std::int64_t result;
  };
  std::vector<std::int64_t> characters(std::u32string_view piece) const;

  const Vocabulary* vocabulary_;
  BpeOptions options_;
  std::vector<std::int64_t> bytes_;
  std::unordered_map<std::uint64_t, Merge> merges_;
};

/// What a token of SentencePiece is, by its number in .model and GGUF files.
enum class TokenKind : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

/// Texts by which one is the longest at a place.
class TextSet {
 public:
  void add(std::string_view text);
  /// The bytes of the longest of them that the text begins with; 0: none.
  std::size_t longest_at(std::string_view text) const;

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  ///< Of a trie: node << 8 | byte.
  std::vector<bool> ends_ = {false};
};

struct ScoredBpeOptions {
  std::optional<std::int64_t> unknown;
  bool whole_pieces = false;  ///< A piece that is a token is that token.
  /// By id; empty: all normal ones. Unused tokens are taken apart again, user-defined ones are never cut nor merged,
  /// and texts do not become tokens of other kinds.
  std::vector<TokenKind> kinds = {};
};

/// SentencePiece's byte pair encoding: neighbours whose concatenation is a token merge, the highest score first. A
/// character that is no token is bytes, if each has a token, or else unknown, as a run of them is.
class ScoredBpe final : public TokenModel {
 public:
  ScoredBpe(const Vocabulary& vocabulary, std::vector<float> scores, ScoredBpeOptions options);
  void encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const override;

 private:
  /// The size of the left part of each unused token that was merged.
  using Halves = std::unordered_map<std::string_view, std::size_t>;

  TokenKind kind(std::int64_t id) const {
    return options_.kinds.empty() ? TokenKind::normal : options_.kinds[static_cast<std::size_t>(id)];
  }
  std::optional<std::int64_t> find(std::string_view text) const;
  /// Whether the last token appended is unknown, which takes in those behind it.
  bool append(std::string_view part, const Halves& halves, bool after_unknown, std::vector<std::int64_t>& tokens) const;

  const Vocabulary* vocabulary_;
  std::vector<float> scores_;
  std::vector<std::int64_t> bytes_;
  ScoredBpeOptions options_;
  TextSet user_defined_;
};

struct UnigramOptions {
  std::optional<std::int64_t> unknown;
  bool byte_fallback = false;
  /// By id; empty: all normal ones. Texts become normal and user-defined tokens alone.
  std::vector<TokenKind> kinds = {};
  bool in_f32 = false;  ///< Sums of scores are rounded to f32, as SentencePiece does.
};

/// The most probable segmentation into tokens of a unigram model, by Viterbi's algorithm.
class Unigram final : public TokenModel {
 public:
  Unigram(const Vocabulary& vocabulary, std::vector<double> scores, UnigramOptions options);
  void encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const override;

 private:
  void add_unknown(std::string_view text, std::vector<std::int64_t>& tokens) const;
  double rounded(double sum) const;

  std::vector<double> scores_;
  UnigramOptions options_;
  std::vector<std::int64_t> bytes_;
  double unknown_score_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  ///< Of a trie: node << 8 | byte.
  std::vector<std::int64_t> ends_;                          ///< The token that ends at a node, or -1.
};

/// The longest token at each place (RWKV). Every piece is made of tokens: each of its characters is one.
class LongestToken final : public TokenModel {
 public:
  /// Texts become the tokens of `ids`.
  LongestToken(const Vocabulary& vocabulary, const std::vector<std::int64_t>& ids);
  void encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const override;

 private:
  const Vocabulary* vocabulary_;
  TextSet texts_;
};

struct WordPieceOptions {
  std::int64_t unknown = 0;
  std::string prefix = "##";
  std::int64_t longest = 100;  ///< Characters of a word that is looked up.
  bool whole = false;          ///< Whole words alone (WordLevel); `unknown` may be -1: an unknown word is an error.
};

/// The longest token first, from left to right; a word with a part that is no token is unknown as a whole.
class WordPiece final : public TokenModel {
 public:
  WordPiece(const Vocabulary& vocabulary, WordPieceOptions options)
      : vocabulary_(&vocabulary), options_(std::move(options)) {}
  void encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const override;

 private:
  const Vocabulary* vocabulary_;
  WordPieceOptions options_;
};

}  // namespace text
}  // namespace v0
}  // namespace lockstep
