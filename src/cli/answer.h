// What `generate` and `chat` share: how tokens are chosen, and text that is shown as it comes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/models/generate.h>
#include <lockstep/text/tokenizer.h>

#include "cli/command_line.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

struct AnswerOptions {
  std::vector<std::string> stop;
  std::int64_t max_tokens = 128;
  std::optional<double> temperature;
  std::int64_t top_k = 0;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::uint64_t seed = 0;

  void add_to(Subcommand& command);
};

struct Answer {
  std::string text;
  std::vector<models::SampledToken> tokens;
  double seconds = 0;

  /// Of the tokens' numbers.
  std::string hash() const;
  /// "12 tokens, 40.1 a second, 51.6 MiB, 101964f8113e3337".
  std::string summary() const;
};

/// Continues `prompt` up to an end token, a stop text or max_tokens; with `show` on standard output. `go_on` is asked
/// before every token.
Answer answer(const models::LanguageModel& model, const text::Tokenizer& tokenizer, const std::vector<std::int64_t>& prompt,
              const AnswerOptions& options, Device device, bool show, const std::function<bool()>& go_on = {});

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
