// Byte pair encoding, with a queue of candidates over a linked list of parts: n log n for a piece of n characters.
#include <algorithm>
#include <queue>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "core/utf8.h"
#include "text/token_model.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};

// Parts in order; a part that was merged into the one before it is gone.
template <typename T> struct Chain {
  struct Part {
    T value;
    std::size_t before;
    std::size_t after;
    bool gone = false;
  };
  std::vector<Part> parts;

  void push_back(T value) {
    const std::size_t index = parts.size();
    if (index > 0) parts.back().after = index;
    parts.push_back({std::move(value), index == 0 ? kNone : index - 1, kNone});
  }
  void merge(std::size_t left, T value) {
    Part& first = parts[left];
    Part& second = parts[first.after];
    second.gone = true;
    first.value = std::move(value);
    first.after = second.after;
    if (first.after != kNone) parts[first.after].before = left;
  }
};

std::uint64_t pair_key(std::int64_t left, std::int64_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint64_t>(right);
}

// Appends the tokens of all bytes, if each has one.
bool append_bytes(std::string_view text, const std::vector<std::int64_t>& bytes, std::vector<std::int64_t>& tokens) {
  const auto token = [&](char c) { return bytes[static_cast<unsigned char>(c)]; };
  if (!std::all_of(text.begin(), text.end(), [&](char c) { return token(c) >= 0; })) return false;
  for (const char c : text) tokens.push_back(token(c));
  return true;
}

}  // namespace

Bpe::Bpe(const std::string& where, const Vocabulary& vocabulary,
         const std::vector<std::pair<std::string, std::string>>& merges, const BpeOptions& options)
    : vocabulary_(&vocabulary), options_(options), bytes_(vocabulary.byte_tokens()) {
  std::int64_t rank = 0;
  for (const auto& merge : merges) {
    const auto& [left, right] = merge;
    const auto id = [&](const std::string& text) {
      const std::optional<std::int64_t> found = vocabulary.find(text);
      if (!found) {
        throw FormatError(fmt::format("{}: merge {} of {} and {}: {} is no token", where, rank, in_quotes(merge.first),
                                      in_quotes(merge.second), in_quotes(text)));
      }
      return *found;
    };
    // One after the other, so that the same one is named everywhere.
    const std::int64_t left_id = id(left);
    const std::int64_t right_id = id(right);
    if (right.size() < options.prefix.size()) {
      throw FormatError(
          fmt::format("{}: merge {}: {} is shorter than continuing_subword_prefix", where, rank, in_quotes(right)));
    }
    const std::int64_t both_id = id(left + right.substr(options.prefix.size()));
    merges_.insert_or_assign(pair_key(left_id, right_id), Merge{rank, both_id});
    ++rank;
  }
}

std::vector<std::int64_t> Bpe::characters(std::u32string_view piece) const {
  std::vector<std::int64_t> result;
  bool after_unknown = false;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const std::string text =
        (i > 0 ? options_.prefix : "") + encode_utf8(piece[i]) + (i + 1 == piece.size() ? options_.suffix : "");
    const std::optional<std::int64_t> id = vocabulary_->find(text);
    bool unknown = false;
    if (id) {
      result.push_back(*id);
    } else if (!options_.byte_fallback || !append_bytes(text, bytes_, result)) {
      unknown = options_.unknown.has_value();
      if (unknown && !(after_unknown && options_.fuse_unknown)) result.push_back(*options_.unknown);
    }
    after_unknown = unknown;
  }
  return result;
}

void Bpe::encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const {
  if (options_.ignore_merges) {
    if (const auto whole = vocabulary_->find(encode_utf8(piece))) {
      tokens.push_back(*whole);
      return;
    }
  }
  Chain<std::int64_t> chain;
  for (const std::int64_t id : characters(piece)) chain.push_back(id);
  // The lowest rank, then the leftmost.
  struct Candidate {
    std::int64_t rank;
    std::size_t left;
    std::int64_t result;
    bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
  };
  std::priority_queue<Candidate> queue;
  const auto find = [&](std::size_t left) -> const Merge* {
    const std::size_t right = chain.parts[left].after;
    if (right == kNone) return nullptr;
    const auto found = merges_.find(pair_key(chain.parts[left].value, chain.parts[right].value));
    return found == merges_.end() ? nullptr : &found->second;
  };
  const auto consider = [&](std::size_t left) {
    if (left == kNone) return;
    if (const Merge* merge = find(left)) queue.push({merge->rank, left, merge->result});
  };
  for (std::size_t i = 0; i < chain.parts.size(); ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    if (chain.parts[best.left].gone) continue;
    const Merge* now = find(best.left);  // a neighbour may have changed meanwhile
    if (now == nullptr || now->result != best.result) continue;
    chain.merge(best.left, best.result);
    consider(chain.parts[best.left].before);
    consider(best.left);
  }
  for (const auto& part : chain.parts) {
    if (!part.gone) tokens.push_back(part.value);
  }
}

void TextSet::add(std::string_view text) {
  std::uint64_t node = 0;
  for (const char c : text) {
    const std::uint64_t key = node << 8 | static_cast<unsigned char>(c);
    const auto [edge, added] = edges_.emplace(key, static_cast<std::uint32_t>(ends_.size()));
    if (added) ends_.push_back(false);
    node = edge->second;
  }
  ends_[node] = true;
}

std::size_t TextSet::longest_at(std::string_view text) const {
  std::size_t result = 0;
  std::uint64_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto edge = edges_.find(node << 8 | static_cast<unsigned char>(text[i]));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (ends_[node]) result = i + 1;
  }
  return result;
}

ScoredBpe::ScoredBpe(const Vocabulary& vocabulary, std::vector<float> scores, ScoredBpeOptions options)
    : vocabulary_(&vocabulary),
      scores_(std::move(scores)),
      bytes_(vocabulary.byte_tokens()),
      options_(std::move(options)) {
  for (std::size_t id = 0; id < options_.kinds.size(); ++id) {
    const std::string* text = vocabulary.text(static_cast<std::int64_t>(id));
    if (options_.kinds[id] == TokenKind::user_defined && text != nullptr && !text->empty()) user_defined_.add(*text);
  }
}

std::optional<std::int64_t> ScoredBpe::find(std::string_view text) const {
  const std::optional<std::int64_t> id = vocabulary_->find(text);
  if (!id) return std::nullopt;
  const bool hidden =
      kind(*id) == TokenKind::unknown || kind(*id) == TokenKind::control || kind(*id) == TokenKind::byte;
  return hidden ? std::nullopt : id;
}

bool ScoredBpe::append(std::string_view part, const Halves& halves, bool after_unknown,
                       std::vector<std::int64_t>& tokens) const {
  if (const auto id = find(part)) {
    const auto half = halves.find(part);
    if (kind(*id) != TokenKind::unused || half == halves.end()) {
      tokens.push_back(*id);
      return false;
    }
    after_unknown = append(part.substr(0, half->second), halves, after_unknown, tokens);
    return append(part.substr(half->second), halves, after_unknown, tokens);
  }
  if (append_bytes(part, bytes_, tokens)) return false;
  if (!options_.unknown) throw ValueError(fmt::format("the vocabulary has no token for {}", in_quotes(part)));
  if (!after_unknown) tokens.push_back(*options_.unknown);
  return true;
}

void ScoredBpe::encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const {
  const std::string whole = encode_utf8(piece);
  const std::string_view text = whole;
  if (options_.whole_pieces) {
    if (const auto id = find(text)) {
      tokens.push_back(*id);
      return;
    }
  }
  struct Symbol : std::string_view {
    bool frozen = false;
  };
  Chain<Symbol> chain;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t own = user_defined_.longest_at(text.substr(at));
    const std::size_t size = own > 0 ? own : first_character(text.substr(at)).bytes;
    chain.push_back({text.substr(at, size), own > 0});
    at += size;
  }
  struct Candidate {
    float score;
    std::size_t left;
    std::size_t bytes;
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };
  std::priority_queue<Candidate> queue;
  // Neighbours touch in the text: together they are one view.
  const auto both = [&](std::size_t left) {
    const auto& first = chain.parts[left];
    return std::string_view(first.value.data(), first.value.size() + chain.parts[first.after].value.size());
  };
  Halves halves;
  const auto consider = [&](std::size_t left) {
    if (left == kNone || chain.parts[left].after == kNone) return;
    const auto& first = chain.parts[left];
    if (first.value.frozen || chain.parts[first.after].value.frozen) return;
    const auto id = find(both(left));
    if (!id) return;
    queue.push({scores_[static_cast<std::size_t>(*id)], left, both(left).size()});
    if (kind(*id) == TokenKind::unused) halves.insert_or_assign(both(left), first.value.size());
  };
  for (std::size_t i = 0; i < chain.parts.size(); ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const auto& part = chain.parts[best.left];
    if (part.gone || part.after == kNone || both(best.left).size() != best.bytes) continue;
    chain.merge(best.left, {both(best.left)});
    consider(chain.parts[best.left].before);
    consider(best.left);
  }
  bool unknown = false;
  for (const auto& part : chain.parts) {
    if (!part.gone) unknown = append(part.value, halves, unknown, tokens);
  }
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
