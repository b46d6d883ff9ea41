// Tokens from a language model, one after the other. What is drawn depends on the logits, the seed and the position
// alone: the same on every device, with and without a cache.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/models/language.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// Applied in this order: penalties, logit_bias, a constraint, temperature, top_k, typical_p, top_p, min_p, draw. Of equal
/// logits the lower token comes first.
struct SamplingOptions {
  double temperature = 0;  ///< 0: always the most probable token.
  std::int64_t top_k = 0;  ///< So many of the most probable ones; 0: all.
  double top_p = 1;        ///< The fewest most probable ones that have this probability together.
  double min_p = 0;        ///< Those with at least this share of the most probable one's probability.
  std::uint64_t seed = 0;
  double typical_p = 1;           ///< The fewest with this probability whose surprise is nearest the entropy (Meister, 2022).
  double repetition_penalty = 1;  ///< Logits of tokens of the text: divided by it, negative ones multiplied (Keskar, 2019).
  double presence_penalty = 0;    ///< Taken from logits of tokens that were drawn,  OpenAI
  double frequency_penalty = 0;   ///< and this as many times as they were drawn.  OpenAI
  std::int64_t penalty_window = 0;             ///< Penalties look at so many last tokens; 0: at all.
  std::map<std::int64_t, double> logit_bias = {};  ///< Added to a token's logit.
  double mirostat_tau = 0;                     ///< Surprise to aim at, in bits, instead of top_k to min_p; 0: off.
  double mirostat_eta = 0.1;                   ///< How fast (Mirostat 2; Basu, 2021).
};

/// A token that was drawn.
struct SampledToken {
  std::int64_t token = 0;
  float log_probability = 0;  ///< Of the token before any of the options.
};

/// `logits` of one position; `position` of the token that is drawn, the first of its text: there are no penalties.
/// ValueError for options outside their range, no logits, or logits that are NaN.
LOCKSTEP_API SampledToken sample(std::span<const float> logits, std::int64_t position, const SamplingOptions& options);

/// What may come next, e.g. as a grammar has it (lockstep/text/grammar.h).
class LOCKSTEP_API TokenConstraint {
 public:
  TokenConstraint() = default;
  virtual ~TokenConstraint();
  TokenConstraint(const TokenConstraint&) = delete;
  TokenConstraint& operator=(const TokenConstraint&) = delete;

  /// Makes the logits of tokens that may not come next minus infinity.
  virtual void hide(std::span<float> logits) = 0;
  virtual void accept(std::int64_t token) = 0;
  /// Nothing may come any more.
  virtual bool ended() const = 0;
};

/// Draws the tokens of one text, each knowing those before it.
class LOCKSTEP_API Sampler {
 public:
  /// ValueError for options outside their range. `prompt` is what the repetition penalty sees from the beginning.
  explicit Sampler(SamplingOptions options, std::span<const std::int64_t> prompt = {},
                   std::shared_ptr<TokenConstraint> constraint = nullptr);
  /// The next token, as `sample`. ValueError also for a bias of what is no token, and if the constraint leaves nothing.
  SampledToken draw(std::span<const float> logits, std::int64_t position);
  /// The constraint allows nothing more.
  bool ended() const { return constraint_ != nullptr && constraint_->ended(); }

 private:
  void adjust(std::span<float> logits) const;

  SamplingOptions options_;
  std::shared_ptr<TokenConstraint> constraint_;
  std::vector<std::int64_t> history_;
  std::size_t prompt_ = 0;  // so many of them
  double surprise_ = 0;     // mirostat's limit
};

/// What a model remembers, and of which tokens: a text that begins as the last one did is read from where it differs.
class LOCKSTEP_API PromptCache {
 public:
  explicit PromptCache(const LanguageModel& model);
  /// Logits [rows, vocabulary] of the last `rows` positions of `tokens`, of which the cache keeps as many as it can;
  /// afterwards it remembers all of them. ValueError for no tokens.
  Tensor logits(std::span<const std::int64_t> tokens, std::int64_t rows, Device device);
  /// Logits [1, vocabulary] behind one more token, an i64 of any shape on the model's device whose value nobody needs
  /// to know yet: the device may still have to find it. It has to be told with `add` before anything else is asked, or
  /// is forgotten then. ValueError where `looks_ahead` is false, and from `add` where no token is left to be told.
  Tensor logits_behind(const Tensor& token);
  void add(std::int64_t token);
  /// Whether there is something to look ahead from, and a way back.
  bool looks_ahead() const { return !tokens_.empty() && cache_->truncates(); }
  /// How many of these tokens it would not have to read again, with `rows` to tell.
  std::size_t known(std::span<const std::int64_t> tokens, std::int64_t rows) const;
  const LanguageModel& model() const { return *model_; }

 private:
  /// Tokens that the cache knows and nobody has told.
  std::int64_t untold() const;

  const LanguageModel* model_;
  std::unique_ptr<LanguageCache> cache_;
  std::vector<std::int64_t> tokens_;
};

/// Tokens are guessed, and what the model itself draws at their places is computed in one pass: the result is that of
/// drawing one by one, bit for bit, at any temperature (Leviathan, 2022, where the draws are given by their positions).
struct SpeculationOptions {
  const LanguageModel* draft = nullptr;  ///< A small model of the same vocabulary that guesses.
  std::int64_t lookup = 0;               ///< Without one: what followed the last so many tokens, or fewer, before.
  std::int64_t tokens = 4;               ///< Guessed at a time.
};

/// How many tokens were guessed, and how many of them were those of plain decoding.
struct SpeculationCounts {
  std::int64_t guessed = 0;
  std::int64_t right = 0;
};

struct GenerateOptions {
  SamplingOptions sampling = {};
  std::int64_t max_tokens = 128;
  std::vector<std::int64_t> end_tokens = {};  ///< The first of these ends it, and is not part of the result.
  std::shared_ptr<TokenConstraint> constraint = nullptr;
  SpeculationOptions speculation = {};
  SpeculationCounts* counts = nullptr;  ///< Where to add them.
  PromptCache* cache = nullptr;         ///< Of this model; keeps what is known of the text for the next one.
};

/// Continues `prompt`. `on_token` (if there is one) is called with every token; it returns false to stop. ValueError
/// for an empty prompt, for encoders, and for speculation where a model has a state, which cannot go back, or another
/// vocabulary. Stops at the end of positions that were learned or that the model was made for.
LOCKSTEP_API std::vector<SampledToken> generate(const LanguageModel& model, const std::vector<std::int64_t>& prompt,
                                                const GenerateOptions& options = {},
                                                const std::function<bool(const SampledToken&)>& on_token = {},
                                                Device device = {});

}  // namespace models
}  // namespace v0
}  // namespace lockstep
