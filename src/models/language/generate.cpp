#include <lockstep/models/generate.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/random.h>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

void check(const SamplingOptions& options) {
  const auto refuse = [](const char* name, double value, const char* range) {
    throw ValueError(fmt::format("sample: {} is {}, not {}", name, value, range));
  };
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) {
    refuse("temperature", options.temperature, "at least 0 and finite");
  }
  if (options.top_k < 0) refuse("top_k", static_cast<double>(options.top_k), "at least 0");
  if (!(options.top_p > 0 && options.top_p <= 1)) refuse("top_p", options.top_p, "in (0, 1]");
  if (!(options.min_p >= 0 && options.min_p <= 1)) refuse("min_p", options.min_p, "in [0, 1]");
}

// Uniform in [0, 1): the draw of that position under the seed, by the library's counter-based generator.
double draw(std::uint64_t seed, std::int64_t position) {
  Generator generator(seed);
  generator.restore(seed, static_cast<std::uint64_t>(position));
  return rand({1}, {.dtype = DType::f64}, &generator).item<double>();
}

}  // namespace

// Sums are in f64, in the order of the sorted tokens, with the library's own exponential.
SampledToken sample(std::span<const float> logits, std::int64_t position, const SamplingOptions& options) {
  check(options);
  if (logits.empty() || std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); })) {
    throw ValueError("sample: there are no logits, or they hold NaN");
  }
  const auto best = static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const double largest = static_cast<double>(logits[best]);
  const auto weight = [&](std::size_t token, double temperature) {
    return scalar::ls_exp((static_cast<double>(logits[token]) - largest) / temperature);
  };
  double total = 0;
  for (std::size_t token = 0; token < logits.size(); ++token) total += weight(token, 1);
  const auto result = [&](std::size_t token) {
    const double value = static_cast<double>(logits[token]) - largest - scalar::ls_log(total);
    return SampledToken{static_cast<std::int64_t>(token), static_cast<float>(value)};
  };
  if (options.temperature == 0 || options.top_k == 1) return result(best);

  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < order.size()) {
    order.resize(static_cast<std::size_t>(options.top_k));
  }
  std::vector<double> weights;
  for (const std::size_t token : order) weights.push_back(weight(token, options.temperature));
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t kept = 0;
  for (double sum = 0; kept < weights.size(); ++kept) {
    if (sum >= options.top_p * all || weights[kept] < options.min_p * weights.front()) break;
    sum += weights[kept];
  }
  weights.resize(std::max(kept, std::size_t{1}));
  const double target = draw(options.seed, position) * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (target < sum) return result(order[i]);
  }
  return result(order[weights.size() - 1]);
}

std::vector<SampledToken> generate(const LanguageModel& model, const std::vector<std::int64_t>& prompt,
                                   const GenerateOptions& options,
                                   const std::function<bool(const SampledToken&)>& on_token, Device device) {
  if (prompt.empty()) throw ValueError("generate: the prompt has no tokens");
  const NoGrad no_grad;
  const std::unique_ptr<LanguageCache> cache = model.make_cache();
  std::vector<std::int64_t> next = prompt;
  std::vector<SampledToken> result;
  while (static_cast<std::int64_t>(result.size()) < options.max_tokens) {
    if (model.context() > 0 && cache->length() + static_cast<std::int64_t>(next.size()) > model.context()) break;
    const auto length = static_cast<std::int64_t>(next.size());
    const Tensor logits = model.forward(Tensor::from(next, {1, length}, device), cache.get());
    const std::vector<float> last = logits.select(0, 0).select(0, length - 1).to_vector<float>();
    const SampledToken token = sample(last, cache->length(), options.sampling);
    const auto& ends = options.end_tokens;
    if (std::find(ends.begin(), ends.end(), token.token) != ends.end()) break;
    result.push_back(token);
    if (on_token && !on_token(token)) break;
    next = {token.token};
  }
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
