#include "server/batcher.h"

#include <utility>

namespace lockstep {
inline namespace v0 {
namespace server {

void Batcher::forget_those_that_left() {
  std::vector<std::int64_t> gone;
  {
    const std::lock_guard lock(mutex_);
    gone.swap(left_);
  }
  for (const std::int64_t text : gone) steps_->leave(text);
}

ModelSteps::Begun Batcher::begin(const std::vector<std::int64_t>& prompt, bool afresh) {
  forget_those_that_left();
  return steps_->begin(prompt, afresh);
}

std::vector<std::vector<float>> Batcher::read(std::int64_t text, std::int64_t count, ModelSteps::Behind behind) {
  forget_those_that_left();
  return steps_->read(text, count, behind);
}

std::int64_t Batcher::fork(std::int64_t text) {
  forget_those_that_left();
  return steps_->fork(text);
}

void Batcher::leave(std::int64_t text) {
  const std::lock_guard lock(mutex_);
  left_.push_back(text);
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
    forget_those_that_left();
    std::vector<std::pair<std::int64_t, std::int64_t>> tokens;
    for (const Waiting* row : rows) tokens.emplace_back(row->text, row->token);
    logits = steps_->step(tokens);
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

std::vector<std::vector<float>> Batcher::step(HttpServer& server,
                                              const std::vector<std::pair<std::int64_t, std::int64_t>>& tokens) {
  std::vector<Waiting> own;
  for (const auto& [text, token] : tokens) own.push_back({.text = text, .token = token});
  {
    const std::lock_guard lock(mutex_);
    for (Waiting& one : own) waiting_.push_back(&one);
  }
  // Somebody whose turn was before may have computed them by now, all together.
  server.step_in_turn([&] {
    {
      const std::lock_guard lock(mutex_);
      if (own.back().done) return;
    }
    run();
  });
  if (own.back().error != nullptr) std::rethrow_exception(own.back().error);
  std::vector<std::vector<float>> logits;
  for (Waiting& one : own) logits.push_back(std::move(one.logits));
  return logits;
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
