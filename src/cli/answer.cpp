#include "cli/answer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include <lockstep/models/beam_search.h>
#include <lockstep/models/constraint.h>

#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "core/checked.h"
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
  model.add_to(command);
  products.add_to(command);
  command.option("--max-tokens", max_tokens, "At most so many tokens").positive().show_default();
  command.option("--temperature", temperature, "0 (the default) always takes the most probable token");
  command.option("--top-k", top_k, "Draw from the K most probable tokens; 0: from all").not_negative();
  command.option("--top-p", top_p, "Draw from the fewest tokens that have this probability together");
  command.option("--min-p", min_p, "Leave out tokens below this share of the most probable one");
  command.option("--seed", seed, "Of what is drawn").show_default();
  command.option("--stop", stop, "Ends before this text; may be repeated").one_value_each();
  command.option("--typical-p", typical_p,
                 "Keep the tokens nearest to the expected surprise that have this probability");
  command.option("--repetition-penalty", repetition_penalty,
                 "Divides the logits of tokens that were there already, in the prompt too (1: no)");
  command.option("--presence-penalty", presence_penalty, "Is taken from the logits of tokens that were drawn");
  command.option("--frequency-penalty", frequency_penalty, "The same, as often as they were drawn");
  command.option("--penalty-window", penalty_window, "Penalties look at so many last tokens; 0: at all").not_negative();
  command.option("--logit-bias", logit_bias, "TOKEN=NUMBER, added to its logit (-inf: never); may be repeated")
      .one_value_each();
  command.option("--mirostat", mirostat, "Aim at this surprise, in bits, instead of top-k to min-p (Mirostat 2)");
  command.option("--mirostat-eta", mirostat_eta, "How fast");
  command.option("--draft", draft,
                 "A small model of the same vocabulary that guesses tokens; the answer stays the same");
  command.option("--lookup", lookup, "Guess what followed the last N tokens before; the answer stays the same")
      .not_negative();
  command
      .option("--beams", beams,
              "Search the most probable answer with so many candidates at a time, instead of drawing one")
      .range(1, 64)
      .show_default();
  command.option("--grammar", grammar, "A file with a grammar (GBNF) that the answer is held to");
  command.option("--json-schema", json_schema, "A file with a JSON schema that the answer is held to");
  command.option("--guesses", guesses, "Of --draft and --lookup: tokens at a time").positive().show_default();
}

void AnswerOptions::check() const {
  model.load();
  if (!draft.empty() && lookup > 0) throw UsageError("either --draft or --lookup guesses");
  if (!grammar.empty() && !json_schema.empty()) {
    throw UsageError("an answer is held to either a --grammar or a --json-schema");
  }
  if (std::find(stop.begin(), stop.end(), "") != stop.end()) throw UsageError("--stop: a text, not an empty one");
  const models::SamplingOptions sampled = sampling();
  try {
    models::Sampler{sampled};
  } catch (const ValueError& error) {
    throw UsageError(error.what());
  }
  const bool draws = sampled.temperature != 0 || sampled.repetition_penalty != 1 || sampled.presence_penalty != 0 ||
                     sampled.frequency_penalty != 0 || !sampled.logit_bias.empty() || sampled.top_k != 0 ||
                     sampled.top_p != 1 || sampled.min_p != 0 || sampled.typical_p != 1;
  if (beams > 1 && (draws || !draft.empty() || lookup > 0 || !grammar.empty() || !json_schema.empty())) {
    throw UsageError("--beams searches; it takes no options of drawing, guessing or grammars");
  }
}

models::SamplingOptions AnswerOptions::sampling() const {
  models::SamplingOptions result{.temperature = temperature.value_or(0),
                                 .top_k = top_k,
                                 .top_p = top_p.value_or(1),
                                 .min_p = min_p.value_or(0),
                                 .seed = seed,
                                 .typical_p = typical_p.value_or(1),
                                 .repetition_penalty = repetition_penalty.value_or(1),
                                 .presence_penalty = presence_penalty.value_or(0),
                                 .frequency_penalty = frequency_penalty.value_or(0),
                                 .penalty_window = penalty_window,
                                 .mirostat_tau = mirostat.value_or(0),
                                 .mirostat_eta = mirostat_eta.value_or(0.1)};
  for (const std::string& word : logit_bias) {
    const std::size_t equals = word.find('=');
    char* end = nullptr;
    const double bias = equals == std::string::npos ? 0 : std::strtod(word.c_str() + equals + 1, &end);
    if (end == nullptr || *end != '\0' || end == word.c_str() + equals + 1) {
      throw UsageError(fmt::format("--logit-bias is TOKEN=NUMBER, not \"{}\"", word));
    }
    const std::vector<std::int64_t> token = parse_tokens(word.substr(0, equals));
    if (token.size() != 1) throw UsageError(fmt::format("--logit-bias is TOKEN=NUMBER, not \"{}\"", word));
    result.logit_bias[token.front()] = bias;
  }
  return result;
}

std::string Answer::hash() const {
  std::vector<std::int64_t> ids;
  for (const models::SampledToken& token : tokens) ids.push_back(token.token);
  return hex(Tensor::from(ids, {static_cast<std::int64_t>(ids.size())}).hash());
}

std::string Answer::summary() const {
  const std::string right =
      guesses.guessed == 0 ? "" : fmt::format("{} of {} guesses right, ", guesses.right, guesses.guessed);
  return fmt::format("{} tokens, {:.1f} a second, {}{}, {}", tokens.size(),
                     static_cast<double>(tokens.size()) / seconds, right, size_text(os::resident_bytes()), hash());
}

Answerer::Answerer(const std::string& model, const std::string& tokenizer, AnswerOptions options, Device device)
    : options_(std::move(options)), device_(device), tokenizer_(text::Tokenizer::load(tokenizer)) {
  options_.check();  // what is wrong is said before a model is loaded
  if (!options_.grammar.empty()) {
    grammar_ = text::Grammar::from_gbnf(text_of(os::map_file(options_.grammar).bytes), options_.grammar);
  } else if (!options_.json_schema.empty()) {
    try {
      grammar_ = text::Grammar::from_json_schema(text_of(os::map_file(options_.json_schema).bytes));
    } catch (const FormatError& error) {
      throw FormatError(fmt::format("{}: {}", options_.json_schema, error.what()));
    }
  }
  if (grammar_) texts_.emplace(tokenizer_);
  model_ = options_.model.load_model(model, device);
  if (!options_.draft.empty()) draft_ = models::load_language_model(fetched_model(options_.draft), device);
  cache_ = std::make_unique<models::PromptCache>(*model_);
}

Answer Answerer::answer(const std::vector<std::int64_t>& prompt, bool show, const std::function<bool()>& go_on) {
  const std::int64_t context = model_->context();
  if (context > 0 && static_cast<std::int64_t>(prompt.size()) >= context) {
    throw ValueError(
        fmt::format("the prompt has {} tokens, but the model a context of {}, which leaves no room for an answer\n  "
                    "fix: shorten it",
                    prompt.size(), context));
  }
  const NumericsScope numerics(options_.products.chosen());
  Answer result;
  models::GenerateOptions generation{
      .sampling = options_.sampling(),
      .max_tokens = options_.max_tokens,
      .end_tokens = tokenizer_.end_tokens(),
      .speculation = {.draft = draft_.get(), .lookup = options_.lookup, .tokens = options_.guesses},
      .counts = &result.guesses,
      .cache = cache_.get()};
  if (grammar_) generation.constraint = models::constrain(*grammar_, *texts_, generation.end_tokens);
  text::TextStream stream(tokenizer_, prompt);
  Output output(options_.stop, show);
  bool stopped = false;
  const auto start = std::chrono::steady_clock::now();
  const auto take = [&](const models::SampledToken& token) {
    stopped = !output.add(stream.add(token.token));
    return !stopped && (!go_on || go_on());
  };
  if (options_.beams > 1) {
    const models::BeamSearchOptions search{
        .beams = options_.beams, .max_tokens = options_.max_tokens, .end_tokens = generation.end_tokens};
    const std::vector<models::Beam> beams = models::beam_search(*model_, prompt, search, device_);
    for (const models::SampledToken& token : beams.front().tokens) {
      result.tokens.push_back(token);
      if (!take(token)) break;
    }
  } else {
    result.tokens = models::generate(*model_, prompt, generation, take, device_);
  }
  if (!stopped) output.add(stream.finish());
  output.finish();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.text = output.text();
  return result;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
