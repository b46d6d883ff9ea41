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
constexpr double kUserDefinedPenalty = 0.1;
constexpr std::size_t kUnreached = ~std::size_t{0};

}  // namespace

Unigram::Unigram(const Vocabulary& vocabulary, std::vector<double> scores, UnigramOptions options)
    : scores_(std::move(scores)), options_(std::move(options)), bytes_(vocabulary.byte_tokens()), ends_{-1} {
  const auto is = [&](std::size_t id, TokenKind kind) {
    return (options_.kinds.empty() ? TokenKind::normal : options_.kinds[id]) == kind;
  };
  bool any = false;
  double worst = 0;
  double best = 0;
  for (std::size_t id = 0; id < scores_.size(); ++id) {
    if (!is(id, TokenKind::normal)) continue;
    worst = any ? std::min(worst, scores_[id]) : scores_[id];
    best = std::max(best, scores_[id]);
    any = true;
  }
  for (std::size_t id = 0; id < scores_.size(); ++id) {
    const std::string* text = vocabulary.text(static_cast<std::int64_t>(id));
    if (text == nullptr || text->empty()) continue;
    const bool user_defined = is(id, TokenKind::user_defined);
    if (!user_defined && !is(id, TokenKind::normal)) continue;
    // Better than whatever else could stand there.
    if (user_defined) scores_[id] = static_cast<double>(text->size()) * best - kUserDefinedPenalty;
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
  unknown_score_ = rounded(worst - kUnknownPenalty);
}

double Unigram::rounded(double sum) const {
  return options_.in_f32 ? static_cast<double>(static_cast<float>(sum)) : sum;
}

void Unigram::add_unknown(std::string_view text, std::vector<std::int64_t>& tokens) const {
  const auto token = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
  if (options_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char c) { return token(c) >= 0; })) {
    for (const char c : text) tokens.push_back(token(c));
    return;
  }
  if (!options_.unknown) throw ValueError(fmt::format("the vocabulary has no token for {}", in_quotes(text)));
  tokens.push_back(*options_.unknown);
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
    if (best[end].begin == kUnreached || score > best[end].score) best[end] = {rounded(score), begin, token};
  };
  // Sums of two f32 are rounded before they are compared, those with a user-defined token's f64 score afterwards.
  const auto plus = [&](std::size_t begin, std::int64_t token) {
    const double score = token < 0 ? unknown_score_ : scores_[static_cast<std::size_t>(token)];
    const double sum = best[begin].score + score;
    const bool exact = token >= 0 && !options_.kinds.empty() &&
                       options_.kinds[static_cast<std::size_t>(token)] == TokenKind::user_defined;
    return exact ? sum : rounded(sum);
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
      offer(begin, end, plus(begin, ends_[node]), ends_[node]);
      alone = alone || end == begin + width;
    }
    if (!alone) offer(begin, begin + width, plus(begin, -1), -1);
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
    const std::int64_t token = last.token == options_.unknown.value_or(-1) ? -1 : last.token;
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
  if (options_.whole) {
    const std::int64_t id = vocabulary_->find(encode_utf8(piece)).value_or(options_.unknown);
    if (id < 0) throw ValueError("Tokenizer: a word is no token, and the file has no token for unknown ones");
    tokens.push_back(id);
    return;
  }
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
