// `lockstep embed`: what pictures show, or texts say, as vectors.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/io/numpy.h>
#include <lockstep/io/weights.h>
#include <lockstep/models/embed_text.h>
#include <lockstep/models/registry.h>
#include <lockstep/ops.h>
#include <lockstep/text/tokenizer.h>

#include "cli/command_line.h"
#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/language.h"
#include "cli/suggest.h"
#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct EmbedArguments {
  std::string architecture;
  std::string weights;
  std::string model;
  std::string pooling;
  ProductOptions products;
  bool plain = false;
  std::int64_t dimensions = 0;
  std::vector<std::string> inputs;  // pictures, or texts
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

// `kind`: the key of what was embedded.
void show_vector(const EmbedArguments& arguments, const char* kind, const std::string& what, const Tensor& vector) {
  if (arguments.as_json) {
    JsonArray values;
    for (const float value : vector.to_vector<float>()) values.add(json(value));
    print_line(
        JsonObject().add(kind, json(what)).add("hash", json(hex(vector.hash()))).add("vector", values.text()).text());
  } else {
    print_line(fmt::format("{}  {} numbers, {}", printable(what), vector.numel(), hex(vector.hash())));
  }
}

ExitCode embed_texts(const EmbedArguments& arguments) {
  if (!arguments.weights.empty()) throw UsageError("--weights belongs to --arch");
  if (arguments.plain && arguments.dimensions > 0) throw UsageError("--dimensions are of length 1");
  const Device device = chosen_device(arguments.device);
  const std::string path = fetched_model(arguments.model);
  const text::Tokenizer tokenizer = text::Tokenizer::load(path);
  const auto model = models::load_language_model(path, device);
  const models::EmbedTextOptions options{
      .pooling = arguments.pooling.empty() ? models::pooling_of(path, *model) : models::parse_pooling(arguments.pooling),
      .normalize = !arguments.plain};
  const NumericsScope numerics(arguments.products.chosen());
  std::vector<Tensor> vectors;
  Progress progress(arguments.inputs.size());
  for (const std::string& text : arguments.inputs) {
    vectors.push_back(models::embed_text(*model, tokenizer.encode(text), options, device).to(Device{}));
    if (arguments.dimensions > 0) vectors.back() = models::first_dimensions(vectors.back(), arguments.dimensions);
    progress.clear();
    show_vector(arguments, "text", text, vectors.back());
    progress.show(vectors.size());
  }
  progress.clear();
  if (!arguments.out.empty()) io::save_npy(arguments.out, stack(vectors, 0));
  return kOk;
}

ExitCode embed_pictures(const EmbedArguments& arguments) {
  if (!arguments.pooling.empty() || arguments.plain || arguments.dimensions > 0) {
    throw UsageError("--pooling, --not-normalized and --dimensions belong to --model");
  }
  const models::ImageEncoder& row = encoder_of(arguments.architecture);
  const Device device = chosen_device(arguments.device);
  const std::string weights = fetched(arguments.weights.empty() ? row.published_weights : arguments.weights);
  const std::unique_ptr<nn::Layer> model = row.load(io::load_weights(weights), device);
  std::vector<Tensor> vectors;
  Progress progress(arguments.inputs.size());
  for (const std::string& path : arguments.inputs) {
    const Tensor x = models::preprocess(row.preprocessing, {io::load_image(path)}, device);
    vectors.push_back((*model)(x).to(Device{}));
    const Tensor& vector = vectors.back();
    progress.clear();
    show_vector(arguments, "image", path, vector);
    progress.show(vectors.size());
  }
  if (!arguments.out.empty()) io::save_npy(arguments.out, cat(vectors, 0));
  return kOk;
}

ExitCode embed(const EmbedArguments& arguments) {
  const CallScope call(CallSite("", 0));  // errors are about what was given, not about lines of this file
  const NoGrad no_grad;
  if (arguments.architecture.empty() == arguments.model.empty()) {
    throw UsageError("embed needs --arch, for pictures, or --model, for texts");
  }
  return arguments.model.empty() ? embed_pictures(arguments) : embed_texts(arguments);
}

}  // namespace

void add_embed(CommandLine& line) {
  Subcommand command = line.subcommand("embed", "Say what pictures show or texts say as vectors, to compare or search by");
  const auto arguments = std::make_shared<EmbedArguments>();
  command.option("--arch", arguments->architecture, "A network for pictures: " + models::names_of_models<models::ImageEncoder>());
  command.option("--model", arguments->model, "A language model for texts: a folder, a GGUF file, or hf:OWNER/NAME");
  arguments->products.add_to(command);
  command.option("--pooling", arguments->pooling, "Of a text's tokens: mean, cls (the first) or last; absent: as the model says")
      .one_of({"mean", "cls", "last"});
  command.flag("--not-normalized", arguments->plain, "Texts' vectors as they are, not of length 1");
  command.option("--dimensions", arguments->dimensions, "Of a text's vector the first numbers alone, of length 1 again")
      .positive();
  command.option("--weights", arguments->weights,
                 "Its weights: safetensors or PyTorch; without it, those that were published, downloaded once");
  command.option("INPUT", arguments->inputs, "PNG or JPEG files; with --model, texts").required();
  command.option("--out", arguments->out, "A .npy file to write: f32 [inputs, numbers]");
  command.option("--device", arguments->device, "Where to compute: cpu, ref, ... or best").show_default();
  command.flag("--json", arguments->as_json, "One JSON object a line, with the vector");
  command.footer(
      "Examples:\n"
      "  lockstep embed --arch dinov2_vits14 --out vectors.npy *.jpg\n"
      "  lockstep embed --model all-MiniLM-L6-v2 --json \"a cat\" \"a dog\"");
  command.runs([arguments] { return embed(*arguments); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
