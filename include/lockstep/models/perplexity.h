// How well a language model foretells a text.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <lockstep/models/language.h>

namespace lockstep {
inline namespace v0 {
namespace models {

struct PerplexityOptions {
  std::int64_t context = 512;  ///< Tokens of a chunk.
  std::int64_t chunks = 0;     ///< At most so many; 0: all.
  /// Stands at the beginning of each chunk instead of the text's own token, for models whose texts begin with one.
  std::optional<std::int64_t> first_token = {};
};

/// How well a model knew a text.
struct Perplexity {
  double value = 0;                           ///< exp of the mean negative log-probability,
  double error = 0;                           ///< and its standard error.
  std::int64_t chunks = 0;                    ///< That were read.
  std::vector<float> log_probabilities = {};  ///< Of the tokens that count, in order.
};

/// Cuts `tokens` into chunks of `context` that know nothing of one another (a rest is left out); what counts are the
/// tokens of each chunk's second half, from context / 2 + 1 on, which have at least context / 2 + 1 before them. That
/// is what llama.cpp's llama-perplexity does without --ppl-stride. `on_chunk` (if there is one) is called after each
/// chunk with the result so far and the number of chunks; it returns false to stop. ValueError for encoders, a context
/// below 4 or beyond the model's, and fewer tokens than a chunk has.
LOCKSTEP_API Perplexity perplexity(const LanguageModel& model, const std::vector<std::int64_t>& tokens,
                                   const PerplexityOptions& options = {},
                                   const std::function<bool(const Perplexity&, std::int64_t chunks)>& on_chunk = {},
                                   Device device = {});

}  // namespace models
}  // namespace v0
}  // namespace lockstep
