// `lockstep embed`: what pictures show, as vectors.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/io/numpy.h>
#include <lockstep/io/weights.h>
#include <lockstep/models/registry.h>
#include <lockstep/ops.h>

#include "cli/command_line.h"
#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/suggest.h"
#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct EmbedArguments {
  std::string architecture;
  std::string weights;
  std::vector<std::string> pictures;
  std::string out;
  std::string device = "best";
  bool as_json = false;
};

const models::ImageEncoder& encoder_of(const std::string& name) {
  const auto* row = models::find_model<models::ImageEncoder>(name);
  if (row == nullptr) {
    throw UsageError(fmt::format("--arch: \"{}\" gives no vectors of pictures\n  known: {}", printable(name),
                                 models::names_of_models<models::ImageEncoder>()));
  }
  return *row;
}

ExitCode embed_pictures(const EmbedArguments& arguments) {
  const CallScope call(CallSite("", 0));  // errors are about what was given, not about lines of this file
  const NoGrad no_grad;
  const models::ImageEncoder& row = encoder_of(arguments.architecture);
  const Device device = chosen_device(arguments.device);
  const std::string weights = fetched(arguments.weights.empty() ? row.published_weights : arguments.weights);
  const std::unique_ptr<nn::Layer> model = row.load(io::load_weights(weights), device);
  std::vector<Tensor> vectors;
  Progress progress(arguments.pictures.size());
  for (const std::string& path : arguments.pictures) {
    const Tensor x = models::preprocess(row.preprocessing, {io::load_image(path)}, device);
    vectors.push_back((*model)(x).to(Device{}));
    const Tensor& vector = vectors.back();
    progress.clear();
    if (arguments.as_json) {
      JsonArray values;
      for (const float value : vector.to_vector<float>()) values.add(json(value));
      print_line(JsonObject()
                     .add("image", json(path))
                     .add("hash", json(hex(vector.hash())))
                     .add("vector", values.text())
                     .text());
    } else {
      print_line(fmt::format("{}  {} numbers, {}", printable(path), vector.size(1), hex(vector.hash())));
    }
    progress.show(vectors.size());
  }
  if (!arguments.out.empty()) io::save_npy(arguments.out, cat(vectors, 0));
  return kOk;
}

}  // namespace

void add_embed(CommandLine& line) {
  Subcommand command = line.subcommand("embed", "Say what pictures show as vectors, to compare or search by");
  const auto arguments = std::make_shared<EmbedArguments>();
  command.option("--arch", arguments->architecture, "The network: " + models::names_of_models<models::ImageEncoder>())
      .required();
  command.option("--weights", arguments->weights,
                 "Its weights: safetensors or PyTorch; without it, those that were published, downloaded once");
  command.option("PICTURE", arguments->pictures, "PNG or JPEG files").required();
  command.option("--out", arguments->out, "A .npy file to write: f32 [pictures, numbers]");
  command.option("--device", arguments->device, "Where to compute: cpu, ref, ... or best").show_default();
  command.flag("--json", arguments->as_json, "One JSON object a line, with the vector");
  command.footer("Example: lockstep embed --arch dinov2_vits14 --out vectors.npy *.jpg");
  command.runs([arguments] { return embed_pictures(*arguments); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
