// Tokens from a language model, one after the other. What is drawn depends on the logits, the seed and the position
// alone: the same on every device, with and without a cache.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <lockstep/models/language.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// Applied in this order: temperature, top_k, top_p, min_p, draw. Of equal logits the lower token comes first.
struct SamplingOptions {
  double temperature = 0;  ///< 0: always the most probable token.
  std::int64_t top_k = 0;  ///< So many of the most probable ones; 0: all.
  double top_p = 1;        ///< The fewest most probable ones that have this probability together.
  double min_p = 0;        ///< Those with at least this share of the most probable one's probability.
  std::uint64_t seed = 0;
};

/// A token that was drawn.
struct SampledToken {
  std::int64_t token = 0;
  float log_probability = 0;  ///< Of the token before any of the options.
};

/// `logits` of one position; `position` of the token that is drawn. ValueError for options outside their range, no
/// logits, or logits that are NaN.
LOCKSTEP_API SampledToken sample(std::span<const float> logits, std::int64_t position, const SamplingOptions& options);

struct GenerateOptions {
  SamplingOptions sampling = {};
  std::int64_t max_tokens = 128;
  std::vector<std::int64_t> end_tokens = {};  ///< The first of these ends it, and is not part of the result.
};

/// Continues `prompt`. `on_token` (if there is one) is called with every token; it returns false to stop. ValueError
/// for an empty prompt and for encoders. Stops at the end of positions that were learned or that the model was made
/// for.
LOCKSTEP_API std::vector<SampledToken> generate(const LanguageModel& model, const std::vector<std::int64_t>& prompt,
                                                const GenerateOptions& options = {},
                                                const std::function<bool(const SampledToken&)>& on_token = {},
                                                Device device = {});

}  // namespace models
}  // namespace v0
}  // namespace lockstep
