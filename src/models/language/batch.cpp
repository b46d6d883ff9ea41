#include <lockstep/models/batch.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "models/language/layered.h"

namespace lockstep {
inline namespace v0 {
namespace models {

namespace {

// `one` behind the other rows, or instead of one of them.
void put_row(State& all, std::int64_t row, const State& one) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].defined()) continue;
    all[i] = row < 0 ? cat({all[i], one[i]}, 0) : slice_scatter(all[i], one[i], 0, {.start = row, .stop = row + 1});
    all[i].eval();
  }
}

}  // namespace

struct StepBatch::Parts {
  struct Text {
    std::int64_t number = kNone;  // or a row that is free
    std::int64_t length = 0;
  };
  static constexpr std::int64_t kNone = -1;

  const LayeredModel* model = nullptr;
  Device device;
  std::vector<Text> texts;          // in the order of the rows
  std::vector<LayerMemory> layers;  // of as many rows
  std::int64_t given = 0;           // numbers so far
  int idle_steps = 0;               // with a row that is free

  std::size_t row(std::int64_t number) const {
    const auto found =
        std::find_if(texts.begin(), texts.end(), [&](const Text& text) { return text.number == number; });
    if (number < 0 || found == texts.end()) throw IndexError(fmt::format("StepBatch: there is no text {}", number));
    return static_cast<std::size_t>(found - texts.begin());
  }
  std::int64_t free_rows() const {
    return std::count_if(texts.begin(), texts.end(), [](const Text& text) { return text.number == kNone; });
  }
  /// The same for keys and values of all layers that have some.
  template <typename Do> void for_heads(const Do& act) {
    for (LayerMemory& layer : layers) {
      if (!layer.keys.defined()) continue;
      act(layer.keys);
      act(layer.values);
    }
  }
  std::int64_t places() const {
    for (const LayerMemory& layer : layers) {
      if (layer.keys.defined()) return layer.keys.places();
    }
    return 0;
  }
  void reserve(std::int64_t count) {
    if (places() == 0) return;
    for_heads([&](HeldHeads& heads) { heads.reserve(count); });
  }
  /// Rows of texts that left are given back once nobody has taken them for some steps: until then a step has the
  /// shapes, and so the plan, of the one before, and a text that comes is copied into one.
  void give_back_rows() {
    constexpr int kPatience = 4;
    if (free_rows() == 0) {
      idle_steps = 0;
      return;
    }
    if (++idle_steps <= kPatience) return;
    std::vector<std::int64_t> kept;
    std::vector<Text> going_on;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].number == kNone) continue;
      kept.push_back(static_cast<std::int64_t>(i));
      going_on.push_back(texts[i]);
    }
    texts = std::move(going_on);
    for_heads([&](HeldHeads& heads) {
      heads.keep_rows(kept);
      heads.eval();
    });
    for (LayerMemory& layer : layers) {
      for (Tensor& part : layer.state) {
        if (part.defined()) part = rows_of(part, kept).eval();
      }
    }
    idle_steps = 0;
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
  return static_cast<std::int64_t>(parts_->texts.size()) - parts_->free_rows();
}

std::int64_t StepBatch::length(std::int64_t text) const {
  return parts_->texts[parts_->row(text)].length;
}

std::int64_t StepBatch::join(const LanguageCache& cache) {
  const auto* own = dynamic_cast<const LayeredCache*>(&cache);
  if (own == nullptr || own->owner != parts_->model) throw ValueError("StepBatch: the cache is another model's");
  if (own->length() == 0 || own->rows() != 1) throw ValueError("StepBatch: the cache is not that of one text");
  const NoGrad no_grad;
  const auto free = std::find_if(parts_->texts.begin(), parts_->texts.end(),
                                 [](const Parts::Text& text) { return text.number == Parts::kNone; });
  const bool grows = free == parts_->texts.end();
  const auto row = static_cast<std::int64_t>(free - parts_->texts.begin());
  std::vector<LayerMemory> more = own->layers;
  if (parts_->texts.empty()) {
    parts_->layers = std::move(more);
  } else {
    // One number of places for all.
    std::int64_t places = parts_->places();
    for (const LayerMemory& layer : more) {
      if (layer.keys.defined()) places = std::max(places, layer.keys.places());
    }
    parts_->reserve(places);
    const auto put = [&](HeldHeads& all, HeldHeads& one) {
      one.reserve(places);
      if (grows) {
        all.append_rows(one);
      } else {
        all.set_row(row, one);
      }
      all.eval();
    };
    for (std::size_t i = 0; i < more.size(); ++i) {
      LayerMemory& layer = parts_->layers[i];
      if (layer.keys.defined()) {
        put(layer.keys, more[i].keys);
        put(layer.values, more[i].values);
      }
      put_row(layer.state, grows ? Parts::kNone : row, more[i].state);
    }
  }
  const Parts::Text text{parts_->given, own->length()};
  if (grows) {
    parts_->texts.push_back(text);
  } else {
    *free = text;
  }
  return parts_->given++;
}

std::unique_ptr<LanguageCache> StepBatch::cache_of(std::int64_t text) const {
  const std::size_t row = parts_->row(text);
  const auto number = static_cast<std::int64_t>(row);
  const NoGrad no_grad;
  auto cache = std::make_unique<LayeredCache>(*parts_->model);
  for (std::size_t i = 0; i < parts_->layers.size(); ++i) {
    const LayerMemory& all = parts_->layers[i];
    LayerMemory& own = cache->layers[i];
    if (all.keys.defined()) {
      own.keys = all.keys.row(number);
      own.values = all.values.row(number);
    }
    for (const Tensor& part : all.state) own.state.push_back(part.defined() ? part.narrow(0, number, 1) : part);
  }
  cache->grow(parts_->texts[row].length);
  return cache;
}

void StepBatch::leave(std::int64_t text) {
  parts_->texts[parts_->row(text)] = {};
  parts_->idle_steps = 0;
  if (size() > 0) return;
  parts_->texts.clear();
  parts_->layers.clear();
}

std::vector<std::vector<float>> StepBatch::step(const std::vector<std::pair<std::int64_t, std::int64_t>>& tokens) {
  if (tokens.empty()) return {};
  const NoGrad no_grad;
  parts_->give_back_rows();
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
  RowPlaces places(positions, taken, parts_->model->at_positions(positions, parts_->device), parts_->device);
  const auto count = static_cast<std::int64_t>(ids.size());
  const Tensor logits =
      parts_->model->repeated_step(Tensor::from(ids, {1, count}, parts_->device), places, parts_->layers);
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
