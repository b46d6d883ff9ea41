#include <lockstep/models/batch.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "models/language/decoder.h"

namespace lockstep {
inline namespace v0 {
namespace models {

struct StepBatch::Parts {
  struct Text {
    std::int64_t number = 0;
    std::int64_t length = 0;
  };

  const Decoder* model = nullptr;
  Device device;
  std::vector<Text> texts;            // in the order of the rows
  std::vector<KeysAndValues> layers;  // of as many rows
  std::int64_t given = 0;             // numbers so far

  std::size_t row(std::int64_t number) const {
    const auto found =
        std::find_if(texts.begin(), texts.end(), [&](const Text& text) { return text.number == number; });
    if (found == texts.end()) throw IndexError(fmt::format("StepBatch: there is no text {}", number));
    return static_cast<std::size_t>(found - texts.begin());
  }
  std::int64_t places() const { return layers.front().keys.size(2); }
  void reserve(std::int64_t count) {
    for (KeysAndValues& layer : layers) layer.reserve(count);
  }
};

bool StepBatch::supports(const LanguageModel& model) {
  const auto* decoder = dynamic_cast<const Decoder*>(&model);
  return decoder != nullptr && decoder->steps_rows();
}

StepBatch::StepBatch(const LanguageModel& model, Device device) : parts_(std::make_unique<Parts>()) {
  if (!supports(model))
    throw ValueError(fmt::format("StepBatch: {} cannot step several texts at once", model.family()));
  parts_->model = dynamic_cast<const Decoder*>(&model);
  parts_->device = device;
}

StepBatch::~StepBatch() = default;

std::int64_t StepBatch::size() const {
  return static_cast<std::int64_t>(parts_->texts.size());
}

std::int64_t StepBatch::length(std::int64_t text) const {
  return parts_->texts[parts_->row(text)].length;
}

std::int64_t StepBatch::join(const LanguageCache& cache) {
  const auto* own = dynamic_cast<const DecoderCache*>(&cache);
  if (own == nullptr || own->owner != parts_->model) throw ValueError("StepBatch: the cache is another model's");
  if (own->length() == 0 || own->layers.front().keys.size(0) != 1)
    throw ValueError("StepBatch: the cache is not that of one text");
  const NoGrad no_grad;
  std::vector<KeysAndValues> more = own->layers;
  if (parts_->texts.empty()) {
    parts_->layers = std::move(more);
  } else {
    // One number of places for all.
    const std::int64_t places = std::max(parts_->places(), more.front().keys.size(2));
    parts_->reserve(places);
    for (std::size_t i = 0; i < more.size(); ++i) {
      more[i].reserve(places);
      KeysAndValues& layer = parts_->layers[i];
      layer.keys = cat({layer.keys, more[i].keys}, 0).eval();
      layer.values = cat({layer.values, more[i].values}, 0).eval();
    }
  }
  parts_->texts.push_back({parts_->given, own->length()});
  return parts_->given++;
}

void StepBatch::leave(std::int64_t text) {
  const auto row = static_cast<std::int64_t>(parts_->row(text));
  const std::int64_t behind = size() - row - 1;
  parts_->texts.erase(parts_->texts.begin() + row);
  if (parts_->texts.empty()) {
    parts_->layers.clear();
    return;
  }
  const NoGrad no_grad;
  const auto without = [&](const Tensor& held) {
    return cat({held.narrow(0, 0, row), held.narrow(0, row + 1, behind)}, 0).eval();
  };
  for (KeysAndValues& layer : parts_->layers) layer = {without(layer.keys), without(layer.values)};
}

std::vector<std::vector<float>> StepBatch::step(const std::vector<std::pair<std::int64_t, std::int64_t>>& tokens) {
  if (tokens.empty()) return {};
  // Rows that do not take part are computed with token 0 at the place of their next one, which overwrites it.
  std::vector<std::int64_t> ids(parts_->texts.size(), 0);
  std::vector<bool> taken(ids.size(), false);
  std::vector<std::size_t> rows;
  for (const auto& [text, token] : tokens) {
    const std::size_t row = parts_->row(text);
    if (taken[row]) throw ValueError(fmt::format("StepBatch: text {} is there twice", text));
    if (token < 0 || token >= parts_->model->vocabulary())
      throw IndexError(fmt::format("StepBatch: there is no token {}", token));
    taken[row] = true;
    ids[row] = token;
    rows.push_back(row);
  }
  const NoGrad no_grad;
  std::vector<std::int64_t> positions;
  std::int64_t farthest = 0;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    std::int64_t place = parts_->texts[row].length;
    // One that is at the model's end cannot go on, so it does not matter what is overwritten.
    if (!taken[row] && parts_->model->context() > 0) place = std::min(place, parts_->model->context() - 1);
    positions.push_back(place);
    farthest = std::max(farthest, place);
  }
  parts_->reserve(farthest + 1);
  RowPlaces places(positions, parts_->places(), parts_->device);
  const auto count = static_cast<std::int64_t>(ids.size());
  const Tensor logits = parts_->model->step(Tensor::from(ids, {1, count}, parts_->device), places, parts_->layers);
  const std::vector<float> all = logits.to_vector<float>();
  const auto vocabulary = static_cast<std::ptrdiff_t>(all.size() / ids.size());
  std::vector<std::vector<float>> result;
  for (const std::size_t row : rows) {
    ++parts_->texts[row].length;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row) * vocabulary;
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
