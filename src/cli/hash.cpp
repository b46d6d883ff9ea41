// `lockstep hash`: one number for all weights in a file.
#include <memory>

#include <fmt/format.h>

#include <lockstep/io/weights.h>
#include <lockstep/nn/module.h>

#include "cli/command_line.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct HashOptions {
  std::vector<std::string> files;
  bool each = false;
  bool as_json = false;
};

ExitCode hash(const HashOptions& options) {
  for (const std::string& file : options.files) {
    const io::TensorMap tensors = io::load_weights(fetched(file));
    const std::string all = hex(nn::state_hash(tensors));
    if (options.as_json) {
      JsonObject each;
      for (const auto& [name, tensor] : tensors) each.add(name, json(hex(tensor.hash())));
      JsonObject line;
      line.add("file", json(file)).add("hash", json(all));
      if (options.each) line.add("tensors", each.text());
      print_line(line.text());
      continue;
    }
    print_line(fmt::format("{}  {}", all, printable(file)));
    if (!options.each) continue;
    for (const auto& [name, tensor] : tensors) {
      print_line(fmt::format("  {}  {} {} {}", hex(tensor.hash()), printable(name), name_of(tensor.dtype()),
                             tensor.shape().to_string()));
    }
  }
  return kOk;
}

}  // namespace

void add_hash(CommandLine& line) {
  Subcommand command = line.subcommand("hash", "Print one number for all weights in a file");
  const auto options = std::make_shared<HashOptions>();
  command.option("FILE", options->files, "Files of weights of any format, or hf:OWNER/NAME/FILE").required();
  command.flag("--each", options->each, "Every tensor's hash, too");
  command.flag("--json", options->as_json, "One JSON object a file instead of text");
  command.footer(
      "Example:\n"
      "  lockstep hash run/weights.safetensors\n"
      "It is the weights_hash of `lockstep train`, nn::state_hash in a program: of names and values, whatever the format.");
  command.runs([options] { return hash(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
