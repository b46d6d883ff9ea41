// `lockstep demo`: one network on every device of this machine, another one that is trained here, and whether the bits
// agree.
#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include <lockstep/version.h>

#include "backends/backend.h"
#include "cli/command_line.h"
#include "cli/demo.h"
#include "cli/devices.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct DemoArguments {
  std::vector<std::string> devices;
  std::string out = "lockstep-demo";
  std::int64_t steps = 0;
  bool pictures_only = false;
  bool as_json = false;
};

// --- JSON -----------------------------------------------------------------------------------------------------------

void print_json(const PictureDemo& demo) {
  for (const PictureResult& result : demo.results) {
    JsonArray predictions;
    for (std::size_t i = 0; i < demo.pictures.size(); ++i) {
      const Prediction& prediction = result.predictions[i];
      const std::size_t best = prediction.top(1).front();
      predictions.add(JsonObject()
                          .add("image", json(demo.pictures[i].name))
                          .add("label", json(demo.labels.at(best)))
                          .add("probability", json(prediction.probabilities[best]))
                          .text());
    }
    print_line(JsonObject()
                   .add("device", json(result.device.to_string()))
                   .add("predictions", predictions.text())
                   .add("correct", json(result.right))
                   .add("logits_hash", json(hex(result.hash)))
                   .add("kernels", json(result.work.kernels))
                   .add("bytes_moved", json(result.work.bytes))
                   .add("seconds", json(result.seconds))
                   .text());
  }
  print_line(JsonObject()
                 .add("images", json(demo.pictures.size()))
                 .add("devices", json(demo.results.size()))
                 .add("equal", json(demo.equal()))
                 .text());
}

void print_json(const TrainingDemo& demo) {
  print_line(JsonObject()
                 .add("trained", json("lenet"))
                 .add("steps", json(demo.fit.steps))
                 .add("test_loss", json(demo.fit.test.loss))
                 .add("test_accuracy", json(demo.fit.test.accuracy))
                 .add("weights_hash", json(hex(demo.weights_hash)))
                 .add("seconds", json(demo.fit.seconds))
                 .text());
}

void print_json(const ComparedTraining& compared, bool equal) {
  print_line(JsonObject()
                 .add("device", json(compared.device.to_string()))
                 .add("steps", json(kComparedSteps))
                 .add("loss", json(compared.loss))
                 .add("loss_bits", json(bits_text(compared.loss)))
                 .add("weights_hash", json(hex(compared.weights_hash)))
                 .add("equal", json(equal))
                 .add("kernels", json(compared.work.kernels))
                 .add("bytes_moved", json(compared.work.bytes))
                 .add("seconds", json(compared.seconds))
                 .text());
}

// --- text -----------------------------------------------------------------------------------------------------------

void print_text(const PictureDemo& demo, const Style& style) {
  print_line(style.bold(fmt::format("Lockstep {}", kVersion)) +
             fmt::format(": one network, {} pictures, every device of this machine", demo.pictures.size()));
  print_line("");
  Table answers;
  std::vector<Table::Cell> header{{"picture", &Style::dim}};
  for (const PictureResult& result : demo.results) header.push_back({result.device.to_string(), &Style::dim});
  answers.add(header);
  for (std::size_t i = 0; i < demo.pictures.size(); ++i) {
    std::vector<Table::Cell> row{{printable(demo.pictures[i].name)}};
    for (const PictureResult& result : demo.results) {
      const Prediction& prediction = result.predictions[i];
      const std::size_t best = prediction.top(1).front();
      const bool right = demo.labels.at(best) == demo.pictures[i].truth;
      row.push_back({fmt::format("{:<10}{:6.2f} %", printable(demo.labels.at(best)),
                                 100.0 * static_cast<double>(prediction.probabilities[best])),
                     right ? nullptr : &Style::bad});
    }
    answers.add(row);
  }
  answers.print(style, "  ");
  print_line("");
  Table devices;
  devices.add({{"device", &Style::dim},
               {"right", &Style::dim},
               {"hash of all logits", &Style::dim},
               {"same bits", &Style::dim},
               {"time", &Style::dim, true}});
  for (const PictureResult& result : demo.results) {
    const bool same = result.hash == demo.results.front().hash;
    devices.add({{result.device.to_string(), &Style::bold},
                 {fmt::format("{} of {}", result.right, demo.pictures.size())},
                 {hex(result.hash)},
                 {same ? "yes" : "NO", same ? &Style::good : &Style::bad},
                 {duration_text(result.seconds), nullptr, true}});
  }
  devices.print(style, "  ");
  print_line("");
}

void print_text(const TrainingDemo& demo, const Style& style) {
  print_line(fmt::format("  {} of {} digits that it had not seen are right, after {} steps in {}",
                         style.bold(fmt::format("{:.2f} %", 100 * demo.fit.test.accuracy)), demo.fit.test.examples,
                         demo.fit.steps, duration_text(demo.fit.seconds)));
  print_line("");
}

void print_text(const std::vector<ComparedTraining>& compared, const Style& style) {
  print_line(fmt::format("Its first {} steps, with batches of {}, on every device", kComparedSteps, kComparedBatch));
  print_line("");
  Table table;
  table.add({{"device", &Style::dim},
             {"loss", &Style::dim},
             {"its bits", &Style::dim},
             {"hash of all weights", &Style::dim},
             {"same bits", &Style::dim},
             {"time", &Style::dim, true}});
  for (const ComparedTraining& one : compared) {
    const bool same = one.same_as(compared.front());
    table.add({{one.device.to_string(), &Style::bold},
               {fmt::format("{:.6f}", one.loss)},
               {bits_text(one.loss)},
               {hex(one.weights_hash)},
               {same ? "yes" : "NO", same ? &Style::good : &Style::bad},
               {duration_text(one.seconds), nullptr, true}});
  }
  table.print(style, "  ");
  print_line("");
}

void print_verdict(bool equal, const Style& style) {
  print_line(equal ? style.good("Every device gave the same bits.")
                   : style.bad("The devices differ. Please report this with the output of `lockstep info`."));
}

// --------------------------------------------------------------------------------------------------------------------

void write_report(const std::filesystem::path& path, std::string_view text) {
  os::AtomicFile file(path.string());
  file.write(text);
  file.commit();
}

void write_files(const std::filesystem::path& out, const PictureDemo& pictures, const TrainingDemo& training,
                 const std::vector<ComparedTraining>& compared) {
  const std::vector<train::Panel> panels = train::training_panels(training.fit.records);
  write_report(out / "plot.svg", train::plot_svg(panels));
  io::save_png((out / "plot.png").string(), train::plot_image(panels));
  for (std::size_t i = 0; i < training.digits.size(); ++i) {
    const Digit& digit = training.digits[i];
    io::save_png((out / fmt::format("digit-{:02}-is-{}-taken-for-{}.png", i, digit.truth, digit.answer)).string(),
                 io::resize(digit.image, 112, 112));
  }
  write_report(out / "report.html", demo_report(pictures, &training, compared));
}

std::vector<Device> demo_devices(const std::vector<std::string>& names) {
  std::vector<Device> devices;
  for (const std::string& name : names) {
    const Device device = chosen_device(name);
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
  }
  if (!names.empty()) return devices;
  devices = Device::all();
  std::erase_if(devices, is_software);
  return devices;
}

ExitCode demo(const DemoArguments& options) {
  const std::vector<Device> devices = demo_devices(options.devices);
  const Style style;
  const PictureDemo pictures = classify_pictures(devices);
  options.as_json ? print_json(pictures) : print_text(pictures, style);
  if (options.pictures_only) {
    if (!options.as_json) print_verdict(pictures.equal(), style);
    return pictures.equal() ? kOk : kFailure;
  }

  os::make_directories(options.out);
  if (!options.as_json) print_line("Another network, trained now on digits that are drawn here");
  std::fflush(stdout);
  const TrainingDemo training = train_on_digits({.steps = options.steps, .progress = !options.as_json});
  options.as_json ? print_json(training) : print_text(training, style);

  bool equal = pictures.equal();
  std::vector<ComparedTraining> compared;
  Progress progress(devices.size());
  for (const Device& device : devices) {
    progress.show(compared.size());
    compared.push_back(first_steps_on(device));
    equal = equal && compared.back().same_as(compared.front());
  }
  progress.clear();
  if (options.as_json) {
    for (const ComparedTraining& one : compared) print_json(one, one.same_as(compared.front()));
  } else {
    print_text(compared, style);
    print_verdict(equal, style);
  }
  write_files(options.out, pictures, training, compared);
  if (!options.as_json)
    print_line(fmt::format("See {}", printable((std::filesystem::path(options.out) / "report.html").string())));
  return equal ? kOk : kFailure;
}

}  // namespace

void add_demo(CommandLine& line) {
  Subcommand command = line.subcommand("demo", "Classify and train on every device, and compare the bits");
  const auto options = std::make_shared<DemoArguments>();
  command.option("--device", options->devices,
                 "cpu, ref, cuda:0, ...; several to compare them (default: all, without GPUs in software)");
  command.option("--out", options->out, "Folder for report.html, the plot and some digits").show_default();
  command.option("--steps", options->steps, "Stop training after so many steps; 0: when it is done")
      .not_negative()
      .show_default();
  command.flag("--pictures-only", options->pictures_only, "Classify only, write nothing");
  command.flag("--json", options->as_json, "JSON lines instead of text, and no progress");
  command.footer(
      "Examples:\n"
      "  lockstep demo\n"
      "  lockstep demo --device cpu --device vulkan:0\n"
      "Training takes less than a minute on two cores. Exit code 1 if two devices differ in one bit.");
  command.runs([options] { return demo(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
