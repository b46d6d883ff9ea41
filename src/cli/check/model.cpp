#include "cli/check/model.h"

#include <map>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/io/onnx.h>
#include <lockstep/random.h>

#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/model_inputs.h"
#include "cli/terminal.h"
#include "io/onnx/node_check.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

using io::onnx::NodeFinding;
using io::onnx::NodeOutcome;

// What the runs of an operator's nodes were on a device.
struct ModelCell {
  long equal = 0;
  long different = 0;
  long refused = 0;

  long runs() const { return equal + different + refused; }
};

struct FirstDifference {
  long place = 0;  // of the node's run, from 1
  std::string node;
  std::string detail;
};

// What is found while the model runs.
struct ModelFindings {
  explicit ModelFindings(std::size_t devices) : different(devices), refused(devices) {}

  void add(const NodeFinding& finding, std::size_t devices) {
    if (finding.device == 0) ++runs;
    const std::string op =
        (finding.node->domain.empty() ? "" : std::string(finding.node->domain) + ".") + std::string(finding.node->op);
    std::vector<ModelCell>& row = rows.try_emplace(op, devices).first->second;
    ModelCell& cell = row[finding.device];
    if (finding.outcome == NodeOutcome::equal) {
      ++cell.equal;
      return;
    }
    const bool differs = finding.outcome == NodeOutcome::different;
    ++(differs ? cell.different : cell.refused);
    FirstDifference& first = (differs ? different : refused)[finding.device];
    if (first.place == 0) first = {runs, io::onnx::NodeFacts(*finding.node).title(), finding.detail};
  }
  // Over all operators and devices.
  ModelCell sum() const {
    ModelCell all;
    for (const auto& [op, row] : rows) {
      for (const ModelCell& cell : row) {
        all.equal += cell.equal;
        all.different += cell.different;
        all.refused += cell.refused;
      }
    }
    return all;
  }
  bool clean() const { return sum().equal == sum().runs(); }

  long runs = 0;
  std::map<std::string, std::vector<ModelCell>> rows;
  std::vector<FirstDifference> different;  // by device
  std::vector<FirstDifference> refused;
};

Table::Cell cell_of(const ModelCell& cell) {
  if (cell.runs() == 0) return {"-", &Style::dim};
  if (cell.equal == cell.runs()) return {"equal", &Style::good};
  std::string text;
  if (cell.different > 0) text = fmt::format("{} differ", cell.different);
  if (cell.refused > 0) text += fmt::format("{}{} refused", text.empty() ? "" : ", ", cell.refused);
  return {text, &Style::bad};
}

void print_findings(const ModelFindings& found, const std::vector<Device>& devices) {
  const Style style;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    for (const auto& [what, first] :
         {std::pair("differs", found.different[d]), std::pair("is refused", found.refused[d])}) {
      if (first.place == 0) continue;
      print_line(fmt::format("{}: the first node that {} is number {}, {}: {}", devices[d].to_string(), what,
                             first.place, printable(first.node), printable_lines(first.detail)));
    }
  }
  Table table;
  std::vector<Table::Cell> head = {{"operator", &Style::bold}, {"runs", &Style::bold, true}};
  for (const Device& device : devices) head.push_back({device.to_string(), &Style::bold});
  table.add(std::move(head));
  for (const auto& [op, row] : found.rows) {
    std::vector<Table::Cell> line = {{printable(op)}, {std::to_string(row.front().runs()), nullptr, true}};
    for (const ModelCell& cell : row) line.push_back(cell_of(cell));
    table.add(std::move(line));
  }
  table.print(style, "");
  const ModelCell sum = found.sum();
  print_line(fmt::format("{} runs of nodes against cpu, each from cpu's inputs: {}", found.runs,
                         found.clean()
                             ? style.good("the same bits everywhere")
                             : style.bad(fmt::format("{} with other bits, {} refused", sum.different, sum.refused))));
}

void print_findings_json(const ModelFindings& found, const std::vector<Device>& devices) {
  const auto first_of = [](const FirstDifference& first) {
    return JsonObject()
        .add("run", json(first.place))
        .add("node", json(first.node))
        .add("detail", json(first.detail))
        .text();
  };
  for (std::size_t d = 0; d < devices.size(); ++d) {
    for (const auto& [op, row] : found.rows) {
      print_line(JsonObject()
                     .add("op", json(op))
                     .add("device", json(devices[d].to_string()))
                     .add("equal", json(row[d].equal))
                     .add("different", json(row[d].different))
                     .add("refused", json(row[d].refused))
                     .text());
    }
    JsonObject sum;
    sum.add("device", json(devices[d].to_string())).add("runs", json(found.runs));
    if (found.different[d].place > 0) sum.add("first_different", first_of(found.different[d]));
    if (found.refused[d].place > 0) sum.add("first_refused", first_of(found.refused[d]));
    print_line(sum.text());
  }
}

}  // namespace

ExitCode check_model(const ModelCheckOptions& options, const std::vector<Device>& devices) {
  FetchedOnnx file = fetched_onnx(options.model);
  file.options.device = Device{};
  const auto model = io::load_onnx(file.path, file.options);
  const NoGrad no_grad;
  manual_seed(options.seed);
  io::TensorMap inputs = given_inputs(*model, options.inputs);
  add_random_inputs(*model, options.sizes, options.seed, inputs);
  io::onnx::ValueMap values;
  for (const auto& [name, tensor] : inputs) values.emplace(name, tensor);
  ModelFindings found(devices.size());
  io::onnx::check_nodes(model->program(), std::move(values), devices,
                        [&](const NodeFinding& finding) { found.add(finding, devices.size()); });
  options.as_json ? print_findings_json(found, devices) : print_findings(found, devices);
  return found.clean() ? kOk : kFailure;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
