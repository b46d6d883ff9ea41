#include <lockstep/models/beam_search.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

/// A candidate that goes on.
struct LiveBeam {
  std::vector<SampledToken> tokens;
  double sum = 0;  // of log-probabilities
  std::unique_ptr<LanguageCache> cache;
  std::vector<float> log_probabilities;  // of what may come next
};

struct Extension {
  double sum = 0;
  std::size_t beam = 0;
  std::size_t token = 0;
};

void check_beams(const std::vector<std::int64_t>& prompt, const BeamSearchOptions& options) {
  if (prompt.empty()) throw ValueError("beam_search: the prompt has no tokens");
  if (options.beams < 1) throw ValueError(fmt::format("beam_search: {} beams", options.beams));
  if (options.max_tokens < 0) throw ValueError(fmt::format("beam_search: {} tokens", options.max_tokens));
  if (!std::isfinite(options.length_penalty)) throw ValueError("beam_search: length_penalty is not finite");
}

void read(const LanguageModel& model, LiveBeam& beam, const std::vector<std::int64_t>& ids, Device device) {
  const auto length = static_cast<std::int64_t>(ids.size());
  const Tensor logits = model.forward(Tensor::from(ids, {1, length}, device), beam.cache.get());
  beam.log_probabilities = log_softmax(logits.select(0, 0).select(0, length - 1), -1).to_vector<float>();
}

// The most probable continuations by a token, `count` of them.
std::vector<Extension> best_extensions(const std::vector<LiveBeam>& beams, std::size_t count) {
  const auto before = [](const Extension& a, const Extension& b) {
    if (a.sum != b.sum) return a.sum > b.sum;
    return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
  };
  std::vector<Extension> all;
  for (std::size_t i = 0; i < beams.size(); ++i) {
    for (std::size_t token = 0; token < beams[i].log_probabilities.size(); ++token) {
      all.push_back({beams[i].sum + static_cast<double>(beams[i].log_probabilities[token]), i, token});
    }
  }
  count = std::min(count, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(), before);
  all.resize(count);
  return all;
}

double score_of(double sum, std::size_t length, double penalty) {
  return length == 0 ? sum : sum / std::pow(static_cast<double>(length), penalty);
}

void sort_beams(std::vector<Beam>& beams, std::size_t most) {
  std::stable_sort(beams.begin(), beams.end(), [](const Beam& a, const Beam& b) { return a.score > b.score; });
  if (beams.size() > most) beams.resize(most);
}

}  // namespace

std::vector<Beam> beam_search(const LanguageModel& model, const std::vector<std::int64_t>& prompt,
                              const BeamSearchOptions& options, Device device) {
  check_beams(prompt, options);
  const NoGrad no_grad;
  const auto width = static_cast<std::size_t>(options.beams);
  std::vector<Beam> ended;
  std::vector<LiveBeam> live(1);
  live[0].cache = model.make_cache();
  read(model, live[0], prompt, device);
  for (std::int64_t step = 0; step < options.max_tokens && !live.empty(); ++step) {
    const auto length = static_cast<std::size_t>(step) + 1;
    const auto& ends = options.end_tokens;
    std::vector<LiveBeam> next;
    const std::vector<Extension> extensions = best_extensions(live, width * (1 + ends.size()));
    for (std::size_t rank = 0; rank < extensions.size() && next.size() < width; ++rank) {
      const Extension& extension = extensions[rank];
      const LiveBeam& from = live[extension.beam];
      const auto token = static_cast<std::int64_t>(extension.token);
      if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
        // One that is not among the best is no result: a better one goes on.
        if (rank < width) ended.push_back({from.tokens, score_of(extension.sum, length, options.length_penalty), true});
        continue;
      }
      LiveBeam& grown = next.emplace_back();
      grown.tokens = from.tokens;
      grown.tokens.push_back({token, from.log_probabilities[extension.token]});
      grown.sum = extension.sum;
      grown.cache = from.cache->clone();
    }
    live = std::move(next);
    sort_beams(ended, width);
    const bool settled = ended.size() == width && !live.empty() &&
                         score_of(live.front().sum, length, options.length_penalty) <= ended.back().score;
    const auto position = static_cast<std::int64_t>(prompt.size()) + step + 1;
    if (settled) live.clear();
    if (step + 1 == options.max_tokens || (model.context() > 0 && position > model.context())) break;
    for (LiveBeam& beam : live) read(model, beam, {beam.tokens.back().token}, device);
  }
  for (LiveBeam& beam : live) {
    const double score = score_of(beam.sum, beam.tokens.size(), options.length_penalty);
    ended.push_back({std::move(beam.tokens), score, false});
  }
  sort_beams(ended, width);
  return ended;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
