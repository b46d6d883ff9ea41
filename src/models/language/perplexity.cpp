#include <lockstep/models/perplexity.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// Sums are in f64, in the order of the tokens.
void evaluate(Perplexity& result) {
  const auto count = static_cast<double>(result.log_probabilities.size());
  double sum = 0;
  double squares = 0;
  for (const float value : result.log_probabilities) {
    sum -= static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const double mean = sum / count;
  const double variance = std::max(0.0, squares / count - mean * mean);
  result.value = scalar::ls_exp(mean);
  result.error = count > 1 ? std::sqrt(variance / (count - 1)) * result.value : 0;
}

}  // namespace

Perplexity perplexity(const LanguageModel& model, const std::vector<std::int64_t>& tokens,
                      const PerplexityOptions& options,
                      const std::function<bool(const Perplexity&, std::int64_t chunks)>& on_chunk, Device device) {
  const std::int64_t context = options.context;
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (model.encoder()) throw ValueError("perplexity: an encoder foretells no text");
  if (context < 4) throw ValueError(fmt::format("perplexity: a context of {} tokens, not at least 4", context));
  if (options.chunks < 0) throw ValueError(fmt::format("perplexity: {} chunks", options.chunks));
  if (model.context() > 0 && context > model.context()) {
    throw ValueError(
        fmt::format("perplexity: a context of {} tokens, but the model was made for {}", context, model.context()));
  }
  if (count < context) {
    throw ValueError(fmt::format(
        "perplexity: the text has {} tokens, a chunk {}\n  fix: a longer text, or a smaller context", count, context));
  }
  const NoGrad no_grad;
  const std::int64_t chunks = options.chunks == 0 ? count / context : std::min(options.chunks, count / context);
  const std::int64_t first = context / 2;
  const std::int64_t scored = context - 1 - first;
  Perplexity result;
  while (result.chunks < chunks) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(result.chunks * context);
    std::vector<std::int64_t> chunk(begin, begin + static_cast<std::ptrdiff_t>(context));
    if (options.first_token) chunk.front() = *options.first_token;
    const Tensor ids = Tensor::from(chunk, {1, context}, device);
    const Tensor logits = model.forward(ids).select(0, 0).narrow(0, first, scored);
    const Tensor next = ids.select(0, 0).narrow(0, first + 1, scored).unsqueeze(1);
    const std::vector<float> own = log_softmax(logits, -1).gather(1, next).to_vector<float>();
    result.log_probabilities.insert(result.log_probabilities.end(), own.begin(), own.end());
    ++result.chunks;
    evaluate(result);
    if (on_chunk && !on_chunk(result, chunks)) break;
  }
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
