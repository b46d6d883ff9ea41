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
  std::string suffix = {};     ///< Behind the last character of a piece, in the vocabulary.
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

/// SentencePiece's byte pair encoding: neighbours whose concatenation is a token merge, the highest score first.
class ScoredBpe final : public TokenModel {
 public:
  ScoredBpe(const Vocabulary& vocabulary, std::vector<float> scores, std::optional<std::int64_t> unknown);
  void encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const override;

 private:
  const Vocabulary* vocabulary_;
  std::vector<float> scores_;
  std::vector<std::int64_t> bytes_;
  std::optional<std::int64_t> unknown_;
};

/// The most probable segmentation into tokens of a unigram model, by Viterbi's algorithm.
class Unigram final : public TokenModel {
 public:
  Unigram(const Vocabulary& vocabulary, std::vector<double> scores, std::optional<std::int64_t> unknown,
          bool byte_fallback);
  void encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const override;

 private:
  void add_unknown(std::string_view text, std::vector<std::int64_t>& tokens) const;

  std::vector<double> scores_;
  std::optional<std::int64_t> unknown_;
  std::vector<std::int64_t> bytes_;
  bool byte_fallback_;
  double unknown_score_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  ///< Of a trie: node << 8 | byte.
  std::vector<std::int64_t> ends_;                          ///< The token that ends at a node, or -1.
};

struct WordPieceOptions {
  std::int64_t unknown = 0;
  std::string prefix = "##";
  std::int64_t longest = 100;  ///< Characters of a word that is looked up.
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
