#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "text/token_model.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

// How much worse than the worst token a character without one is.
constexpr double kUnknownPenalty = 10;
constexpr std::size_t kUnreached = ~std::size_t{0};

}  // namespace

Unigram::Unigram(const Vocabulary& vocabulary, std::vector<double> scores, std::optional<std::int64_t> unknown,
                 bool byte_fallback)
    : scores_(std::move(scores)),
      unknown_(unknown),
      bytes_(vocabulary.byte_tokens()),
      byte_fallback_(byte_fallback),
      ends_{-1} {
  double worst = 0;
  for (std::size_t id = 0; id < scores_.size(); ++id) {
    worst = id == 0 ? scores_[0] : std::min(worst, scores_[id]);
    const std::string* text = vocabulary.text(static_cast<std::int64_t>(id));
    if (text == nullptr || text->empty()) continue;
    std::uint64_t node = 0;
    for (const char c : *text) {
      const std::uint64_t key = node << 8 | static_cast<unsigned char>(c);
      const auto [edge, added] = edges_.emplace(key, static_cast<std::uint32_t>(ends_.size()));
      if (added) ends_.push_back(-1);
      node = edge->second;
    }
    // Of tokens with the same text the one that the vocabulary finds counts.
    ends_[node] = *vocabulary.find(*text);
  }
  unknown_score_ = worst - kUnknownPenalty;
}

void Unigram::add_unknown(std::string_view text, std::vector<std::int64_t>& tokens) const {
  const auto token = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
  if (byte_fallback_ && std::all_of(text.begin(), text.end(), [&](char c) { return token(c) >= 0; })) {
    for (const char c : text) tokens.push_back(token(c));
    return;
  }
  if (!unknown_) throw ValueError(fmt::format("the vocabulary has no token for {}", in_quotes(text)));
  tokens.push_back(*unknown_);
}

void Unigram::encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const {
  const std::string text = encode_utf8(piece);
  struct Best {
    double score = 0;
    std::size_t begin = kUnreached;
    std::int64_t token = -1;  ///< -1: unknown
  };
  // best[i]: of the segmentations of the first i bytes. An earlier candidate of equal score stays.
  std::vector<Best> best(text.size() + 1);
  const auto offer = [&](std::size_t begin, std::size_t end, double score, std::int64_t token) {
    if (best[end].begin == kUnreached || score > best[end].score) best[end] = {score, begin, token};
  };
  std::size_t begin = 0;
  for (const char32_t c : piece) {
    const std::size_t width = encode_utf8(c).size();
    bool alone = false;
    std::uint64_t node = 0;
    for (std::size_t end = begin; end < text.size();) {
      const auto edge = edges_.find(node << 8 | static_cast<unsigned char>(text[end]));
      if (edge == edges_.end()) break;
      node = edge->second;
      ++end;
      if (ends_[node] < 0) continue;
      offer(begin, end, best[begin].score + scores_[static_cast<std::size_t>(ends_[node])], ends_[node]);
      alone = alone || end == begin + width;
    }
    if (!alone) offer(begin, begin + width, best[begin].score + unknown_score_, -1);
    begin += width;
  }
  struct Part {
    std::size_t begin;
    std::size_t end;
    std::int64_t token;
  };
  // From the back; neighbouring unknown characters are one.
  std::vector<Part> parts;
  for (std::size_t end = text.size(); end > 0; end = best[end].begin) {
    const Best& last = best[end];
    const std::int64_t token = last.token == unknown_.value_or(-1) ? -1 : last.token;
    if (token < 0 && !parts.empty() && parts.back().token < 0) {
      parts.back().begin = last.begin;
    } else {
      parts.push_back({last.begin, end, token});
    }
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->token >= 0) {
      tokens.push_back(part->token);
    } else {
      add_unknown(std::string_view(text).substr(part->begin, part->end - part->begin), tokens);
    }
  }
}

void WordPiece::encode(std::u32string_view piece, std::vector<std::int64_t>& tokens) const {
  if (static_cast<std::int64_t>(piece.size()) > options_.longest) {
    tokens.push_back(options_.unknown);
    return;
  }
  const std::size_t before = tokens.size();
  for (std::size_t begin = 0; begin < piece.size();) {
    std::size_t end = piece.size();
    std::optional<std::int64_t> id;
    for (; end > begin; --end) {
      id = vocabulary_->find((begin > 0 ? options_.prefix : "") + encode_utf8(piece.substr(begin, end - begin)));
      if (id) break;
    }
    if (!id) {
      tokens.resize(before);
      tokens.push_back(options_.unknown);
      return;
    }
    tokens.push_back(*id);
    begin = end;
  }
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
