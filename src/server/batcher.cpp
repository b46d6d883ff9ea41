#include "server/batcher.h"

#include <utility>

namespace lockstep {
inline namespace v0 {
namespace server {

Batcher::Batcher(const models::LanguageModel& model, Device device, Numerics numerics, std::int64_t prefix_bytes)
    : numerics_(numerics) {
  if (!models::StepBatch::supports(model)) return;
  batch_.emplace(model, device);
  prefixes_.emplace(model, prefix_bytes);
}

void Batcher::forget_those_that_left() {
  decltype(left_) gone;
  {
    const std::lock_guard lock(mutex_);
    gone.swap(left_);
  }
  for (const auto& [text, tokens] : gone) {
    // A conversation goes on from its answer.
    prefixes_->put(tokens, *batch_->cache_of(text));
    batch_->leave(text);
  }
}

std::unique_ptr<models::LanguageCache> Batcher::begin(const std::vector<std::int64_t>& tokens) {
  forget_those_that_left();
  return prefixes_->find(tokens);
}

void Batcher::keep(const std::vector<std::int64_t>& tokens, const models::LanguageCache& cache) {
  prefixes_->put(tokens, cache);
}

std::int64_t Batcher::join(const models::LanguageCache& cache) {
  forget_those_that_left();
  return batch_->join(cache);
}

void Batcher::leave(std::int64_t text, std::vector<std::int64_t> tokens) {
  const std::lock_guard lock(mutex_);
  left_.emplace_back(text, std::move(tokens));
}

// All who wait, in one pass. What goes wrong is told to all of them.
void Batcher::run() {
  std::vector<Waiting*> rows;
  {
    const std::lock_guard lock(mutex_);
    rows.swap(waiting_);
  }
  std::vector<std::vector<float>> logits;
  std::exception_ptr error;
  try {
    const NumericsScope numerics(numerics_);
    forget_those_that_left();
    std::vector<std::pair<std::int64_t, std::int64_t>> tokens;
    for (const Waiting* row : rows) tokens.emplace_back(row->text, row->token);
    logits = batch_->step(tokens);
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (error == nullptr) rows[i]->logits = std::move(logits[i]);
    rows[i]->error = error;
    rows[i]->done = true;
  }
}

std::vector<float> Batcher::step(HttpServer& server, std::int64_t text, std::int64_t token) {
  Waiting own{.text = text, .token = token};
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(&own);
  }
  // Somebody whose turn was before may have computed it by now.
  server.step_in_turn([&] {
    {
      const std::lock_guard lock(mutex_);
      if (own.done) return;
    }
    run();
  });
  if (own.error != nullptr) std::rethrow_exception(own.error);
  return std::move(own.logits);
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
