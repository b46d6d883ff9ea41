// Byte pair encoding, with a queue of candidates over a linked list of parts: n log n for a piece of n characters.
#include <algorithm>
#include <queue>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
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
    merges_.insert_or_assign(pair_key(left_id, right_id), Merge{rank, id(left + right)});
    ++rank;
  }
}

std::vector<std::int64_t> Bpe::characters(std::u32string_view piece) const {
  std::vector<std::int64_t> result;
  bool after_unknown = false;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const std::string text = encode_utf8(piece[i]) + (i + 1 == piece.size() ? options_.suffix : "");
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

ScoredBpe::ScoredBpe(const Vocabulary& vocabulary, std::vector<float> scores, std::optional<std::int64_t> unknown)
    : vocabulary_(&vocabulary), scores_(std::move(scores)), bytes_(vocabulary.byte_tokens()), unknown_(unknown) {}

void ScoredBpe::encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const {
  const std::string whole = encode_utf8(piece);
  const std::string_view text = whole;
  Chain<std::string_view> chain;
  std::size_t from = 0;
  for (const char32_t c : piece) {
    const std::size_t size = encode_utf8(c).size();
    chain.push_back(text.substr(from, size));
    from += size;
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
  const auto consider = [&](std::size_t left) {
    if (left == kNone || chain.parts[left].after == kNone) return;
    if (const auto id = vocabulary_->find(both(left))) {
      queue.push({scores_[static_cast<std::size_t>(*id)], left, both(left).size()});
    }
  };
  for (std::size_t i = 0; i < chain.parts.size(); ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const auto& part = chain.parts[best.left];
    if (part.gone || part.after == kNone || both(best.left).size() != best.bytes) continue;
    chain.merge(best.left, both(best.left));
    consider(chain.parts[best.left].before);
    consider(best.left);
  }
  for (const auto& part : chain.parts) {
    if (part.gone) continue;
    if (const auto id = vocabulary_->find(part.value)) {
      tokens.push_back(*id);
    } else if (!append_bytes(part.value, bytes_, tokens)) {
      if (!unknown_) throw ValueError(fmt::format("the vocabulary has no token for {}", in_quotes(part.value)));
      tokens.push_back(*unknown_);
    }
  }
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
