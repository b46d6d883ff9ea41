// Which token comes next: logits are adjusted by what came before, thinned out, and one of what is left is drawn. Sums
// are in f64, in the order of the sorted tokens, with the library's own exponential and logarithm.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/models/generate.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

[[noreturn]] void refuse_option(const char* name, double value, const char* range) {
  throw ValueError(fmt::format("sample: {} is {}, not {}", name, value, range));
}

void check_sampling(const SamplingOptions& options) {
  const auto finite = [](const char* name, double value) {
    if (!std::isfinite(value)) refuse_option(name, value, "finite");
  };
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) {
    refuse_option("temperature", options.temperature, "at least 0 and finite");
  }
  if (options.top_k < 0) refuse_option("top_k", static_cast<double>(options.top_k), "at least 0");
  if (!(options.top_p > 0 && options.top_p <= 1)) refuse_option("top_p", options.top_p, "in (0, 1]");
  if (!(options.min_p >= 0 && options.min_p <= 1)) refuse_option("min_p", options.min_p, "in [0, 1]");
  if (!(options.typical_p > 0 && options.typical_p <= 1)) refuse_option("typical_p", options.typical_p, "in (0, 1]");
  if (!(options.repetition_penalty > 0) || std::isinf(options.repetition_penalty)) {
    refuse_option("repetition_penalty", options.repetition_penalty, "above 0 and finite");
  }
  finite("presence_penalty", options.presence_penalty);
  finite("frequency_penalty", options.frequency_penalty);
  if (options.penalty_window < 0) {
    refuse_option("penalty_window", static_cast<double>(options.penalty_window), "at least 0");
  }
  for (const auto& [token, bias] : options.logit_bias) {
    if (std::isnan(bias) || bias == std::numeric_limits<double>::infinity()) {
      refuse_option("logit_bias", bias, "a number or minus infinity");
    }
  }
  if (!(options.mirostat_tau >= 0) || std::isinf(options.mirostat_tau)) {
    refuse_option("mirostat_tau", options.mirostat_tau, "at least 0 and finite");
  }
  if (options.mirostat_tau == 0) return;
  if (!(options.mirostat_eta > 0 && options.mirostat_eta <= 1)) {
    refuse_option("mirostat_eta", options.mirostat_eta, "in (0, 1]");
  }
  if (options.temperature == 0) refuse_option("temperature", 0, "above 0, which mirostat needs");
  if (options.top_k != 0 || options.top_p != 1 || options.min_p != 0 || options.typical_p != 1) {
    throw ValueError("sample: mirostat chooses by itself, without top_k, top_p, min_p and typical_p");
  }
}

// Uniform in [0, 1): the draw of that position under the seed, by the library's counter-based generator.
double uniform_at(std::uint64_t seed, std::int64_t position) {
  Generator generator(seed);
  generator.restore(seed, static_cast<std::uint64_t>(position));
  return rand({1}, {.dtype = DType::f64}, &generator).item<double>();
}

// What is no number of f32 is the nearest one, but for minus infinity, which hides a token: differences stay numbers.
float as_logit(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::isinf(value) && value < 0 ? value : std::clamp(value, -kMost, kMost));
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// The tokens that are still in question, the most probable first, and their weights.
struct Candidates {
  std::vector<std::size_t> tokens;
  std::vector<double> weights;
};

// Keeps the fewest whose surprise is nearest the entropy and that have the probability together; their order stays.
void keep_typical(Candidates& candidates, double probability) {
  const double all = sum_of(candidates.weights);
  const std::size_t count = candidates.weights.size();
  std::vector<double> surprise(count);
  double entropy = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double p = candidates.weights[i] / all;
    surprise[i] = p > 0 ? -scalar::ls_log(p) : std::numeric_limits<double>::infinity();
    if (p > 0) entropy += p * surprise[i];
  }
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto distance = [&](std::size_t i) { return std::fabs(surprise[i] - entropy); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
  std::size_t kept = 0;
  for (double sum = 0; kept < count && sum < probability * all; ++kept) sum += candidates.weights[order[kept]];
  order.resize(std::max(kept, std::size_t{1}));
  std::sort(order.begin(), order.end());
  Candidates result;
  for (const std::size_t i : order) {
    result.tokens.push_back(candidates.tokens[i]);
    result.weights.push_back(candidates.weights[i]);
  }
  candidates = std::move(result);
}

void keep_probable(Candidates& candidates, double top_p, double min_p) {
  std::vector<double>& weights = candidates.weights;
  const double all = sum_of(weights);
  std::size_t kept = 0;
  for (double sum = 0; kept < weights.size(); ++kept) {
    if (sum >= top_p * all || weights[kept] < min_p * weights.front()) break;
    sum += weights[kept];
  }
  weights.resize(std::max(kept, std::size_t{1}));
}

double bits(double weight, double all) {
  return -scalar::ls_log(weight / all) / scalar::ls_log(2.0);
}

void keep_below(Candidates& candidates, double surprise) {
  const double all = sum_of(candidates.weights);
  std::size_t kept = 1;
  while (kept < candidates.weights.size() && candidates.weights[kept] > 0 &&
         bits(candidates.weights[kept], all) <= surprise) {
    ++kept;
  }
  candidates.weights.resize(kept);
}

// The token at that place of the running sum. What it has of all is left in `share`.
std::size_t pick(const Candidates& candidates, double uniform, double& share) {
  const double all = sum_of(candidates.weights);
  const double target = uniform * all;
  std::size_t at = 0;
  for (double sum = 0; at + 1 < candidates.weights.size(); ++at) {
    sum += candidates.weights[at];
    if (target < sum) break;
  }
  share = bits(candidates.weights[at], all);
  return candidates.tokens[at];
}

// `surprise`: mirostat's limit, which moves.
std::size_t choose(std::span<const float> logits, std::int64_t position, const SamplingOptions& options,
                   double& surprise) {
  const auto best = static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  if (options.temperature == 0 || options.top_k == 1) return best;
  Candidates candidates;
  std::vector<std::size_t>& order = candidates.tokens;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (logits[token] != -std::numeric_limits<float>::infinity()) order.push_back(token);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < order.size()) {
    order.resize(static_cast<std::size_t>(options.top_k));
  }
  const double largest = static_cast<double>(logits[best]);
  for (const std::size_t token : order) {
    candidates.weights.push_back(scalar::ls_exp((static_cast<double>(logits[token]) - largest) / options.temperature));
  }
  double share = 0;
  const double uniform = uniform_at(options.seed, position);
  if (options.mirostat_tau > 0) {
    keep_below(candidates, surprise);
    const std::size_t token = pick(candidates, uniform, share);
    surprise -= options.mirostat_eta * (share - options.mirostat_tau);
    return token;
  }
  if (options.typical_p < 1) keep_typical(candidates, options.typical_p);
  keep_probable(candidates, options.top_p, options.min_p);
  return pick(candidates, uniform, share);
}

float log_probability_of(std::span<const float> logits, std::size_t token) {
  const double largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  // A large vocabulary's exponentials, one by one, take an eighth of a small model's step; vectors give the same bits.
  std::vector<double> below(logits.size());
  std::transform(logits.begin(), logits.end(), below.begin(),
                 [&](float x) { return static_cast<double>(x) - largest; });
  const Tensor weights = exp(Tensor::from(below, {static_cast<std::int64_t>(below.size())}, Device{}));
  const double total = sum_of(weights.to_vector<double>());
  return static_cast<float>(static_cast<double>(logits[token]) - largest - scalar::ls_log(total));
}

}  // namespace

TokenConstraint::~TokenConstraint() = default;

SampledToken sample(std::span<const float> logits, std::int64_t position, const SamplingOptions& options) {
  return Sampler(options).draw(logits, position);
}

Sampler::Sampler(SamplingOptions options, std::span<const std::int64_t> prompt,
                 std::shared_ptr<TokenConstraint> constraint)
    : options_(std::move(options)),
      constraint_(std::move(constraint)),
      history_(prompt.begin(), prompt.end()),
      prompt_(prompt.size()),
      surprise_(2 * options_.mirostat_tau) {
  check_sampling(options_);
}

void Sampler::adjust(std::span<float> logits) const {
  const auto window = static_cast<std::size_t>(options_.penalty_window);
  const std::size_t first = window == 0 || window >= history_.size() ? 0 : history_.size() - window;
  std::map<std::int64_t, std::int64_t> counts;  // how often each was drawn; 0: it is only in the prompt
  for (std::size_t i = first; i < history_.size(); ++i) counts[history_[i]] += i >= prompt_ ? 1 : 0;
  for (const auto& [token, count] : counts) {
    if (token < 0 || static_cast<std::size_t>(token) >= logits.size()) continue;
    float& logit = logits[static_cast<std::size_t>(token)];
    double value = static_cast<double>(logit);
    value = value > 0 ? value / options_.repetition_penalty : value * options_.repetition_penalty;
    if (count > 0) value -= options_.presence_penalty + static_cast<double>(count) * options_.frequency_penalty;
    logit = as_logit(value);
  }
  for (const auto& [token, bias] : options_.logit_bias) {
    if (token < 0 || static_cast<std::size_t>(token) >= logits.size()) {
      throw ValueError(fmt::format("sample: logit_bias: there is no token {} (of {})", token, logits.size()));
    }
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = as_logit(static_cast<double>(logit) + bias);
  }
}

SampledToken Sampler::draw(std::span<const float> logits, std::int64_t position) {
  if (logits.empty() || std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); })) {
    throw ValueError("sample: there are no logits, or they hold NaN");
  }
  const bool penalties =
      options_.repetition_penalty != 1 || options_.presence_penalty != 0 || options_.frequency_penalty != 0;
  std::vector<float> own;
  std::span<const float> adjusted = logits;
  if (penalties || !options_.logit_bias.empty() || constraint_ != nullptr) {
    own.assign(logits.begin(), logits.end());
    adjust(own);
    if (constraint_ != nullptr) constraint_->hide(own);
    adjusted = own;
    if (*std::max_element(own.begin(), own.end()) == -std::numeric_limits<float>::infinity()) {
      throw ValueError("sample: no token of the vocabulary may come next");
    }
  }
  const std::size_t token = choose(adjusted, position, options_, surprise_);
  const auto id = static_cast<std::int64_t>(token);
  history_.push_back(id);
  if (constraint_ != nullptr) constraint_->accept(id);
  return {id, log_probability_of(logits, token)};
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
