// The `lockstep` command: runs the subcommand and turns what happens into an exit code and a line on standard error.
#include <lockstep/cli.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/version.h>

#include "cli/classifier.h"
#include "cli/command_line.h"
#include "cli/terminal.h"
#include "cli/user_message.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

ExitCode run(int argc, char** argv, const std::vector<models::ImageClassifier>& own) {
  const auto architectures = std::make_shared<const Architectures>(own);
  CommandLine line("lockstep", "Lockstep: the same answer on every device, to the last bit.", std::string(kVersion),
                   "Examples:\n"
                   "  lockstep demo\n"
                   "  lockstep classify --arch resnet20-cifar --weights resnet20.th photo.png\n"
                   "  lockstep train --data digits --arch lenet\n"
                   "  lockstep classify --help\n"
                   "Exit codes: 0 success, 1 failure, 2 wrong usage, 3 unsupported cases (replay --strict).");
  add_info(line);
  add_classify(line, architectures);
  add_segment(line);
  add_detect(line);
  add_embed(line);
  add_rerank(line);
  add_inspect(line);
  add_replay(line);
  add_minimize(line);
  add_diff(line);
  add_hash(line);
  add_demo(line);
  add_check(line);
  add_train(line, architectures);
  add_serve(line, architectures);
  add_generate(line);
  add_chat(line);
  add_tokenize(line);
  add_logits(line);
  add_perplexity(line);
  add_quantize(line);
  add_finetune(line);
  add_merge(line);
  add_transcribe(line);
  add_export(line, architectures);
  add_run(line);
  add_trace(line, [program = argv[0], own](std::vector<std::string> words) {
    words.insert(words.begin(), program);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    return run(static_cast<int>(arguments.size()), arguments.data(), own);
  });
  try {
    return line.run(argc, argv);
  } catch (const UsageError& error) {
    fmt::print(stderr, "lockstep: {}\n", printable_lines(without_sources(error.what())));
    return kUsage;
  }
}

}  // namespace

int main(int argc, char** argv, std::vector<models::ImageClassifier> architectures) {
  int code = kFailure;
  try {
    code = run(argc, argv, architectures);
  } catch (const std::exception&) {
    std::fprintf(stderr, "lockstep: %s\n", message_of_current_exception().c_str());
    code = kFailure;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fputs("lockstep: cannot write to standard output\n", stderr);
    return kFailure;
  }
  return code;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
