// What `generate` and `chat` share: how tokens are chosen, and text that is shown as it comes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/models/generate.h>
#include <lockstep/text/grammar.h>
#include <lockstep/text/tokenizer.h>

#include "cli/command_line.h"
#include "cli/language.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

struct AnswerOptions {
  ModelOptions model;
  ProductOptions products;
  std::vector<std::string> stop;
  std::int64_t max_tokens = 128;
  std::optional<double> temperature;
  std::int64_t top_k = 0;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::uint64_t seed = 0;
  std::optional<double> typical_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::int64_t penalty_window = 0;
  std::vector<std::string> logit_bias;
  std::optional<double> mirostat;
  std::optional<double> mirostat_eta;
  std::string draft;
  std::int64_t lookup = 0;
  std::int64_t guesses = 4;
  std::int64_t beams = 1;
  std::string grammar;
  std::string json_schema;

  void add_to(Subcommand& command);
  /// UsageError for what cannot be had together.
  void check() const;
  /// UsageError for a bias that is none.
  models::SamplingOptions sampling() const;
};

struct Answer {
  std::string text;
  std::vector<models::SampledToken> tokens;
  double seconds = 0;
  models::SpeculationCounts guesses;

  /// Of the tokens' numbers.
  std::string hash() const;
  /// "12 tokens, 40.1 a second, 51.6 MiB, 101964f8113e3337".
  std::string summary() const;
};

/// A language model that answers, loaded as the options ask for it.
class Answerer {
 public:
  /// `model` and `tokenizer` are local paths.
  Answerer(const std::string& model, const std::string& tokenizer, AnswerOptions options, Device device);

  /// Continues `prompt` up to an end token, a stop text or max_tokens; with `show` on standard output. `go_on` is asked
  /// before every token. What is known of the text is kept for the next one.
  Answer answer(const std::vector<std::int64_t>& prompt, bool show, const std::function<bool()>& go_on = {});
  const text::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  AnswerOptions options_;
  Device device_;
  text::Tokenizer tokenizer_;
  std::unique_ptr<models::LanguageModel> model_;
  std::unique_ptr<models::LanguageModel> draft_;
  std::unique_ptr<models::PromptCache> cache_;
  std::optional<text::Grammar> grammar_;
  std::optional<text::TokenTexts> texts_;
};

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
