// The `lockstep` command: chooses the subcommand and turns what happens into an exit code and a line on standard error.
#include <cstdio>
#include <exception>
#include <map>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <lockstep/version.h>

#include "cli/command.h"
#include "cli/terminal.h"

namespace {

using namespace lockstep;
using namespace lockstep::cli;

int run(int argc, char** argv) {
  CLI::App app{"Lockstep: the same answer on every device, to the last bit.", "lockstep"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(kVersion));
  app.footer(
      "Examples:\n"
      "  lockstep demo\n"
      "  lockstep classify --arch resnet20-cifar --weights resnet20.th photo.png\n"
      "  lockstep train --data digits --arch lenet\n"
      "  lockstep classify --help\n"
      "Exit codes: 0 success, 1 failure, 2 wrong usage, 3 unsupported cases (replay --strict).");
  std::map<std::string, Run> commands;
  commands["info"] = add_info(app);
  commands["classify"] = add_classify(app);
  commands["inspect"] = add_inspect(app);
  commands["replay"] = add_replay(app);
  commands["demo"] = add_demo(app);
  commands["check"] = add_check(app);
  commands["train"] = add_train(app);
  try {
    app.parse(argc, argv);
    return commands.at(app.get_subcommands().front()->get_name())();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  } catch (const UsageError& error) {
    fmt::print(stderr, "lockstep: {}\n", printable_lines(error.what()));
    return kUsage;
  }
}

}  // namespace

int main(int argc, char** argv) {
  int code = kFailure;
  try {
    code = run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep: %s\n", printable_lines(error.what()).c_str());
    code = kFailure;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fputs("lockstep: cannot write to standard output\n", stderr);
    return kFailure;
  }
  return code;
}
