// One answer of a language model, step by step: a step is one pass of the model, so that requests can take turns, or
// share it. The tokens and their log-probabilities are those of models::generate, whoever else is served in between.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <lockstep/models/generate.h>
#include <lockstep/text/grammar.h>
#include <lockstep/text/tokenizer.h>

#include "server/batcher.h"
#include "text/text_stream.h"

namespace lockstep {
inline namespace v0 {
namespace server {

struct CompletionOptions {
  models::SamplingOptions sampling = {};
  std::int64_t max_tokens = 16;
  std::vector<std::string> stop = {};         ///< The answer ends before the first of these.
  std::size_t alternatives = 0;               ///< so many most probable tokens are told at each position
  bool scores_prompt = false;                 ///< also of the prompt's tokens (Completion::scores)
  std::optional<text::Grammar> grammar = {};  ///< that the answer is held to
  std::set<std::int64_t> marks = {};          ///< special tokens that stand in the text, each as its mark (marks.h)
};

/// A drawn token, and what it adds to the text (nothing while a character or a stop text may be incomplete).
struct Piece {
  models::SampledToken token;
  std::vector<models::SampledToken> alternatives;
  std::string text;  ///< empty for a token of the prompt
};

class Completion {
 public:
  /// `prompt` has tokens of the model's vocabulary, at least one. Keeps references to the model and the tokenizer,
  /// whose `texts` are needed where there is a grammar.
  Completion(const models::LanguageModel& model, Batcher& batcher, const text::Tokenizer& tokenizer,
             const text::TokenTexts& texts, std::vector<std::int64_t> prompt, CompletionOptions options);
  ~Completion();
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  /// Reads 256 tokens of the prompt, or draws a token: nothing while the prompt is not read, and at the end. The model
  /// computes in turns of the server; a token's pass is shared with others that wait for one.
  std::optional<Piece> step(HttpServer& server);
  /// A step of each of some answers to one prompt, which is read once where the model's texts can be copied.
  static std::vector<std::optional<Piece>> step_together(HttpServer& server, std::span<Completion* const> answers);
  /// "stop" or "length" once it has ended, else empty.
  const std::string& finish_reason() const { return finish_reason_; }
  /// What was held back: to be asked once, at the end.
  std::string rest();

  /// The prompt's tokens but the first, where `scores_prompt`, as far as it is read.
  const std::vector<Piece>& scores() const { return scores_; }

  const std::string& text() const { return text_; }
  const std::vector<std::int64_t>& tokens() const { return tokens_; }
  /// Tokens of the prompt that were not read again, since another text began with them.
  std::int64_t reused() const { return reused_; }
  /// Of the tokens' numbers, as `lockstep generate` prints it.
  std::string hash() const;

 private:
  std::string shown_until(std::size_t end);
  bool goes_on();
  bool has_enough() const { return static_cast<std::int64_t>(tokens_.size()) >= options_.max_tokens; }
  std::optional<std::vector<float>> read_prompt();
  void begin();
  void copy(const Completion& other);
  std::optional<Piece> draw(const std::vector<float>& logits);
  void score(const std::vector<std::vector<float>>& logits);

  const models::LanguageModel* model_;
  Batcher* batcher_;
  CompletionOptions options_;
  std::vector<std::int64_t> end_tokens_;
  std::vector<std::int64_t> prompt_;
  std::int64_t left_of_prompt_;
  std::optional<std::int64_t> number_;  // of the text among those of the model
  std::int64_t length_ = 0;             // tokens that the model has seen
  std::int64_t reused_ = 0;
  std::vector<Piece> scores_;
  models::Sampler sampler_;
  text::TextStream stream_;
  std::vector<std::int64_t> tokens_;
  std::string text_;
  std::size_t shown_ = 0;
  bool stopped_by_text_ = false;
  std::string finish_reason_;
};

/// The `count` most probable tokens, the most probable first, of equal ones the lower. `logits` of one position.
std::vector<models::SampledToken> most_probable(std::span<const float> logits, std::size_t count);

}  // namespace server
}  // namespace v0
}  // namespace lockstep
