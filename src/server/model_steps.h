// All that is asked of a served language model, each within a turn of the server. Where ranks have a part of it each,
// rank 0 serves and tells the others of every step, who follow; each of them remembers all texts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/models/batch.h>
#include <lockstep/models/embed_text.h>
#include <lockstep/models/prefix_store.h>
#include <lockstep/models/rerank.h>
#include <lockstep/numerics.h>

#include "dist/orders.h"

namespace lockstep {
inline namespace v0 {
namespace server {

class ModelSteps {
 public:
  using Tokens = std::vector<std::int64_t>;

  /// Keeps at most `prefix_bytes` of what was read, for texts that begin alike. `orders` may be null: one process.
  ModelSteps(const models::LanguageModel& model, Device device, Numerics numerics, std::int64_t prefix_bytes,
             std::shared_ptr<dist::Orders> orders);

  struct Begun {
    std::int64_t text = 0;   ///< its number
    std::int64_t known = 0;  ///< tokens of the prompt that were read before
  };
  /// With `afresh`, nothing of the prompt counts as known.
  Begun begin(const Tokens& prompt, bool afresh = false);
  /// Which logits a part of a prompt is read for.
  enum class Behind : std::int64_t { last, each };
  /// Reads so many further tokens of a text's prompt; returns the logits behind the last of them, or each.
  std::vector<std::vector<float>> read(std::int64_t text, std::int64_t count, Behind behind = Behind::last);
  /// The next token of some texts whose prompts are read, (text, token); returns the logits behind each.
  std::vector<std::vector<float>> step(const std::vector<std::pair<std::int64_t, std::int64_t>>& tokens);
  /// Whether a text can be copied.
  bool forks() const { return batch_.has_value(); }
  /// A further text that remembers the same as one whose prompt is read; its number.
  std::int64_t fork(std::int64_t text);
  /// Forgets a text, whose beginning is kept for others.
  void leave(std::int64_t text);
  Tensor embed(const Tokens& tokens, models::Pooling pooling);
  Tensor label_logits(const text::TokenPair& tokens);

  /// What the other ranks do, until rank 0 ends. Throws DistributedError.
  void follow();

 private:
  struct Text {
    Tokens tokens;          // the prompt, and what came
    std::size_t known = 0;  // so many of them are remembered
    std::unique_ptr<models::LanguageCache> cache;
    std::optional<std::int64_t> in_batch;  // instead, once the prompt is read
  };
  enum class Step : std::int64_t { begin, read, step, leave, embed, label, fork };

  template <typename Work> auto told(Step step, const Tokens& words, const Work& work);
  void follow(const Tokens& words);
  Text& at(std::int64_t text);
  Begun begin_here(const Tokens& prompt, bool afresh);
  std::vector<std::vector<float>> read_here(std::int64_t text, std::int64_t count, Behind behind);
  std::vector<std::vector<float>> step_here(const Tokens& pairs);
  std::int64_t fork_here(std::int64_t text);
  void leave_here(std::int64_t text);
  Tensor embed_here(const Tokens& tokens, models::Pooling pooling);
  Tensor label_logits_here(const text::TokenPair& tokens);
  std::vector<std::vector<float>> forward(Text& text, const Tokens& tokens, Behind behind);
  void note(const std::vector<float>& logits);

  const models::LanguageModel* model_;
  Device device_;
  Numerics numerics_;
  std::shared_ptr<dist::Orders> orders_;
  std::optional<models::StepBatch> batch_;  // where the model can step several texts at once
  std::optional<models::PrefixStore> prefixes_;
  std::map<std::int64_t, Text> texts_;
  std::int64_t given_ = 0;  // numbers so far
};

}  // namespace server
}  // namespace v0
}  // namespace lockstep
