// Texts and conversations as examples to train a language model on.
//
//   const ls::train::TextExamples texts = ls::train::read_text_examples("data.jsonl", tokenizer, &chat, {.context =
//   512}); ls::data::DataLoader loader(ls::train::text_dataset(texts.examples), {.batch_size = 4, .shuffle = true});
//   ls::train::fit(ls::train::text_model(*model), optimizer, loader);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/models/language.h>
#include <lockstep/text/chat_template.h>
#include <lockstep/text/tokenizer.h>
#include <lockstep/train/trainer.h>

namespace lockstep {
inline namespace v0 {
namespace train {

/// Tokens, and which of them a model learns.
struct TextExample {
  std::vector<std::int64_t> tokens;
  std::vector<bool> learned;  ///< As many: whether the model shall foretell the token.

  friend bool operator==(const TextExample&, const TextExample&) = default;
};

struct TextExampleOptions {
  std::int64_t context = 512;  ///< Positions of an example at most: it has one token more.
};

/// What a file of texts or conversations gave.
struct TextExamples {
  std::vector<TextExample> examples;
  std::int64_t cut = 0;      ///< Conversations that were longer, of which the end is missing.
  std::int64_t dropped = 0;  ///< Lines of which nothing was left to learn.
  std::int64_t tokens = 0;   ///< That are learned.
};

/// Reads a file with a JSON object on each line, of one of these forms:
///   {"text": ...}                     all of it is learned, and the end token behind it; long texts become several
///   examples
///   {"prompt": ..., "completion": ...}  the completion is learned, and the end token behind it
///   {"messages": [{"role": ..., "content": ...}, ...]}  by the chat template: what assistants say is learned, with
///   what
///                                     the template puts behind it
/// Tokens are those of the whole text; what a prompt and an answer share counts to the answer. IoError if the file
/// cannot be read; FormatError, naming the line, for other lines and for messages without `chat`; ValueError where a
/// template writes a conversation otherwise once it goes on, and if there is nothing to learn.
LOCKSTEP_API TextExamples read_text_examples(const std::string& path, const text::Tokenizer& tokenizer,
                                             const text::ChatTemplate* chat, const TextExampleOptions& options = {});

/// Batches of them: input i64 [n, L], target i64 [n, L] with the next tokens, -100 for those that are not learned. L is
/// the longest example's, rounded up to 32 but not beyond the longest of all, so that few different shapes occur.
LOCKSTEP_API data::DatasetPtr text_dataset(std::vector<TextExample> examples);

/// The model for fit(), with logits [n, vocabulary, L] as cross_entropy takes them. `trained` is what changes and what
/// checkpoints hold: the model itself, or an adapter of it. Both must outlive the result.
LOCKSTEP_API Model text_model(const models::LanguageModel& model, nn::Module& trained);

}  // namespace train
}  // namespace v0
}  // namespace lockstep
