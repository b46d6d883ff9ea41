#include <lockstep/models/generate.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "core/device.h"
#include "graph/early_read.h"
#include "models/language/layered.h"

namespace lockstep {
inline namespace v0 {
namespace models {

PromptCache::PromptCache(const LanguageModel& model) : model_(&model), cache_(model.make_cache()) {}

std::size_t PromptCache::known(std::span<const std::int64_t> tokens, std::int64_t rows) const {
  std::size_t same = 0;
  while (same < std::min(tokens_.size(), tokens.size()) && tokens_[same] == tokens[same]) ++same;
  const auto told = static_cast<std::size_t>(std::max<std::int64_t>(rows, 1));
  same = std::min(same, tokens.size() - std::min(tokens.size(), told));
  return same == tokens_.size() || cache_->truncates() ? same : 0;
}

Tensor PromptCache::logits(std::span<const std::int64_t> tokens, std::int64_t rows, Device device) {
  if (tokens.empty()) throw ValueError("PromptCache: there are no tokens");
  const NoGrad no_grad;
  if (untold() > 0) cache_->truncate(static_cast<std::int64_t>(tokens_.size()));
  const std::size_t same = known(tokens, rows);
  if (same < tokens_.size()) {
    if (cache_->truncates()) {
      cache_->truncate(static_cast<std::int64_t>(same));
    } else {
      cache_ = model_->make_cache();
    }
    tokens_.resize(same);
  }
  const std::vector<std::int64_t> rest(tokens.begin() + static_cast<std::ptrdiff_t>(same), tokens.end());
  const auto length = static_cast<std::int64_t>(rest.size());
  const std::int64_t told = std::min(std::max<std::int64_t>(rows, 1), length);
  const Tensor ids = Tensor::from(rest, {1, length}, device);
  const auto* layered = dynamic_cast<const LayeredModel*>(model_);
  const Tensor last = layered == nullptr ? model_->forward(ids, cache_.get()).narrow(1, length - told, told)
                                         : layered->last_logits(ids, told, cache_.get());
  tokens_.assign(tokens.begin(), tokens.end());
  return last.select(0, 0);
}

Tensor PromptCache::logits_behind(const Tensor& token) {
  if (!looks_ahead()) throw ValueError("PromptCache: there are no tokens, or no way back to them");
  const NoGrad no_grad;
  return model_->forward(token.reshape({1, 1}), cache_.get()).select(0, 0);
}

void PromptCache::add(std::int64_t token) {
  if (untold() <= 0) throw ValueError("PromptCache: there is no token that is left to be told");
  tokens_.push_back(token);
}

std::int64_t PromptCache::untold() const {
  return cache_->truncates() ? cache_->length() - static_cast<std::int64_t>(tokens_.size()) : 0;
}

namespace {

/// Guesses what comes next.
class Guesser {
 public:
  Guesser(const LanguageModel& model, const GenerateOptions& options, Device device)
      : options_(&options), device_(device) {
    const SpeculationOptions& own = options.speculation;
    if (own.lookup < 0) throw ValueError(fmt::format("generate: lookup is {}, not at least 0", own.lookup));
    if (own.draft == nullptr && own.lookup == 0) return;
    if (own.tokens < 1) throw ValueError(fmt::format("generate: {} tokens to guess at a time", own.tokens));
    const auto needs_keys = [](const LanguageModel& of) {
      if (!of.make_cache()->truncates()) {
        throw ValueError(
            fmt::format("generate: {} has a state, which cannot go back behind a wrong guess", of.family()));
      }
    };
    needs_keys(model);
    if (own.draft == nullptr) return;
    needs_keys(*own.draft);
    if (own.draft->vocabulary() != model.vocabulary()) {
      throw ValueError(fmt::format("generate: the draft model has {} tokens, the model {}", own.draft->vocabulary(),
                                   model.vocabulary()));
    }
    draft_.emplace_back(*own.draft);
  }

  bool guesses() const { return options_->speculation.draft != nullptr || options_->speculation.lookup > 0; }
  /// At most `most` tokens behind `history`.
  std::vector<std::int64_t> guess(std::vector<std::int64_t> history, std::int64_t most) {
    most = std::min(most, options_->speculation.tokens);
    if (most <= 0) return {};
    if (draft_.empty()) return looked_up(history, most);
    const std::int64_t context = draft_.front().model().context();
    std::vector<std::int64_t> result;
    while (static_cast<std::int64_t>(result.size()) < most) {
      const auto position = static_cast<std::int64_t>(history.size());
      if (context > 0 && position > context) break;
      const std::vector<float> last = draft_.front().logits(history, 1, device_).to_vector<float>();
      // With the draw of that position: what the model takes, as far as the drafts' logits are like its own.
      history.push_back(sample(last, position, options_->sampling).token);
      result.push_back(history.back());
    }
    return result;
  }

 private:
  // What followed the last tokens when they stood there before (Saxena, 2023); the longest match, of these the latest.
  std::vector<std::int64_t> looked_up(const std::vector<std::int64_t>& history, std::int64_t most) const {
    const auto end = static_cast<std::ptrdiff_t>(history.size());
    for (auto size = std::min<std::ptrdiff_t>(options_->speculation.lookup, end - 1); size > 0; --size) {
      for (std::ptrdiff_t at = end - size - 1; at >= 0; --at) {
        if (!std::equal(history.begin() + at, history.begin() + at + size, history.end() - size)) continue;
        const std::ptrdiff_t next = at + size;
        return {history.begin() + next, history.begin() + std::min<std::ptrdiff_t>(end, next + most)};
      }
    }
    return {};
  }

  const GenerateOptions* options_;
  Device device_;
  std::vector<PromptCache> draft_;  // one or none
};

/// The text so far, and what ends it.
class Continuation {
 public:
  Continuation(const std::vector<std::int64_t>& prompt, const GenerateOptions& options,
               const std::function<bool(const SampledToken&)>& on_token)
      : options_(&options),
        on_token_(&on_token),
        sampler_(options.sampling, prompt, options.constraint),
        history_(prompt) {}

  /// Draws the next token; false at the end.
  bool draw(std::span<const float> logits) {
    const SampledToken token = sampler_.draw(logits, static_cast<std::int64_t>(history_.size()));
    const auto& ends = options_->end_tokens;
    if (std::find(ends.begin(), ends.end(), token.token) != ends.end()) return false;
    drawn_.push_back(token);
    history_.push_back(token.token);
    return (!*on_token_ || (*on_token_)(token)) && !full();
  }
  /// Whether the next token is the one with the largest logit, whatever the text.
  bool takes_largest() const {
    const SamplingOptions& own = options_->sampling;
    const bool as_they_are = own.repetition_penalty == 1 && own.presence_penalty == 0 && own.frequency_penalty == 0;
    return own.temperature == 0 && as_they_are && own.logit_bias.empty() && options_->constraint == nullptr;
  }
  bool full() const { return left() <= 0 || sampler_.ended(); }
  std::int64_t left() const { return options_->max_tokens - static_cast<std::int64_t>(drawn_.size()); }
  const std::vector<std::int64_t>& history() const { return history_; }
  std::vector<SampledToken> take() { return std::move(drawn_); }

 private:
  const GenerateOptions* options_;
  const std::function<bool(const SampledToken&)>* on_token_;
  Sampler sampler_;
  std::vector<std::int64_t> history_;
  std::vector<SampledToken> drawn_;
};

// Where the device knows the next token as well as the host does, it goes on while the host draws it: each step is
// begun before the token of the one before is read. Whether the text has ended; else the model has no way back.
bool continue_ahead(PromptCache& cache, Continuation& text, Device device) {
  const LanguageModel& model = cache.model();
  const auto fits = [&](std::int64_t length) { return model.context() <= 0 || length <= model.context(); };
  auto length = static_cast<std::int64_t>(text.history().size());
  if (!fits(length)) return true;
  struct Step {
    Tensor best;
    graph::EarlyRead logits;
  };
  const auto begin = [](const Tensor& logits) {
    const Tensor best = argmax(logits, -1);
    return Step{best, graph::EarlyRead(logits)};
  };
  Step now = begin(cache.logits(text.history(), 1, device));
  for (;; ++length) {
    std::optional<Step> next;
    const bool goes_on = text.left() > 1 && fits(length + 1);
    if (goes_on && cache.looks_ahead()) next = begin(cache.logits_behind(now.best));
    if (!text.draw(now.logits.to_vector<float>()) || !goes_on) return true;
    if (!next) return false;
    cache.add(text.history().back());
    now = *std::move(next);
  }
}

}  // namespace

std::vector<SampledToken> generate(const LanguageModel& model, const std::vector<std::int64_t>& prompt,
                                   const GenerateOptions& options,
                                   const std::function<bool(const SampledToken&)>& on_token, Device device) {
  if (prompt.empty()) throw ValueError("generate: the prompt has no tokens");
  if (options.cache != nullptr && &options.cache->model() != &model) {
    throw ValueError("generate: the cache is another model's");
  }
  const NoGrad no_grad;
  PromptCache own(model);
  PromptCache& cache = options.cache == nullptr ? own : *options.cache;
  Guesser guesser(model, options, device);
  Continuation text(prompt, options, on_token);
  const bool ahead = !is_host(device) && text.takes_largest() && !guesser.guesses() && !text.full();
  if (ahead && continue_ahead(cache, text, device)) return text.take();
  while (!text.full()) {
    const auto length = static_cast<std::int64_t>(text.history().size());
    if (model.context() > 0 && length > model.context()) break;
    std::int64_t most = text.left() - 1;
    if (model.context() > 0) most = std::min(most, model.context() - length);
    std::vector<std::int64_t> tokens = text.history();
    const std::vector<std::int64_t> guesses = guesser.guess(tokens, most);
    tokens.insert(tokens.end(), guesses.begin(), guesses.end());
    const auto rows = static_cast<std::int64_t>(guesses.size()) + 1;
    const std::vector<float> logits = cache.logits(tokens, rows, device).to_vector<float>();
    if (options.counts != nullptr) options.counts->guessed += rows - 1;
    const std::size_t vocabulary = logits.size() / static_cast<std::size_t>(rows);
    for (std::size_t row = 0;; ++row) {
      if (!text.draw(std::span(logits).subspan(row * vocabulary, vocabulary))) return text.take();
      if (row == guesses.size() || text.history().back() != guesses[row]) break;
      if (options.counts != nullptr) ++options.counts->right;
    }
  }
  return text.take();
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
