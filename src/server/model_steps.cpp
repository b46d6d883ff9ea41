#include "server/model_steps.h"

#include <string_view>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>

#include "server/http.h"

namespace lockstep {
inline namespace v0 {
namespace server {

ModelSteps::ModelSteps(const models::LanguageModel& model, Device device, Numerics numerics, std::int64_t prefix_bytes,
                       std::shared_ptr<dist::Orders> orders)
    : model_(&model), device_(device), numerics_(numerics), orders_(std::move(orders)) {
  if (!models::StepBatch::supports(model)) return;
  batch_.emplace(model, device);
  prefixes_.emplace(model, prefix_bytes);
}

// Does it, with the other ranks where there are some.
template <typename Work> auto ModelSteps::told(Step step, const Tokens& words, const Work& work) {
  const NoGrad no_grad;
  const NumericsScope numerics(numerics_);
  if (orders_ == nullptr) return work();
  Tokens order{static_cast<std::int64_t>(step)};
  order.insert(order.end(), words.begin(), words.end());
  try {
    return orders_->carry_out(order, work);
  } catch (const dist::DistributedError& error) {
    const std::string_view text = error.what();
    throw HttpError(500, fmt::format("the model has lost one of its processes, and the server ends: {}",
                                     text.substr(0, text.find('\n'))));
  }
}

ModelSteps::Begun ModelSteps::begin(const Tokens& prompt, bool afresh) {
  Tokens words{static_cast<std::int64_t>(afresh)};
  words.insert(words.end(), prompt.begin(), prompt.end());
  return told(Step::begin, words, [&] { return begin_here(prompt, afresh); });
}

std::vector<std::vector<float>> ModelSteps::read(std::int64_t text, std::int64_t count, Behind behind) {
  return told(Step::read, {text, count, static_cast<std::int64_t>(behind)},
              [&] { return read_here(text, count, behind); });
}

std::vector<std::vector<float>> ModelSteps::step(const std::vector<std::pair<std::int64_t, std::int64_t>>& tokens) {
  Tokens pairs;
  for (const auto& [text, token] : tokens) pairs.insert(pairs.end(), {text, token});
  return told(Step::step, pairs, [&] { return step_here(pairs); });
}

std::int64_t ModelSteps::fork(std::int64_t text) {
  return told(Step::fork, {text}, [&] { return fork_here(text); });
}

void ModelSteps::leave(std::int64_t text) {
  told(Step::leave, {text}, [&] { leave_here(text); });
}

Tensor ModelSteps::embed(const Tokens& tokens, models::Pooling pooling) {
  Tokens words{static_cast<std::int64_t>(pooling)};
  words.insert(words.end(), tokens.begin(), tokens.end());
  return told(Step::embed, words, [&] { return embed_here(tokens, pooling); });
}

Tensor ModelSteps::label_logits(const text::TokenPair& tokens) {
  Tokens words = tokens.ids;
  words.insert(words.end(), tokens.types.begin(), tokens.types.end());
  words.insert(words.begin(), static_cast<std::int64_t>(tokens.ids.size()));
  return told(Step::label, words, [&] { return label_logits_here(tokens); });
}

void ModelSteps::follow() {
  const NoGrad no_grad;
  const NumericsScope numerics(numerics_);
  while (const std::optional<Tokens> words = orders_->take()) {
    try {
      follow(*words);
    } catch (const dist::DistributedError&) {
      throw;
    } catch (const Error&) {
      // Rank 0 has the same error, and tells whoever asked.
    }
  }
}

void ModelSteps::follow(const Tokens& words) {
  const auto rest = [&](std::ptrdiff_t first) { return Tokens(words.begin() + first, words.end()); };
  switch (static_cast<Step>(words.at(0))) {
    case Step::begin: begin_here(rest(2), words.at(1) != 0); return;
    case Step::read: read_here(words.at(1), words.at(2), static_cast<Behind>(words.at(3))); return;
    case Step::step: step_here(rest(1)); return;
    case Step::fork: fork_here(words.at(1)); return;
    case Step::leave: leave_here(words.at(1)); return;
    case Step::embed: embed_here(rest(2), static_cast<models::Pooling>(words.at(1))); return;
    case Step::label: {
      const auto types = words.begin() + 2 + words.at(1);
      label_logits_here({.ids = Tokens(words.begin() + 2, types), .types = Tokens(types, words.end())});
      return;
    }
  }
}

ModelSteps::Text& ModelSteps::at(std::int64_t text) {
  const auto found = texts_.find(text);
  if (found == texts_.end()) throw IndexError(fmt::format("serve: there is no text {}", text));
  return found->second;
}

// Ranks compare what they got.
void ModelSteps::note(const std::vector<float>& logits) {
  if (orders_ == nullptr) return;
  orders_->note(Tensor::from(logits, {static_cast<std::int64_t>(logits.size())}).hash());
}

ModelSteps::Begun ModelSteps::begin_here(const Tokens& prompt, bool afresh) {
  Text text{.tokens = prompt,
            .known = 0,
            .cache = batch_ && !afresh ? prefixes_->find(prompt) : model_->make_cache(),
            .in_batch = {}};
  const std::int64_t known = text.cache->length();
  text.known = static_cast<std::size_t>(known);
  texts_.emplace(given_, std::move(text));
  return {.text = given_++, .known = known};
}

std::vector<std::vector<float>> ModelSteps::forward(Text& text, const Tokens& tokens, Behind behind) {
  const auto length = static_cast<std::int64_t>(tokens.size());
  Tensor logits = model_->forward(Tensor::from(tokens, {1, length}, device_), text.cache.get()).select(0, 0);
  text.known += tokens.size();
  if (behind == Behind::last) return {logits.select(0, length - 1).to_vector<float>()};
  logits.eval();
  std::vector<std::vector<float>> result;
  for (std::int64_t i = 0; i < length; ++i) result.push_back(logits.select(0, i).to_vector<float>());
  return result;
}

std::vector<std::vector<float>> ModelSteps::read_here(std::int64_t number, std::int64_t count, Behind behind) {
  Text& text = at(number);
  const auto first = text.tokens.begin() + static_cast<std::ptrdiff_t>(text.known);
  auto logits = forward(text, Tokens(first, first + static_cast<std::ptrdiff_t>(count)), behind);
  if (batch_) {
    prefixes_->put(text.tokens, *text.cache);
    if (text.known == text.tokens.size()) {
      text.in_batch = batch_->join(*text.cache);
      text.cache.reset();
    }
  }
  note(logits.back());
  return logits;
}

std::vector<std::vector<float>> ModelSteps::step_here(const Tokens& pairs) {
  std::vector<std::vector<float>> logits;
  std::vector<std::pair<std::int64_t, std::int64_t>> rows;
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    Text& text = at(pairs[i]);
    if (text.in_batch) {
      rows.emplace_back(*text.in_batch, pairs[i + 1]);
    } else {
      logits.push_back(forward(text, {pairs[i + 1]}, Behind::last).front());
    }
  }
  if (batch_) logits = batch_->step(rows);
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    Text& text = at(pairs[i]);
    text.tokens.push_back(pairs[i + 1]);
    text.known = text.tokens.size();
  }
  for (const std::vector<float>& one : logits) note(one);
  return logits;
}

std::int64_t ModelSteps::fork_here(std::int64_t number) {
  const Text& from = at(number);
  Text text{.tokens = from.tokens, .known = from.known, .cache = nullptr, .in_batch = {}};
  text.in_batch = batch_->join(*batch_->cache_of(from.in_batch.value()));
  texts_.emplace(given_, std::move(text));
  return given_++;
}

void ModelSteps::leave_here(std::int64_t number) {
  const Text& text = at(number);
  if (text.in_batch) {
    // A conversation goes on from its answer.
    prefixes_->put(text.tokens, *batch_->cache_of(*text.in_batch));
    batch_->leave(*text.in_batch);
  }
  texts_.erase(number);
}

Tensor ModelSteps::embed_here(const Tokens& tokens, models::Pooling pooling) {
  Tensor vector = models::embed_text(*model_, tokens, {.pooling = pooling}, device_).to(Device{});
  if (orders_ != nullptr) orders_->note(vector.hash());
  return vector;
}

Tensor ModelSteps::label_logits_here(const text::TokenPair& tokens) {
  Tensor logits = models::label_logits(*model_, tokens, device_).to(Device{});
  if (orders_ != nullptr) orders_->note(logits.hash());
  return logits;
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
