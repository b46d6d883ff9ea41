// `lockstep export`: the weights of a classifier as an ONNX file.
#include <memory>
#include <string>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/io/onnx_export.h>
#include <lockstep/io/weights.h>
#include <lockstep/models/registry.h>
#include <lockstep/ops.h>

#include "cli/classifier.h"
#include "cli/command_line.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct ExportArguments {
  std::string weights;
  std::string architecture;
  std::string output;
  std::string opset = "17";
  bool as_json = false;
};

ExitCode export_model(const ExportArguments& arguments, const Architectures& architectures) {
  const CallScope call(CallSite("", 0));  // errors are about what was given, not about lines of this file
  const models::ImageClassifier& row = architectures.chosen(arguments.architecture);
  const std::unique_ptr<nn::Layer> model = row.load(io::load_weights(fetched(arguments.weights)), Device{});
  const models::Preprocessing& picture = row.preprocessing;
  const Tensor example = zeros({1, picture.channels, picture.height, picture.width}, {.device = Device{}});
  io::save_onnx(arguments.output, *model, {example},
                {.opset = std::stoi(arguments.opset),
                 .dynamic = {{.input = 0, .dim = 0, .symbol = "batch"}},
                 .input_names = {"pictures"},
                 .output_names = {"logits"}});
  if (arguments.as_json) {
    print_line(JsonObject()
                   .add("file", json(arguments.output))
                   .add("arch", json(row.name))
                   .add("opset", json(static_cast<std::uint64_t>(std::stoi(arguments.opset))))
                   .add("parameters", json(static_cast<std::uint64_t>(model->parameter_count())))
                   .text());
    return kOk;
  }
  print_line(fmt::format("{}: {}, {} parameters, opset {}; pictures [batch, {}, {}, {}] to logits",
                         printable(arguments.output), row.name, model->parameter_count(), arguments.opset,
                         picture.channels, picture.height, picture.width));
  return kOk;
}

}  // namespace

void add_export(CommandLine& line, const std::shared_ptr<const Architectures>& architectures) {
  Subcommand command = line.subcommand("export", "Write an image classifier as an ONNX file");
  const auto arguments = std::make_shared<ExportArguments>();
  command.option("WEIGHTS", arguments->weights, "A file of weights, or hf:OWNER/NAME/FILE").required();
  command.option("--arch", arguments->architecture, "The network: " + architectures->names()).required();
  command.option("--out,-o", arguments->output, "The file to write").required();
  command.option("--opset", arguments->opset, "The version of ONNX's operators").one_of({"17", "23"});
  command.flag("--json", arguments->as_json, "One JSON object instead of text");
  command.footer(
      "Example:\n"
      "  lockstep export resnet18.safetensors --arch resnet18 --out resnet18.onnx\n"
      "Pictures are prepared before, as `lockstep classify` does.");
  command.runs([arguments, architectures] { return export_model(*arguments, *architectures); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
