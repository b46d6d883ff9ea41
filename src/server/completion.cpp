#include "server/completion.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/models/constraint.h>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

// A long prompt must not keep the others waiting; chunks give the same bits.
constexpr std::size_t kPromptStep = 256;

std::shared_ptr<models::TokenConstraint> constraint_of(const CompletionOptions& options, const text::TokenTexts& texts,
                                                       std::optional<std::int64_t> end) {
  if (!options.grammar) return nullptr;
  return models::constrain(*options.grammar, texts,
                           end ? std::vector<std::int64_t>{*end} : std::vector<std::int64_t>{});
}

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
  // As models::sample computes them, so that a drawn token has one log-probability.
  const double largest = static_cast<double>(logits[order.front()]);
  double total = 0;
  for (const float logit : logits) total += scalar::ls_exp(static_cast<double>(logit) - largest);
  std::vector<models::SampledToken> result;
  for (const std::size_t token : order) {
    const double value = static_cast<double>(logits[token]) - largest - scalar::ls_log(total);
    result.push_back({static_cast<std::int64_t>(token), static_cast<float>(value)});
  }
  return result;
}

Completion::Completion(const models::LanguageModel& model, Batcher& batcher, const text::Tokenizer& tokenizer,
                       const text::TokenTexts& texts, std::vector<std::int64_t> prompt, CompletionOptions options,
                       Device device)
    : model_(&model),
      batcher_(&batcher),
      options_(std::move(options)),
      end_token_(tokenizer.end_token()),
      device_(device),
      prompt_(prompt),
      pending_(prompt),
      sampler_(options_.sampling, prompt, constraint_of(options_, texts, end_token_)),
      stream_(tokenizer, std::move(prompt)) {}

std::string Completion::shown_until(std::size_t end) {
  if (end <= shown_) return "";
  std::string more = text_.substr(shown_, end - shown_);
  shown_ = end;
  return more;
}

Completion::~Completion() {
  if (!in_batch_) return;
  std::vector<std::int64_t> text = std::move(prompt_);
  text.insert(text.end(), tokens_.begin(), tokens_.end());
  batcher_->leave(*in_batch_, std::move(text));
}

// From where others have come.
void Completion::begin() {
  if (!batcher_->works()) {
    cache_ = model_->make_cache();
    return;
  }
  cache_ = batcher_->begin(prompt_);
  reused_ = length_ = cache_->length();
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(length_));
}

// Behind the pending tokens; nothing where not all of a prompt is read yet.
std::optional<std::vector<float>> Completion::next_logits(HttpServer& server) {
  if (in_batch_) {
    const std::int64_t token = pending_.front();
    pending_.clear();
    ++length_;
    return batcher_->step(server, *in_batch_, token);
  }
  return server.step_in_turn([&]() -> std::optional<std::vector<float>> {
    const NoGrad no_grad;
    const NumericsScope numerics(batcher_->numerics());
    if (cache_ == nullptr) begin();
    const auto end = pending_.begin() + static_cast<std::ptrdiff_t>(std::min(kPromptStep, pending_.size()));
    const std::vector<std::int64_t> ids(pending_.begin(), end);
    pending_.erase(pending_.begin(), end);
    const auto length = static_cast<std::int64_t>(ids.size());
    length_ += length;
    const Tensor logits = model_->forward(Tensor::from(ids, {1, length}, device_), cache_.get());
    std::vector<float> last = logits.select(0, 0).select(0, length - 1).to_vector<float>();
    if (batcher_->works()) batcher_->keep(prompt_, *cache_);
    if (!pending_.empty()) return std::nullopt;
    if (batcher_->works()) {
      in_batch_ = batcher_->join(*cache_);
      cache_.reset();
    }
    return last;
  });
}

std::optional<Piece> Completion::step(HttpServer& server) {
  if (!finish_reason_.empty()) return {};
  if (sampler_.ended()) {
    finish_reason_ = "stop";
    return {};
  }
  const auto left = static_cast<std::int64_t>(pending_.size());
  if (static_cast<std::int64_t>(tokens_.size()) >= options_.max_tokens ||
      (model_->context() > 0 && length_ + left > model_->context())) {
    finish_reason_ = "length";
    return {};
  }
  const std::optional<std::vector<float>> logits = next_logits(server);
  if (!logits) return {};
  const std::vector<float>& last = *logits;
  Piece piece{.token = sampler_.draw(last, length_), .alternatives = most_probable(last, options_.alternatives)};
  if (piece.token.token == end_token_) {
    finish_reason_ = "stop";
    return {};
  }
  tokens_.push_back(piece.token.token);
  pending_ = {piece.token.token};
  text_ += stream_.add(piece.token.token);
  const std::size_t stop = text::find_stop(text_, options_.stop);
  if (stop != std::string::npos) {
    text_.resize(stop);
    finish_reason_ = "stop";
    stopped_by_text_ = true;
  } else if (sampler_.ended()) {
    finish_reason_ = "stop";
  } else if (static_cast<std::int64_t>(tokens_.size()) == options_.max_tokens) {
    finish_reason_ = "length";
  }
  piece.text = shown_until(stopped_by_text_ ? text_.size() : text_.size() - text::possible_stop(text_, options_.stop));
  return piece;
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
