// open_onnx: a model as a file of tensors (its initialisers, under their names), and what `lockstep inspect` says of
// the rest: inputs, outputs, operators with their counts, and what cannot run here.
#include <map>
#include <memory>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/onnx.h>

#include "core/checked.h"
#include "io/formats.h"
#include "io/onnx/loaded.h"
#include "io/onnx/operator.h"
#include "io/onnx/plan.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace onnx {
namespace {

std::string shape_text(const ModelValue& value) {
  if (!value.shape) return "of any shape";
  std::string text = "[";
  for (const Dimension& dimension : *value.shape) {
    if (text.size() > 1) text += ", ";
    text += dimension.size             ? std::to_string(*dimension.size)
            : dimension.symbol.empty() ? "?"
                                       : std::string(dimension.symbol);
  }
  return text + "]";
}

std::vector<std::string> values_text(const std::vector<ModelValue>& values) {
  std::vector<std::string> lines;
  for (const ModelValue& value : values) {
    lines.push_back(fmt::format("{}  {} {}", value.name, type_text(value), shape_text(value)));
  }
  return lines;
}

void count_operators(const Model& model, std::map<std::string, std::size_t>& counts) {
  const auto add = [&](const ModelGraph& graph) {
    for (const ModelNode& node : graph.nodes) {
      ++counts[node.domain.empty() ? std::string(node.op) : fmt::format("{}::{}", node.domain, node.op)];
    }
  };
  for (const ModelGraph& graph : model.graphs) add(graph);
  for (const ModelFunction& function : model.functions) add(function.body);
}

class OnnxSource final : public TensorSource {
 public:
  explicit OnnxSource(os::FileBytes file) : folder_(folder_of(file.path)), model_(parse_model(std::move(file))) {
    program_ = plan_model(model_, nullptr);
    for (const ModelTensor* tensor : model_->graph->initialisers) {
      const std::optional<StoredType> type = stored_type_of(tensor->type);
      if (!type || tensor->dims.size() > static_cast<std::size_t>(kMaxRank)) continue;  // named by the problems
      const Shape shape{std::span<const std::int64_t>(tensor->dims)};
      const CheckedSize bytes = bytes_in_file(tensor->type, shape);
      if (!bytes.at_most(std::uint64_t{1} << 62)) {
        throw FormatError(
            fmt::format("{}: tensor {} has too many elements", model_->file.path, in_quotes(tensor->name)));
      }
      const std::uint64_t offset = tensor->external ? tensor->offset
                                   : tensor->raw    ? tensor->raw->offset
                                                    : tensor->message.offset;
      entries_.push_back(
          {.name = std::string(tensor->name), .type = *type, .shape = shape, .offset = offset, .bytes = bytes.value()});
      if (!dtype_of(tensor->type) && element_type_of(tensor->type)) {
        entries_.back().encoding = name_of_type(tensor->type);
      }
      tensors_.push_back(tensor);
    }
  }

  std::span<const TensorEntry> entries() const override { return entries_; }

  Metadata metadata() const override {
    Metadata metadata;
    for (const auto& [key, value] : model_->metadata) metadata.emplace(std::string(key), std::string(value));
    metadata.insert_or_assign("onnx.ir_version", model_->ir_version);
    if (!model_->producer.empty()) {
      const char* space = model_->producer_version.empty() ? "" : " ";
      metadata.insert_or_assign("onnx.producer",
                                fmt::format("{}{}{}", model_->producer, space, model_->producer_version));
    }
    std::vector<std::string> opsets;
    for (const auto& [domain, version] : model_->opsets) {
      opsets.push_back(fmt::format("{} {}", domain.empty() ? "ai.onnx" : domain, version));
    }
    metadata.insert_or_assign("onnx.opsets", std::move(opsets));
    metadata.insert_or_assign("onnx.inputs", values_text(program_->inputs));
    metadata.insert_or_assign("onnx.outputs", values_text(program_->outputs));
    std::map<std::string, std::size_t> counts;
    count_operators(*model_, counts);
    std::vector<std::string> operators;
    for (const auto& [name, count] : counts) operators.push_back(fmt::format("{} x{}", name, count));
    metadata.insert_or_assign("onnx.operators", std::move(operators));
    metadata.insert_or_assign("onnx.unsupported",
                              program_->problems.empty() ? std::string() : describe_problems(*program_));
    return metadata;
  }

  RawTensor elements(std::size_t index) const override {
    return onnx::elements_of(*tensors_[index], model_->file, &external_);
  }

  std::string notes() const override {
    std::string text;
    for (const std::string& line : values_text(program_->inputs)) text += "input   " + line + "\n";
    for (const std::string& line : values_text(program_->outputs)) text += "output  " + line + "\n";
    std::map<std::string, std::size_t> counts;
    count_operators(*model_, counts);
    std::string line;
    for (const auto& [name, count] : counts) {
      if (line.size() > 90) {
        text += "nodes   " + line + "\n";
        line.clear();
      }
      line += fmt::format("{}{} x{}", line.empty() ? "" : ", ", name, count);
    }
    if (!line.empty()) text += "nodes   " + line + "\n";
    for (const auto& [domain, version] : model_->opsets) {
      text += fmt::format("opset   {} {}\n", domain.empty() ? "ai.onnx" : domain, version);
    }
    return text + (program_->problems.empty() ? "every node runs here\n" : describe_problems(*program_) + "\n");
  }

 private:
  std::vector<std::string> problem_lines() const {
    std::vector<std::string> lines;
    for (const Problem& problem : program_->problems) {
      lines.push_back(
          fmt::format("{} x{}{}{}", problem.op, problem.nodes, problem.reason.empty() ? "" : "  ", problem.reason));
    }
    return lines;
  }

  std::string folder_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<Program> program_;
  std::vector<TensorEntry> entries_;
  std::vector<const ModelTensor*> tensors_;
  mutable ExternalFiles external_{.folder = folder_};
};

}  // namespace
}  // namespace onnx

std::unique_ptr<TensorSource> open_onnx(os::FileBytes file, const OpenOptions&) {
  return std::make_unique<onnx::OnnxSource>(std::move(file));
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
