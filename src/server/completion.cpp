#include "server/completion.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <lockstep/models/constraint.h>

#include "kernels/scalar.h"
#include "server/marks.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

// A long prompt must not keep the others waiting; chunks give the same bits.
constexpr std::int64_t kPromptStep = 256;
// Where all of its logits are looked at, which may be 150 thousand numbers for a token.
constexpr std::int64_t kScoredStep = 64;

std::shared_ptr<models::TokenConstraint> constraint_of(const CompletionOptions& options, const text::TokenTexts& texts,
                                                       const std::vector<std::int64_t>& ends) {
  return options.grammar ? models::constrain(*options.grammar, texts, ends) : nullptr;
}

/// As models::sample computes log-probabilities, so that a token has the same one, drawn or not.
class LogProbabilities {
 public:
  explicit LogProbabilities(std::span<const float> logits)
      : logits_(logits), largest_(*std::max_element(logits.begin(), logits.end())) {
    double total = 0;
    for (const float logit : logits) total += scalar::ls_exp(static_cast<double>(logit) - largest_);
    log_of_total_ = scalar::ls_log(total);
  }
  models::SampledToken of(std::size_t token) const {
    const double value = static_cast<double>(logits_[token]) - largest_ - log_of_total_;
    return {static_cast<std::int64_t>(token), static_cast<float>(value)};
  }

 private:
  std::span<const float> logits_;
  double largest_;
  double log_of_total_;
};

}  // namespace

std::vector<models::SampledToken> most_probable(std::span<const float> logits, std::size_t count) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  count = std::min(count, order.size());
  const auto before = [&](std::size_t a, std::size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), before);
  order.resize(count);
  if (count == 0) return {};
  const LogProbabilities probabilities(logits);
  std::vector<models::SampledToken> result;
  for (const std::size_t token : order) result.push_back(probabilities.of(token));
  return result;
}

Completion::Completion(const models::LanguageModel& model, Batcher& batcher, const text::Tokenizer& tokenizer,
                       const text::TokenTexts& texts, std::vector<std::int64_t> prompt, CompletionOptions options)
    : model_(&model),
      batcher_(&batcher),
      options_(std::move(options)),
      end_tokens_(tokenizer.end_tokens()),
      prompt_(prompt),
      left_of_prompt_(static_cast<std::int64_t>(prompt.size())),
      sampler_(options_.sampling, prompt, constraint_of(options_, texts, end_tokens_)),
      stream_(tokenizer, std::move(prompt)) {}

std::string Completion::shown_until(std::size_t end) {
  if (end <= shown_) return "";
  std::string more = text_.substr(shown_, end - shown_);
  shown_ = end;
  return more;
}

Completion::~Completion() {
  if (number_) batcher_->leave(*number_);
}

// From where others have come, unless all of the prompt's logits are wanted.
void Completion::begin() {
  const ModelSteps::Begun begun = batcher_->begin(prompt_, options_.scores_prompt);
  number_ = begun.text;
  reused_ = length_ = begun.known;
  left_of_prompt_ = static_cast<std::int64_t>(prompt_.size()) - begun.known;
}

// `logits`: behind the last tokens that the model has seen.
void Completion::score(const std::vector<std::vector<float>>& logits) {
  auto next = static_cast<std::size_t>(length_) - logits.size() + 1;
  for (const std::vector<float>& row : logits) {
    if (next == prompt_.size()) return;
    const auto token = static_cast<std::size_t>(prompt_[next++]);
    scores_.push_back({LogProbabilities(row).of(token), most_probable(row, options_.alternatives), ""});
  }
}

// Within a turn: the logits behind the prompt; nothing where not all of it is read yet.
std::optional<std::vector<float>> Completion::read_prompt() {
  if (!number_) begin();
  const bool scored = options_.scores_prompt;
  const std::int64_t count = std::min(scored ? kScoredStep : kPromptStep, left_of_prompt_);
  auto logits = batcher_->read(*number_, count, scored ? ModelSteps::Behind::each : ModelSteps::Behind::last);
  length_ += count;
  left_of_prompt_ -= count;
  if (scored) score(logits);
  if (left_of_prompt_ > 0) return std::nullopt;
  return std::move(logits.back());
}

// Within a turn: knows the prompt that another has read.
void Completion::copy(const Completion& other) {
  number_ = batcher_->fork(*other.number_);
  length_ = other.length_;
  left_of_prompt_ = 0;
  scores_ = other.scores_;
}

// Whether there is a further step.
bool Completion::goes_on() {
  if (!finish_reason_.empty()) return false;
  const std::int64_t left = tokens_.empty() ? left_of_prompt_ : 1;
  const bool scoring = options_.scores_prompt && left_of_prompt_ > 0;
  if (sampler_.ended()) {
    finish_reason_ = "stop";
  } else if ((has_enough() && !scoring) || (model_->context() > 0 && length_ + left > model_->context())) {
    finish_reason_ = "length";
  }
  return finish_reason_.empty();
}

std::optional<Piece> Completion::draw(const std::vector<float>& logits) {
  if (has_enough()) return {};
  Piece piece{.token = sampler_.draw(logits, length_), .alternatives = most_probable(logits, options_.alternatives)};
  if (std::find(end_tokens_.begin(), end_tokens_.end(), piece.token.token) != end_tokens_.end()) {
    finish_reason_ = "stop";
    return {};
  }
  tokens_.push_back(piece.token.token);
  text_ += stream_.add(piece.token.token);
  if (options_.marks.contains(piece.token.token)) text_ += stream_.finish() + mark_of(piece.token.token);
  const std::size_t stop = text::find_stop(text_, options_.stop);
  if (stop != std::string::npos) {
    text_.resize(stop);
    finish_reason_ = "stop";
    stopped_by_text_ = true;
  } else if (sampler_.ended()) {
    finish_reason_ = "stop";
  } else if (has_enough()) {
    finish_reason_ = "length";
  }
  piece.text = shown_until(stopped_by_text_ ? text_.size() : text_.size() - text::possible_stop(text_, options_.stop));
  return piece;
}

std::optional<Piece> Completion::step(HttpServer& server) {
  Completion* const self = this;
  return step_together(server, {&self, 1}).front();
}

std::vector<std::optional<Piece>> Completion::step_together(HttpServer& server, std::span<Completion* const> answers) {
  std::vector<std::optional<Piece>> pieces(answers.size());
  std::vector<std::size_t> drawing;
  std::vector<std::size_t> reading;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i]->goes_on()) (answers[i]->left_of_prompt_ > 0 ? reading : drawing).push_back(i);
  }
  if (!reading.empty()) {
    // The first one; the others copy what it knows in the end, or come after it.
    Completion& first = *answers[reading.front()];
    const auto logits = server.step_in_turn([&] {
      auto read = first.read_prompt();
      if (!read || !first.batcher_->forks()) {
        reading.resize(1);
      } else {
        for (std::size_t i = 1; i < reading.size(); ++i) answers[reading[i]]->copy(first);
      }
      return read;
    });
    if (!logits) reading.clear();
    for (const std::size_t i : reading) pieces[i] = answers[i]->draw(*logits);
  }
  if (!drawing.empty()) {
    std::vector<std::pair<std::int64_t, std::int64_t>> tokens;
    for (const std::size_t i : drawing) tokens.emplace_back(*answers[i]->number_, answers[i]->tokens_.back());
    const auto logits = answers.front()->batcher_->step(server, tokens);
    for (std::size_t k = 0; k < drawing.size(); ++k) {
      Completion& answer = *answers[drawing[k]];
      ++answer.length_;
      pieces[drawing[k]] = answer.draw(logits[k]);
    }
  }
  return pieces;
}

std::string Completion::rest() {
  if (!stopped_by_text_) text_ += stream_.finish();
  const std::size_t stop = text::find_stop(text_, options_.stop);
  if (stop != std::string::npos) text_.resize(stop);
  return shown_until(text_.size());
}

std::string Completion::hash() const {
  return fmt::format("{:016x}", Tensor::from(tokens_, {static_cast<std::int64_t>(tokens_.size())}).hash());
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
