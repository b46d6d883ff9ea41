// The page that `lockstep demo` writes.
#include <bit>

#include <fmt/format.h>

#include <lockstep/version.h>

#include "cli/demo.h"
#include "cli/html.h"
#include "cli/json.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

constexpr const char* kHead = R"page(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>lockstep demo</title><style>
:root { color-scheme: light dark; --line: #8884; --good: #2e9e5b; --bad: #d63b3b; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
@media (max-width: 40rem) { body { margin: 1rem auto } th, td { padding-right: .5rem } code { font-size: 11px } }
h1 { font-size: 1.6rem; margin: 0 0 .3rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem } p { margin: .2rem 0 1rem }
table { border-collapse: collapse } th, td { padding: .25rem .9rem .25rem 0; text-align: left; border-bottom: 1px solid var(--line) }
th { font-weight: 500; color: #888 } code { font: 13px ui-monospace, monospace } .good { color: var(--good) } .bad { color: var(--bad) }
.pictures { display: flex; flex-wrap: wrap; gap: .8rem } figure { margin: 0; text-align: center; font-size: .8rem; line-height: 1.3; width: 84px }
figure img { width: 84px; height: 84px; image-rendering: pixelated; border-radius: .3rem; display: block; margin-bottom: .2rem }
.plot { display: flex; flex-wrap: wrap; gap: .8rem } .plot svg { max-width: 100%; height: auto; border-radius: .4rem }
.table { overflow-x: auto } p { overflow-wrap: anywhere } .verdict { font-size: 1.1rem; font-weight: 600 }
</style></head><body>
)page";

std::string verdict(bool equal) {
  return equal ? "<p class=\"verdict good\">Every device gave the same bits.</p>\n"
               : "<p class=\"verdict bad\">The devices differ. Please report this with the output of <code>lockstep "
                 "info</code>.</p>\n";
}

std::string yes_or_no(bool same) {
  return same ? "<span class=\"good\">yes</span>" : "<span class=\"bad\">NO</span>";
}

std::string figure(const io::Image& image, const std::string& answer, float probability, const std::string& truth) {
  return fmt::format("<figure><img src=\"{}\" alt=\"{}\"><b class=\"{}\">{}</b> {:.1f} %{}</figure>\n", data_uri(image),
                     escaped(truth), answer == truth ? "good" : "bad", escaped(answer), 100 * probability,
                     answer == truth ? "" : "<br>it is " + escaped(truth));
}

// A drawing for each panel: they stand side by side where there is room.
std::string plots(const std::vector<train::Panel>& panels) {
  std::string page = "<div class=\"plot\">\n";
  for (const train::Panel& panel : panels) page += train::plot_svg({panel});
  return page + "</div>\n";
}

std::string training_section(const TrainingDemo& demo) {
  std::string page = fmt::format(
      "<h2>A network trained here</h2>\n<p>LeNet, {} parameters, {} drawn digits, {} steps in {}: "
      "<b>{:.2f} %</b> of {} digits that it had not seen are right. Weights <code>{}</code></p>\n{}",
      demo.parameters, demo.examples, demo.fit.steps, duration_text(demo.fit.seconds), 100 * demo.fit.test.accuracy,
      demo.fit.test.examples, hex(demo.weights_hash), plots(train::training_panels(demo.fit.records)));
  page += "<p>Some of those digits; of the first 1000, wrong answers come first.</p>\n<div class=\"pictures\">\n";
  for (const Digit& digit : demo.digits) {
    page += figure(digit.image, std::to_string(digit.answer), digit.probability, std::to_string(digit.truth));
  }
  return page + "</div>\n";
}

std::string compared_section(const std::vector<ComparedTraining>& compared) {
  bool equal = true;
  std::string rows;
  for (const ComparedTraining& one : compared) {
    const bool same = one.same_as(compared.front());
    equal = equal && same;
    rows += fmt::format(
        "<tr><td><b>{}</b></td><td>{:.6f}</td><td><code>{}</code></td><td><code>{}</code></td><td>{}</td><td>{}</td></"
        "tr>\n",
        escaped(one.device.to_string()), one.loss, bits_text(one.loss), hex(one.weights_hash), yes_or_no(same),
        duration_text(one.seconds));
  }
  return fmt::format(
      "<h2>Its first {} steps on every device</h2>\n<p>Batches of {}. Compared are the losses of all steps and all "
      "weights.</p>\n"
      "<div class=\"table\"><table><tr><th>device</th><th>loss</th><th>its bits</th><th>hash of all weights</th><th>same "
      "bits</th><th>time</th></tr>\n{}</table></div>\n{}",
      kComparedSteps, kComparedBatch, rows, verdict(equal));
}

std::string pictures_section(const PictureDemo& demo) {
  std::string page =
      fmt::format("<h2>A network trained before</h2>\n<p>ResNet-8 on {} pictures.</p>\n<div class=\"pictures\">\n",
                  demo.pictures.size());
  for (std::size_t i = 0; i < demo.pictures.size() && !demo.results.empty(); ++i) {
    const Prediction& prediction = demo.results.front().predictions[i];
    const std::size_t best = prediction.top(1).front();
    page +=
        figure(demo.pictures[i].image, demo.labels.at(best), prediction.probabilities[best], demo.pictures[i].truth);
  }
  page +=
      "</div>\n<p></p><div class=\"table\"><table><tr><th>device</th><th>right</th><th>hash of all logits</th><th>same "
      "bits</th><th>time</th></tr>\n";
  for (const PictureResult& result : demo.results) {
    page += fmt::format("<tr><td><b>{}</b></td><td>{} of {}</td><td><code>{}</code></td><td>{}</td><td>{}</td></tr>\n",
                        escaped(result.device.to_string()), result.right, demo.pictures.size(), hex(result.hash),
                        yes_or_no(result.hash == demo.results.front().hash), duration_text(result.seconds));
  }
  return page + "</table></div>\n" + verdict(demo.equal());
}

}  // namespace

std::string duration_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", 1000 * seconds) : fmt::format("{:.2f} s", seconds);
}

std::string bits_text(float value) {
  return fmt::format("{:08x}", std::bit_cast<std::uint32_t>(value));
}

std::string demo_report(const PictureDemo& pictures, const TrainingDemo* training,
                        const std::vector<ComparedTraining>& compared) {
  std::string page = kHead;
  page += fmt::format("<h1>Lockstep {}</h1>\n<p>The same answer on every device, to the last bit.</p>\n", kVersion);
  if (training != nullptr) page += training_section(*training) + compared_section(compared);
  return page + pictures_section(pictures) + "</body></html>\n";
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
