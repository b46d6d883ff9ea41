// The subcommands of `lockstep`. Each adds itself and its options to the command line.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// What the process returns; part of the interface (docs/cli.md).
enum ExitCode : int { kOk = 0, kFailure = 1, kUsage = 2, kUnsupported = 3 };
/// Added to the number of the signal that stopped it, as shells do.
inline constexpr int kSignal = 128;

/// The command line asks for something that does not exist: exit code kUsage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Architectures;
class CommandLine;

void add_info(CommandLine& line);
void add_classify(CommandLine& line, const std::shared_ptr<const Architectures>& architectures);
void add_segment(CommandLine& line);
void add_detect(CommandLine& line);
void add_embed(CommandLine& line);
void add_rerank(CommandLine& line);
void add_inspect(CommandLine& line);
void add_replay(CommandLine& line);
void add_minimize(CommandLine& line);
void add_diff(CommandLine& line);
void add_hash(CommandLine& line);
void add_demo(CommandLine& line);
void add_check(CommandLine& line);
void add_train(CommandLine& line, const std::shared_ptr<const Architectures>& architectures);
void add_serve(CommandLine& line, const std::shared_ptr<const Architectures>& architectures);
void add_generate(CommandLine& line);
void add_chat(CommandLine& line);
void add_tokenize(CommandLine& line);
void add_logits(CommandLine& line);
void add_perplexity(CommandLine& line);
void add_quantize(CommandLine& line);
void add_finetune(CommandLine& line);
void add_merge(CommandLine& line);
void add_transcribe(CommandLine& line);
void add_export(CommandLine& line, const std::shared_ptr<const Architectures>& architectures);
void add_run(CommandLine& line);
/// `run`: runs the command line of these words, the first of them a command.
void add_trace(CommandLine& line, std::function<ExitCode(const std::vector<std::string>&)> run);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
