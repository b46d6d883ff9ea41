// The most probable continuations of a text, as far as a few candidates at a time can find them.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/models/generate.h>

namespace lockstep {
inline namespace v0 {
namespace models {

struct BeamSearchOptions {
  std::int64_t beams = 4;  ///< Candidates at a time, and results.
  std::int64_t max_tokens = 128;
  double length_penalty = 1;  ///< Scores are sums of log-probabilities over the length to this power.
  std::vector<std::int64_t> end_tokens = {};
};

/// A continuation, and what its tokens say of it.
struct Beam {
  std::vector<SampledToken> tokens;  ///< Without the end token.
  double score = 0;    ///< Their log-probabilities together, over length to the power of the length penalty.
  bool ended = false;  ///< By an end token, which counts in the score and the length.
};

/// The best continuations, the best first; of equal ones the one whose tokens come first. transformers: generate with
/// num_beams and early_stopping=False. ValueError for an empty prompt, options that make no sense, and models without a
/// cache. Stops at the end of the context.
LOCKSTEP_API std::vector<Beam> beam_search(const LanguageModel& model, const std::vector<std::int64_t>& prompt,
                                           const BeamSearchOptions& options = {}, Device device = {});

}  // namespace models
}  // namespace v0
}  // namespace lockstep
