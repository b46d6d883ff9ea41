// `lockstep segment`: the mask of what was pointed at, or all masks of a picture.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include <lockstep/io/weights.h>
#include <lockstep/models/sam_masks.h>

#include "cli/command_line.h"
#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/segment_prompt.h"
#include "cli/terminal.h"
#include "core/hash.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct SegmentArguments {
  std::string weights;
  std::string image;
  std::vector<std::string> points;
  std::string box;
  std::string mask;
  bool single = false;
  bool everything = false;
  std::string output;
  std::string overlay;
  std::string embedding;
  std::string device = "best";
  bool as_json = false;
  int points_per_side = models::GenerateMasksOptions{}.points_per_side;
  std::optional<double> least_iou;
  std::optional<double> least_stability;
};

void check_segment_usage(const SegmentArguments& options) {
  const bool has_prompt = !options.points.empty() || !options.box.empty() || !options.mask.empty();
  if (options.everything && (has_prompt || options.single)) {
    throw UsageError("--everything takes no --point, --box, --mask-in or --single-mask");
  }
  if (!options.everything && !has_prompt) {
    throw UsageError("what to segment? Give --point, --box, --mask-in or --everything");
  }
}

// From the file if there is one, which must be of these weights and this picture; else computed, and kept there.
models::SamEmbedding embedding_of(const SegmentArguments& options, const models::Sam& model, const io::Image& picture) {
  if (options.embedding.empty()) return model.embed(picture);
  const std::uint64_t weights = hash_bytes(os::map_file(options.weights).bytes);
  if (std::filesystem::exists(options.embedding)) {
    return models::load_sam_embedding(options.embedding, model, weights, models::picture_hash(picture));
  }
  models::SamEmbedding embedding = model.embed(picture);
  models::save_sam_embedding(options.embedding, embedding, weights);
  return embedding;
}

std::vector<models::SamMask> all_masks(const SegmentArguments& options, const models::Sam& model,
                                       const models::SamEmbedding& embedding) {
  models::GenerateMasksOptions how{.points_per_side = options.points_per_side};
  if (options.least_iou) how.least_iou = *options.least_iou;
  if (options.least_stability) how.least_stability = *options.least_stability;
  const auto side = static_cast<std::size_t>(options.points_per_side);
  Progress progress(side * side);
  how.progress = [&](std::size_t done, std::size_t) { progress.show(done); };
  return models::generate_masks(model, embedding, how);
}

std::string json_of_mask(const models::SamMask& mask) {
  JsonArray box;
  for (const int side : {mask.box.x0, mask.box.y0, mask.box.x1, mask.box.y1}) box.add(json(side));
  JsonArray size;
  size.add(json(mask.runs.height)).add(json(mask.runs.width));
  JsonArray counts;
  for (const std::uint32_t count : mask.runs.counts) counts.add(json(count));
  JsonObject object;
  object.add("iou", json(mask.iou)).add("area", json(mask.area)).add("box", box.text());
  object.add("rle", JsonObject().add("size", size.text()).add("counts", counts.text()).text());
  if (mask.point) {
    JsonArray point;
    point.add(json(mask.point->x)).add(json(mask.point->y));
    object.add("stability", json(mask.stability)).add("point", point.text());
  }
  return object.text();
}

void report(const SegmentArguments& options, const std::vector<models::SamMask>& masks,
            const models::SamEmbedding& embedding, std::optional<std::size_t> best, double seconds) {
  const std::string hash = hex(embedding.features.hash());
  if (options.as_json) {
    JsonArray entries;
    for (const models::SamMask& mask : masks) entries.add(json_of_mask(mask));
    print_line(JsonObject().add("masks", entries.text()).add("embedding_hash", json(hash)).text());
    return;
  }
  const Style style;
  Table table;
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const models::SamMask& mask = masks[i];
    const models::PixelBox& box = mask.box;
    table.add({{fmt::format("mask {}", i + 1), best == i ? &Style::bold : nullptr},
               {fmt::format("IoU {:.3f}", mask.iou), nullptr, true},
               {fmt::format("{} pixels", mask.area), nullptr, true},
               {fmt::format("{},{} to {},{}", box.x0, box.y0, box.x1, box.y1)},
               {best == i ? "in " + printable(options.output) : "", &Style::dim}});
  }
  table.print(style, "");
  const std::string count = fmt::format("{} {}", masks.size(), masks.size() == 1 ? "mask" : "masks");
  print_line(fmt::format("{}, embedding {}{}", style.bold(count), hash, style.dim(fmt::format(", {:.2f} s", seconds))));
}

ExitCode segment(SegmentArguments options) {
  const auto start = std::chrono::steady_clock::now();
  const CallScope call(CallSite("", 0));  // errors are about what was given, not about lines of this file
  check_segment_usage(options);
  models::SamPrompt prompt;
  for (const std::string& point : options.points) prompt.points.push_back(parse_point(point));
  if (!options.box.empty()) prompt.box = parse_box(options.box);
  const Device device = chosen_device(options.device);
  const io::Image picture = io::load_image(options.image, {.upright = true});
  options.weights = fetched(options.weights);
  const std::unique_ptr<models::Sam> model = models::Sam::load(io::load_weights(options.weights), device);
  const models::SamFrame frame = model->frame(picture.width, picture.height);
  // A prompt that makes no sense is refused before seconds go into the embedding.
  if (!options.mask.empty()) prompt.mask = load_mask_prompt(options.mask, *model, frame);
  if (!options.everything) model->prepare(frame, prompt);

  const models::SamEmbedding embedding = embedding_of(options, *model, picture);
  std::vector<models::SamMask> masks;
  std::optional<std::size_t> best;
  if (options.everything) {
    masks = all_masks(options, *model, embedding);
    io::save_png(options.output, models::draw_segments(picture.width, picture.height, masks));
  } else {
    const models::SamPrediction found = model->predict(embedding, prompt, {.multimask = !options.single});
    masks = models::masks_of(found);
    best = found.best();
    io::save_png(options.output, models::draw_mask(masks[*best]));
  }
  if (!options.overlay.empty()) {
    const std::vector<models::SamMask> drawn = best ? std::vector{masks[*best]} : masks;
    io::save_png(options.overlay, models::draw_overlay(picture, drawn, prompt));
  }
  report(options, masks, embedding, best,
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return kOk;
}

}  // namespace

void add_segment(CommandLine& line) {
  Subcommand command = line.subcommand("segment", "Cut out what is pointed at, by Segment Anything or MobileSAM");
  const auto options = std::make_shared<SegmentArguments>();
  command
      .option("--weights", options->weights,
              "mobile_sam.pt, sam_vit_b.pth, ... a safetensors file of the same keys, or "
              "hf:OWNER/NAME/FILE, which is downloaded once")
      .required();
  command.option("IMAGE", options->image, "A PNG or JPEG file").required();
  command.option("--point", options->points, "X,Y in pixels of the picture; X,Y,0 for what is not part of it")
      .one_value_each();
  command.option("--box", options->box, "X0,Y0,X1,Y1 around it");
  command.option("--mask-in", options->mask,
                 "A first mask: a black and white picture of the same size, or logits (.npy, safetensors)");
  command.flag("--single-mask", options->single, "One mask, for prompts that are clear, instead of three");
  command.flag("--everything", options->everything, "All masks of the picture, each in a colour of its own");
  command.option("-o,--output", options->output, "PNG to write: the mask with the best predicted IoU").required();
  command.option("--overlay", options->overlay, "PNG to write: the picture with the masks and the prompt");
  command.option(
      "--embedding", options->embedding,
      "Keeps what the network knows of the picture: written if absent, else read, so that masks take no time");
  command.option("--device", options->device, "Where to compute: cpu, ref, ... or best").show_default();
  command.option("--points-per-side", options->points_per_side, "Of --everything: the grid of points that are tried")
      .show_default()
      .range(1, 1024);
  command.option("--least-iou", options->least_iou, "Of --everything: masks must exceed it (0.88)");
  command.option("--least-stability", options->least_stability, "Of --everything: masks must reach it (0.95)");
  command.flag("--json", options->as_json, "JSON instead of text");
  command.footer(
      "Examples:\n"
      "  lockstep segment --weights mobile_sam.pt --point 400,300 -o mask.png --overlay overlay.png photo.jpg\n"
      "  lockstep segment --weights mobile_sam.pt --box 40,60,400,380 --single-mask -o mask.png photo.jpg\n"
      "  lockstep segment --weights mobile_sam.pt --everything -o segments.png photo.jpg");
  command.runs([options] { return segment(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
