#include "cli/answer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "cli/json.h"
#include "cli/terminal.h"
#include "core/os.h"
#include "text/text_stream.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

/// Shows text as it comes, up to a stop text.
class Output {
 public:
  Output(const std::vector<std::string>& stops, bool show) : stops_(&stops), show_(show) {}

  /// Returns whether to go on.
  bool add(const std::string& more) {
    text_ += more;
    const std::size_t stop = text::find_stop(text_, *stops_);
    if (stop != std::string::npos) text_.resize(stop);
    show(stop != std::string::npos ? text_.size() : text_.size() - text::possible_stop(text_, *stops_));
    return stop == std::string::npos;
  }
  void finish() { show(text_.size()); }
  const std::string& text() const { return text_; }

 private:
  void show(std::size_t end) {
    if (end <= shown_) return;
    if (show_) fmt::print("{}", printable_lines(text_.substr(shown_, end - shown_)));
    std::fflush(stdout);
    shown_ = end;
  }

  const std::vector<std::string>* stops_;
  bool show_;
  std::string text_;
  std::size_t shown_ = 0;
};

}  // namespace

void AnswerOptions::add_to(Subcommand& command) {
  command.option("--max-tokens", max_tokens, "At most so many tokens").positive().show_default();
  command.option("--temperature", temperature, "0 (the default) always takes the most probable token");
  command.option("--top-k", top_k, "Draw from the K most probable tokens; 0: from all").not_negative();
  command.option("--top-p", top_p, "Draw from the fewest tokens that have this probability together");
  command.option("--min-p", min_p, "Leave out tokens below this share of the most probable one");
  command.option("--seed", seed, "Of what is drawn").show_default();
  command.option("--stop", stop, "Ends before this text; may be repeated").one_value_each();
}

std::string Answer::hash() const {
  std::vector<std::int64_t> ids;
  for (const models::SampledToken& token : tokens) ids.push_back(token.token);
  return hex(Tensor::from(ids, {static_cast<std::int64_t>(ids.size())}).hash());
}

std::string Answer::summary() const {
  return fmt::format("{} tokens, {:.1f} a second, {}, {}", tokens.size(), static_cast<double>(tokens.size()) / seconds,
                     size_text(os::resident_bytes()), hash());
}

Answer answer(const models::LanguageModel& model, const text::Tokenizer& tokenizer, const std::vector<std::int64_t>& prompt,
              const AnswerOptions& options, Device device, bool show, const std::function<bool()>& go_on) {
  models::GenerateOptions generation{.sampling = {.temperature = options.temperature.value_or(0),
                                                  .top_k = options.top_k,
                                                  .top_p = options.top_p.value_or(1),
                                                  .min_p = options.min_p.value_or(0),
                                                  .seed = options.seed},
                                     .max_tokens = options.max_tokens};
  if (tokenizer.end_token()) generation.end_tokens.push_back(*tokenizer.end_token());
  text::TextStream stream(tokenizer, prompt);
  Output output(options.stop, show);
  bool stopped = false;
  const auto start = std::chrono::steady_clock::now();
  Answer result;
  result.tokens = models::generate(
      model, prompt, generation,
      [&](const models::SampledToken& token) {
        stopped = !output.add(stream.add(token.token));
        return !stopped && (!go_on || go_on());
      },
      device);
  if (!stopped) output.add(stream.finish());
  output.finish();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.text = output.text();
  return result;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
