#include <lockstep/models/batch.h>

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "models/language/layered.h"
#include "models/language/text_bands.h"

namespace lockstep {
inline namespace v0 {
namespace models {

struct StepBatch::Parts {
  const LayeredModel* model = nullptr;
  Device device;
  TextBands texts;
  std::int64_t given = 0;  // numbers so far

  /// Where the next token of a text that waits would stand. One at the model's end cannot go on, so it does not matter
  /// what is overwritten.
  std::int64_t next_place(const BatchText& text) const {
    return model->context() > 0 && text.length == model->context() ? text.length - 1 : text.length;
  }
};

bool StepBatch::supports(const LanguageModel& model) {
  return dynamic_cast<const LayeredModel*>(&model) != nullptr && !model.encoder();
}

StepBatch::StepBatch(const LanguageModel& model, Device device) : parts_(std::make_unique<Parts>()) {
  if (!supports(model))
    throw ValueError(fmt::format("StepBatch: {} cannot step several texts at once", model.family()));
  parts_->model = dynamic_cast<const LayeredModel*>(&model);
  parts_->device = device;
}

StepBatch::~StepBatch() = default;

std::int64_t StepBatch::size() const {
  std::int64_t count = 0;
  for (const TextBands::Band& band : parts_->texts.bands())
    count += static_cast<std::int64_t>(band.texts.size()) - band.free_rows();
  return count;
}

std::int64_t StepBatch::length(std::int64_t text) const {
  return parts_->texts.text(text).length;
}

std::int64_t StepBatch::bytes() const {
  std::int64_t sum = 0;
  for (const Memories& band : parts_->texts.memories()) {
    for (const LayerMemory& layer : band) sum += layer.bytes();
  }
  return sum;
}

std::int64_t StepBatch::join(const LanguageCache& cache) {
  const auto* own = dynamic_cast<const LayeredCache*>(&cache);
  if (own == nullptr || own->owner != parts_->model) throw ValueError("StepBatch: the cache is another model's");
  if (own->length() == 0 || own->rows() != 1) throw ValueError("StepBatch: the cache is not that of one text");
  const NoGrad no_grad;
  parts_->texts.put({parts_->given, own->length()}, own->layers);
  return parts_->given++;
}

std::unique_ptr<LanguageCache> StepBatch::cache_of(std::int64_t text) const {
  const TextBands::Place place = parts_->texts.at(text);
  const NoGrad no_grad;
  auto cache = std::make_unique<LayeredCache>(*parts_->model);
  cache->layers = row_of(parts_->texts.memories()[place.band], static_cast<std::int64_t>(place.row));
  cache->grow(parts_->texts.bands()[place.band].texts[place.row].length);
  return cache;
}

void StepBatch::leave(std::int64_t text) {
  parts_->texts.remove(parts_->texts.at(text));
}

std::vector<std::vector<float>> StepBatch::step(const std::vector<std::pair<std::int64_t, std::int64_t>>& tokens) {
  if (tokens.empty()) return {};
  std::map<std::int64_t, std::int64_t> next;
  for (const auto& [text, token] : tokens) {
    parts_->texts.at(text);
    if (token < 0 || token >= parts_->model->vocabulary())
      throw IndexError(fmt::format("StepBatch: there is no token {}", token));
    if (!next.emplace(text, token).second) throw ValueError(fmt::format("StepBatch: text {} is there twice", text));
  }
  const NoGrad no_grad;
  parts_->texts.give_back_rows();
  parts_->texts.move_full();
  // Rows that do not take part are computed with token 0 at the place of their next one, which overwrites it.
  RowPlaces places;
  std::vector<std::int64_t> ids, positions;
  std::map<std::int64_t, std::ptrdiff_t> rows;
  for (const TextBands::Band& band : parts_->texts.bands()) {
    const std::size_t first = ids.size();
    std::vector<bool> taken;
    for (const BatchText& text : band.texts) {
      const auto found = next.find(text.number);
      taken.push_back(found != next.end());
      if (taken.back()) rows[text.number] = static_cast<std::ptrdiff_t>(ids.size());
      ids.push_back(taken.back() ? found->second : 0);
      positions.push_back(taken.back() ? text.length : parts_->next_place(text));
    }
    const std::vector<std::int64_t> own(positions.begin() + static_cast<std::ptrdiff_t>(first), positions.end());
    places.bands.emplace_back(static_cast<std::int64_t>(first), own, taken, parts_->device);
  }
  places.of_model = parts_->model->at_positions(positions, parts_->device);
  const auto count = static_cast<std::int64_t>(ids.size());
  const Tensor logits =
      parts_->model->repeated_step(Tensor::from(ids, {1, count}, parts_->device), places, parts_->texts.memories());
  const std::vector<float> all = logits.to_vector<float>();
  const auto vocabulary = static_cast<std::ptrdiff_t>(all.size() / ids.size());
  std::vector<std::vector<float>> result;
  for (const auto& [text, token] : tokens) {
    ++parts_->texts.text(text).length;
    const auto begin = all.begin() + rows.at(text) * vocabulary;
    result.emplace_back(begin, begin + vocabulary);
  }
  return result;
}

namespace {

/// One of the texts of generate_together.
struct TextInBatch {
  std::size_t prompt = 0;
  std::int64_t number = 0;  // in the batch
  std::int64_t position = 0;
  Sampler sampler;
  std::vector<SampledToken> drawn;
};

}  // namespace

std::vector<std::vector<SampledToken>> generate_together(
    const LanguageModel& model, const std::vector<std::vector<std::int64_t>>& prompts, const GenerateOptions& options,
    std::int64_t at_once, const std::function<bool(std::size_t prompt, const SampledToken&)>& on_token, Device device) {
  if (at_once < 1) throw ValueError(fmt::format("generate_together: {} texts at once", at_once));
  if (options.cache != nullptr || options.constraint != nullptr || options.speculation.draft != nullptr ||
      options.speculation.lookup > 0) {
    throw ValueError("generate_together: a cache, a constraint and speculation are one text's");
  }
  std::vector<std::vector<SampledToken>> result(prompts.size());
  if (!StepBatch::supports(model)) {
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      result[i] = generate(
          model, prompts[i], options, [&](const SampledToken& token) { return !on_token || on_token(i, token); },
          device);
    }
    return result;
  }
  const NoGrad no_grad;
  StepBatch batch(model, device);
  std::vector<TextInBatch> running;
  // Draws the next token; false where the text has ended.
  const auto draw = [&](TextInBatch& text, std::span<const float> logits) {
    const SampledToken token = text.sampler.draw(logits, text.position);
    const auto& ends = options.end_tokens;
    if (std::find(ends.begin(), ends.end(), token.token) != ends.end()) return false;
    text.drawn.push_back(token);
    if (on_token && !on_token(text.prompt, token)) return false;
    if (static_cast<std::int64_t>(text.drawn.size()) >= options.max_tokens) return false;
    // The place that the token just drawn would have.
    ++text.position;
    return model.context() == 0 || text.position <= model.context();
  };
  std::size_t next = 0;
  while (next < prompts.size() || !running.empty()) {
    while (next < prompts.size() && static_cast<std::int64_t>(running.size()) < at_once) {
      const std::vector<std::int64_t>& prompt = prompts[next];
      if (prompt.empty()) throw ValueError("generate_together: a prompt has no tokens");
      TextInBatch text{next++, 0, static_cast<std::int64_t>(prompt.size()), Sampler(options.sampling, prompt), {}};
      if (options.max_tokens <= 0 || (model.context() > 0 && text.position > model.context())) continue;
      const auto cache = model.make_cache();
      const Tensor logits = model.forward(Tensor::from(prompt, {1, text.position}, device), cache.get());
      if (draw(text, logits.select(0, 0).select(0, text.position - 1).to_vector<float>())) {
        text.number = batch.join(*cache);
        running.push_back(std::move(text));
      } else {
        result[text.prompt] = std::move(text.drawn);
      }
    }
    if (running.empty()) continue;
    std::vector<std::pair<std::int64_t, std::int64_t>> tokens;
    for (const TextInBatch& text : running) tokens.emplace_back(text.number, text.drawn.back().token);
    const std::vector<std::vector<float>> logits = batch.step(tokens);
    std::vector<TextInBatch> going_on;
    for (std::size_t i = 0; i < running.size(); ++i) {
      if (draw(running[i], logits[i])) {
        going_on.push_back(std::move(running[i]));
      } else {
        batch.leave(running[i].number);
        result[running[i].prompt] = std::move(running[i].drawn);
      }
    }
    running = std::move(going_on);
  }
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
