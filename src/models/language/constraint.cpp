#include <lockstep/models/constraint.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "text/grammar/token_texts.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr std::size_t kMostMasks = 256;

class GrammarConstraint final : public TokenConstraint {
 public:
  GrammarConstraint(const text::Grammar& grammar, const text::TokenTexts& texts, std::vector<std::int64_t> ends)
      : tree_(texts.tree()), ends_(std::move(ends)), matcher_(grammar), state_(matcher_.start()) {}

  void hide(std::span<float> logits) override {
    const std::vector<bool>& mask = mask_of_state();
    const bool complete = matcher_.complete(state_);
    for (std::size_t token = 0; token < logits.size(); ++token) {
      const bool allowed = is_end(static_cast<std::int64_t>(token)) ? complete : token < mask.size() && mask[token];
      if (!allowed) logits[token] = -std::numeric_limits<float>::infinity();
    }
  }

  void accept(std::int64_t token) override {
    if (is_end(token)) return;
    const auto at = static_cast<std::size_t>(token);
    const std::string& text = token < 0 || at >= tree_->texts.size() ? std::string() : tree_->texts[at];
    text::GrammarMatcher::State next = text.empty() ? text::GrammarMatcher::kDead : state_;
    for (const char byte : text) next = matcher_.next(next, static_cast<unsigned char>(byte));
    if (next == text::GrammarMatcher::kDead) {
      throw ValueError(fmt::format("the grammar does not allow the token {} here", token));
    }
    state_ = next;
    if (!matcher_.full()) return;
    state_ = matcher_.trim(state_);
    masks_.clear();
  }

  bool ended() const override { return matcher_.ended(state_); }

 private:
  bool is_end(std::int64_t token) const { return std::find(ends_.begin(), ends_.end(), token) != ends_.end(); }

  const std::vector<bool>& mask_of_state() {
    const auto known = masks_.find(state_);
    if (known != masks_.end()) return known->second;
    if (masks_.size() >= kMostMasks) masks_.clear();
    return masks_.emplace(state_, tree_->allowed(matcher_, state_)).first->second;
  }

  std::shared_ptr<const text::TokenTexts::Tree> tree_;
  std::vector<std::int64_t> ends_;
  text::GrammarMatcher matcher_;
  text::GrammarMatcher::State state_;
  std::unordered_map<text::GrammarMatcher::State, std::vector<bool>> masks_;
};

}  // namespace

std::shared_ptr<TokenConstraint> constrain(const text::Grammar& grammar, const text::TokenTexts& texts,
                                           std::vector<std::int64_t> end_tokens) {
  return std::make_shared<GrammarConstraint>(grammar, texts, std::move(end_tokens));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
