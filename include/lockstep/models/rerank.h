// How well documents answer a query: scores of cross-encoders, which read a query and a document together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/models/language.h>
#include <lockstep/text/tokenizer.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// What a model's files say of its pairs and scores.
struct RerankForm {
  /// Tokens of a pair. Longer ones are cut as Tokenizer::encode_pair does it; 0: none is.
  std::int64_t most_tokens = 0;
  /// Scores are sigmoids of logits; else the logits.
  bool sigmoid = true;
  /// The logit is the first of two labels' less the second's (Qwen3-Reranker in GGUF files: yes and no).
  bool difference = false;
  /// What the model reads, with "{query}" and "{document}" in it; empty: the tokenizer's form of two texts.
  std::string prompt = {};
};

/// Labels that the model has logits for; 0 where it has no head for labels (…ForSequenceClassification, cls of GGUF).
LOCKSTEP_API std::int64_t label_count(const LanguageModel& model);

/// By the model's positions and model_max_length of tokenizer_config.json, and by what sentence-transformers'
/// CrossEncoder reads in config.json: scores are sigmoids unless activation_fn is Identity. Of a GGUF file by its
/// template "rerank". ValueError for a model without a head, or with several labels, of which none is the score.
LOCKSTEP_API RerankForm rerank_form_of(const std::string& path, const LanguageModel& model);

/// ValueError for a query without tokens, and where Tokenizer::encode_pair throws it.
LOCKSTEP_API text::TokenPair rerank_tokens(const text::Tokenizer& tokenizer, const RerankForm& form,
                                           std::string_view query, std::string_view document);

/// One text, or two as one, to f32 [labels]: as transformers' AutoModelForSequenceClassification. Types matter where
/// the model knows types of tokens, and may be left out: all are 0. ValueError for models without a head, no tokens,
/// more than the model has positions for, and types that it does not know.
LOCKSTEP_API Tensor label_logits(const LanguageModel& model, const text::TokenPair& tokens, Device device = {});

/// Of label_logits.
LOCKSTEP_API float rerank_score(const Tensor& logits, const RerankForm& form);

/// A score for each document, each of its own: other documents change none.
LOCKSTEP_API std::vector<float> rerank(const LanguageModel& model, const text::Tokenizer& tokenizer,
                                       std::string_view query, const std::vector<std::string>& documents,
                                       const RerankForm& form, Device device = {});

/// The documents' numbers, the best first; of equal scores the lower number.
LOCKSTEP_API std::vector<std::size_t> best_first(const std::vector<float>& scores);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
