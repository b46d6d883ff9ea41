// `lockstep chat`: a conversation with a language model, line by line.
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/text/chat_template.h>

#include "cli/answer.h"
#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/ranks.h"
#include "cli/terminal.h"
#include "core/os.h"
#include "dist/orders.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct ChatArguments {
  std::string model;
  std::string tokenizer;
  std::string system;
  std::string date;
  std::string variables;
  std::string device = "best";
  AnswerOptions answer;
  RankOptions ranks;
};

constexpr const char* kHelp =
    "/reset    begins anew\n"
    "/undo     takes back the last message and its answer\n"
    "/save F   writes the conversation as JSON\n"
    "/exit     ends; so does the end of the input\n";

using Messages = std::vector<text::ChatMessage>;

void save_messages(const Messages& messages, const std::string& path) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const text::ChatMessage& message : messages) json.push_back({{"role", message.role}, {"content", message.content}});
  std::ofstream file(path);
  file << json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
  fmt::print(stderr, "{}\n", file.flush() ? "saved" : "cannot write " + printable(path));
}

class Conversation {
 public:
  Conversation(const ChatArguments& arguments, const dist::Group& group)
      : arguments_(arguments),
        path_(fetched_model(arguments.model)),
        template_(text::ChatTemplate::load(path_)),
        answerer_(path_, arguments.tokenizer.empty() ? path_ : fetched_tokenizer(arguments.tokenizer),
                  options_of(arguments, group), chosen_device(arguments.device, group.local_rank())),
        orders_(group) {
    reset();
  }

  /// What other ranks than the first do: they compute the same answers.
  void follow() {
    while (const std::optional<std::vector<std::int64_t>> prompt = orders_.take()) {
      try {
        answer(*prompt, false, [] { return true; });
      } catch (const dist::DistributedError&) {
        throw;
      } catch (const Error&) {
        // The first rank has the same error, and says so.
      }
    }
  }
  void end() { orders_.end(); }

  /// Returns whether to go on.
  bool line(const std::string& text) {
    if (text == "/exit" || text == "/quit") return false;
    if (text == "/reset") {
      reset();
    } else if (text == "/undo") {
      const std::size_t first = arguments_.system.empty() ? 0 : 1;
      messages_.resize(std::max(first, messages_.size() - std::min<std::size_t>(messages_.size(), 2)));
    } else if (text.starts_with("/save ")) {
      save_messages(messages_, text.substr(6));
    } else if (text.starts_with("/")) {
      fmt::print(stderr, "{}", kHelp);
    } else if (!text.empty()) {
      say(text);
    }
    return true;
  }

 private:
  static AnswerOptions options_of(const ChatArguments& arguments, const dist::Group& group) {
    AnswerOptions options = arguments.answer;
    options.model.group = group;
    return options;
  }

  // All ranks go on, or end, after the same token: as the first one says.
  Answer answer(const std::vector<std::int64_t>& prompt, bool show, const std::function<bool()>& go_on) {
    const dist::Group& group = orders_.group();
    const Answer result = answerer_.answer(prompt, show, [&] {
      const Tensor own = Tensor::from(std::vector<std::int64_t>{go_on() ? 1 : 0}, {1});
      return group.broadcast(own, 0).item<std::int64_t>() != 0;
    });
    std::vector<std::int64_t> tokens;
    for (const models::SampledToken& token : result.tokens) tokens.push_back(token.token);
    orders_.note(Tensor::from(tokens, {static_cast<std::int64_t>(tokens.size())}).hash());
    return result;
  }

  void reset() {
    messages_.clear();
    if (!arguments_.system.empty()) messages_.push_back({"system", arguments_.system});
  }

  // A message that cannot be answered is taken back, and the conversation goes on.
  void say(const std::string& text) {
    messages_.push_back({"user", text});
    try {
      const std::string prompt =
          template_.apply(messages_, {.now = arguments_.date, .variables = arguments_.variables});
      const os::StopRequest stop("");
      const std::vector<std::int64_t> tokens = answerer_.tokenizer().encode(prompt, {.add_special_tokens = false});
      const Answer result =
          orders_.carry_out(tokens, [&] { return answer(tokens, true, [&] { return stop.signal() == 0; }); });
      print_line("");
      std::fflush(stdout);
      fmt::print(stderr, "{}{}\n", stop.signal() == 0 ? "" : "interrupted; ", result.summary());
      messages_.push_back({"assistant", result.text});
    } catch (const dist::DistributedError&) {
      throw;
    } catch (const Error& error) {
      messages_.pop_back();
      fmt::print(stderr, "{}\n", printable_lines(error.what()));
    }
  }

  const ChatArguments& arguments_;
  std::string path_;
  text::ChatTemplate template_;
  Answerer answerer_;
  dist::Orders orders_;
  Messages messages_;
};

ExitCode chat(const ChatArguments& arguments, const std::vector<std::string>& words) {
  if (starts_ranks(arguments.ranks)) return run_ranks(arguments.ranks, words, Terminal::of_first_rank);
  const dist::Group group = joined_group(arguments.ranks);
  Conversation conversation(arguments, group);
  if (group.rank() > 0) {
    conversation.follow();
    return kOk;
  }
  const bool interactive = os::is_terminal(os::StandardStream::input);
  if (interactive) fmt::print(stderr, "Type a message; /help lists what else there is. Ctrl-C ends an answer.\n");
  for (std::string text;;) {
    if (interactive) fmt::print(stderr, "> ");
    if (!std::getline(std::cin, text)) {
      if (interactive) fmt::print(stderr, "\n");  // what comes next begins a line
      break;
    }
    if (text.ends_with('\r')) text.pop_back();
    if (!conversation.line(text)) break;
  }
  conversation.end();
  return kOk;
}

}  // namespace

void add_chat(CommandLine& line) {
  Subcommand command = line.subcommand("chat", "Talk with a language model");
  const auto arguments = std::make_shared<ChatArguments>();
  arguments->answer.max_tokens = 512;
  command
      .option("--model", arguments->model,
              "A folder with config.json and model.safetensors, or a GGUF file, with a chat template; "
              "hf:OWNER/NAME or hf:OWNER/NAME/FILE.gguf is downloaded once")
      .required();
  command.option("--system", arguments->system, "The first message, which says how to answer");
  command.option("--date", arguments->date, "For templates that ask for it, 2026-11-23; absent: the template's own");
  command.option("--template-variables", arguments->variables,
                 "A JSON object of what else the template reads, {\"enable_thinking\":false}");
  command.option("--tokenizer", arguments->tokenizer, "A tokenizer.json or GGUF file; absent: the model's own");
  arguments->answer.add_to(command);
  command.option("--device", arguments->device, "Where to compute: cpu, ref, ... or best").show_default();
  add_rank_count(command, arguments->ranks,
                 "Divide the model among so many processes of this machine; no answer depends on it");
  command.footer(
      "Examples:\n"
      "  lockstep chat --model SmolLM2-135M-Instruct.Q4_1.gguf --system \"Be short.\"\n"
      "  printf 'Hello\\nAnd now in French\\n' | lockstep chat --model SmolLM2-135M-Instruct.Q4_1.gguf\n"
      "Ctrl-C ends an answer, twice the program. The same messages, seed and date give the same answers on every device.");
  command.runs([arguments, words = command.words()] { return as_rank([&] { return chat(*arguments, *words); }); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
