// `lockstep detect`: the objects in pictures.
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include <lockstep/io/weights.h>
#include <lockstep/models/yolo.h>

#include "cli/classifier.h"
#include "cli/command_line.h"
#include "cli/detection_drawing.h"
#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "cli/user_message.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct DetectArguments {
  std::string weights;
  std::string labels;
  std::vector<std::string> pictures;
  std::optional<double> confidence;
  std::optional<double> iou;
  int most = models::DetectOptions{}.most;
  int size = models::DetectOptions{}.size;
  std::string output;
  std::string device = "best";
  bool as_json = false;
};

std::vector<std::string> labels_for(const DetectArguments& arguments, std::int64_t classes) {
  std::vector<std::string> labels;
  if (!arguments.labels.empty()) {
    labels = read_labels(fetched(arguments.labels));
    if (labels.size() != static_cast<std::size_t>(classes)) {
      throw ValueError(
          fmt::format("{}: {} labels for a network of {} classes", arguments.labels, labels.size(), classes));
    }
  } else if (classes == static_cast<std::int64_t>(models::coco_labels().size())) {
    labels = models::coco_labels();
  } else {
    for (std::int64_t i = 0; i < classes; ++i) labels.push_back(fmt::format("class {}", i));
  }
  return labels;
}

std::string json_of_detection(const models::Detection& found, const std::vector<std::string>& labels) {
  JsonArray box;
  for (const float side : {found.x0, found.y0, found.x1, found.y1}) box.add(json(side));
  return JsonObject()
      .add("label", json(labels[static_cast<std::size_t>(found.label)]))
      .add("index", json(found.label))
      .add("score", json(found.score))
      .add("box", box.text())
      .text();
}

void report_objects(const DetectArguments& arguments, const std::string& name,
                    const std::vector<models::Detection>& objects, const std::vector<std::string>& labels) {
  if (arguments.as_json) {
    JsonArray entries;
    for (const models::Detection& found : objects) entries.add(json_of_detection(found, labels));
    print_line(JsonObject().add("image", json(name)).add("objects", entries.text()).text());
    return;
  }
  const Style style;
  print_line(fmt::format("{}  {} {}", style.bold(printable(name)), objects.size(),
                         objects.size() == 1 ? "object" : "objects"));
  Table table;
  for (const models::Detection& found : objects) {
    table.add({{printable(labels[static_cast<std::size_t>(found.label)])},
               {fmt::format("{:.1f} %", 100.0 * static_cast<double>(found.score)), nullptr, true},
               {fmt::format("{:.0f},{:.0f} to {:.0f},{:.0f}", found.x0, found.y0, found.x1, found.y1), &Style::dim}});
  }
  table.print(style, "  ");
}

ExitCode detect_objects(const DetectArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const CallScope call(CallSite("", 0));  // errors are about what was given, not about lines of this file
  if (!arguments.output.empty() && arguments.pictures.size() > 1) {
    throw UsageError("--output is for one picture: several would overwrite each other");
  }
  models::DetectOptions options{.most = arguments.most, .size = arguments.size};
  if (arguments.confidence) options.confidence = *arguments.confidence;
  if (arguments.iou) options.iou = *arguments.iou;
  const Device device = chosen_device(arguments.device);
  const auto model = models::YoloV8::load(io::load_weights(fetched(arguments.weights)), device);
  const std::vector<std::string> labels = labels_for(arguments, model->classes());
  std::size_t failed = 0;
  std::size_t count = 0;
  Progress progress(arguments.pictures.size());
  for (const std::string& path : arguments.pictures) {
    try {
      const io::Image picture = io::load_image(path, {.upright = true});
      const std::vector<models::Detection> objects = models::detect(*model, picture, options);
      if (!arguments.output.empty()) io::save_png(arguments.output, draw_detections(picture, objects, labels));
      progress.clear();
      report_objects(arguments, path, objects, labels);
      count += objects.size();
    } catch (const FormatError& error) {
      ++failed;
      progress.clear();
      fmt::print(stderr, "lockstep: {}\n", printable_lines(without_sources(error.what())));
    } catch (const IoError& error) {
      ++failed;
      progress.clear();
      fmt::print(stderr, "lockstep: {}\n", printable_lines(without_sources(error.what())));
    }
    progress.show(failed + 1);
  }
  progress.clear();
  if (!arguments.as_json) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::string text =
        fmt::format("{} {} in {} {}", count, count == 1 ? "object" : "objects", arguments.pictures.size() - failed,
                    arguments.pictures.size() - failed == 1 ? "picture" : "pictures");
    print_line(Style().bold(text) + Style().dim(fmt::format(", {:.2f} s", seconds)));
  }
  return failed > 0 ? kFailure : kOk;
}

}  // namespace

void add_detect(CommandLine& line) {
  Subcommand command = line.subcommand("detect", "Find the objects in pictures, by YOLOv8");
  const auto arguments = std::make_shared<DetectArguments>();
  command
      .option("--weights", arguments->weights,
              "The state dict of yolov8n, s, m, l or x: safetensors or .pt; hf:OWNER/NAME/FILE is downloaded once")
      .required();
  command.option("PICTURE", arguments->pictures, "PNG or JPEG files").required();
  command.option("--labels", arguments->labels,
                 "A file with the name of one class a line; without it COCO's, where the network has 80");
  command.option("--confidence", arguments->confidence, "Scores must exceed it (0.25)");
  command.option("--iou", arguments->iou, "Of boxes of one class that overlap more, the best is kept (0.7)");
  command.option("--most", arguments->most, "Objects of one picture").show_default().range(1, 100000);
  command.option("--size", arguments->size, "Pixels of the longer side inside the network, a multiple of 32")
      .show_default()
      .range(32, 1 << 14);
  command.option("-o,--output", arguments->output, "PNG to write: the picture with the boxes");
  command.option("--device", arguments->device, "Where to compute: cpu, ref, ... or best").show_default();
  command.flag("--json", arguments->as_json, "One JSON object a line instead of text");
  command.footer(
      "Examples:\n"
      "  lockstep detect --weights yolov8n.safetensors -o boxes.png street.jpg\n"
      "  lockstep detect --weights yolov8n.safetensors --confidence 0.5 --json *.jpg\n"
      "A picture that cannot be read is reported, the others are looked at, and the exit code is 1.");
  command.runs([arguments] { return detect_objects(*arguments); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
