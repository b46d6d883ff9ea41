// OnnxModel and load_onnx: a program with a module's face.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/io/onnx.h>

#include "core/checked.h"
#include "graph/captured.h"
#include "graph/make.h"
#include "io/onnx/execution.h"
#include "io/onnx/fixed.h"
#include "io/onnx/loaded.h"
#include "io/reading.h"
#include "nn/replays.h"

namespace lockstep {
inline namespace v0 {
namespace io {

UnsupportedError::~UnsupportedError() = default;

namespace onnx {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
}

std::string type_text(const ModelValue& value) {
  const std::string element = name_of_type(value.type);
  switch (value.kind) {
    case ValueKind::tensor: return value.type == 0 ? "unknown" : element;
    case ValueKind::sequence: return "sequence of " + element;
    case ValueKind::optional: return "optional " + element;
    case ValueKind::optional_sequence: return "optional sequence of " + element;
    case ValueKind::other: break;
  }
  return "unsupported";
}

namespace {

std::vector<OnnxValue> described(const std::vector<ModelValue>& values, const Program& program, bool inputs) {
  std::vector<OnnxValue> result;
  for (const ModelValue& value : values) {
    OnnxValue& entry = result.emplace_back();
    entry.name = std::string(value.name);
    entry.type = type_text(value);
    const std::optional<ElementType> type = element_type_of(value.type);
    if (value.kind == ValueKind::tensor && type) entry.dtype = type->dtype;
    entry.required = !(inputs && program.default_inputs.contains(value.name));
    if (!value.shape) continue;
    entry.shape.emplace();
    for (const Dimension& dimension : *value.shape)
      entry.shape->push_back({dimension.size, std::string(dimension.symbol)});
  }
  return result;
}

// NaN is not.
bool is_within(const Tensor& numbers, double least, double most) {
  if (numbers.numel() == 0) return true;
  const Tensor wide = is_float(numbers.dtype()) ? numbers : numbers.to(DType::i32);
  return all(logical_and(ge(wide, least), le(wide, most))).item<bool>();
}

// What a caller gives for an input of less than a byte, which is in the dtype that holds it, becomes of that type.
// Integers must be in its range, and floats, of which it has the nearest, too; that is read, which waits for the
// device.
Value as_stated(const ModelValue& stated, Value given, Device device) {
  const std::optional<ElementType> type = element_type_of(stated.type);
  if (stated.kind != ValueKind::tensor || !given.is_tensor() || !type || type->narrow == given.narrow()) return given;
  if (given.narrow() != Narrow::none) {
    throw DTypeError(
        fmt::format("input {} is not {}, as the model states", in_quotes(stated.name), name_of_type(stated.type)));
  }
  const Tensor numbers = given.tensor(device);
  const NarrowForm& form = form_of(type->narrow);
  if (!is_within(numbers, form.least, form.most)) {
    throw ValueError(fmt::format("input {} has numbers that {} has not: they are {} to {}", in_quotes(stated.name),
                                 name_of_type(stated.type), form.least, form.most));
  }
  return {to_narrow(numbers, type->narrow), type->narrow};
}

// An input against what the model says of it; `symbols` collects the sizes that names stand for.
void check_input(const ModelValue& stated, const Value& given, std::map<std::string_view, std::int64_t>& symbols) {
  const std::string title = fmt::format("input {}", in_quotes(stated.name));
  if (stated.kind != ValueKind::tensor || !given.is_tensor()) return;  // nodes check what they are given
  const std::optional<ElementType> type = element_type_of(stated.type);
  if (stated.type != 0 && (!type || type->dtype != given.dtype())) {
    throw DTypeError(
        fmt::format("{} is {}; the model takes {}", title, name_of(given.dtype()), name_of_type(stated.type)));
  }
  if (!stated.shape) return;
  const Shape& shape = given.shape();
  const auto mismatch = [&](std::string_view why) {
    throw ShapeError(fmt::format("{} is of shape {}: {}", title, shape.to_string(), why));
  };
  if (static_cast<std::size_t>(shape.rank()) != stated.shape->size()) {
    mismatch(fmt::format("the model takes {} dimensions", stated.shape->size()));
  }
  for (int d = 0; d < shape.rank(); ++d) {
    const Dimension& dimension = (*stated.shape)[static_cast<std::size_t>(d)];
    if (dimension.size && *dimension.size != shape[d]) mismatch(fmt::format("size {} must be {}", d, *dimension.size));
    // "?" is what some exporters write for a size without a name, however many there are.
    if (dimension.size || dimension.symbol.empty() || dimension.symbol == "?") continue;
    const auto [known, first] = symbols.emplace(dimension.symbol, shape[d]);
    if (!first && known->second != shape[d]) {
      mismatch(
          fmt::format("size {} is {}, which was {} in an input before", d, in_quotes(dimension.symbol), known->second));
    }
  }
}

std::vector<Value> constants_on(const LoadedProgram& loaded, Device device) {
  const Program& program = *loaded.program;
  const std::lock_guard lock(loaded.mutex);
  auto known = loaded.on_device.find(device);
  if (known == loaded.on_device.end()) {
    std::vector<Value> values;
    for (std::size_t i = 0; i < program.constants.size(); ++i) {
      const Value& value = program.constants[i].value;
      if (loaded.cells[i].defined() || !value.is_tensor() || device == Device{}) {
        values.push_back(loaded.cells[i].defined() ? Value() : value);
        continue;
      }
      const Tensor tensor = value.tensor(Device{}).to(device);
      values.push_back(value.host() == nullptr ? Value(tensor, value.narrow()) : Value(tensor, *value.host()));
    }
    known = loaded.on_device.emplace(device, std::move(values)).first;
  }
  std::vector<Value> values = known->second;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (loaded.cells[i].defined()) values[i] = Value(loaded.cells[i].tensor(), program.constants[i].value.narrow());
  }
  return values;
}

// An input whose only element, a number of integers or a truth, is known without waiting: models ask for it.
bool is_known(const Tensor& input) {
  const graph::Node& node = *graph::node_of(input);
  return input.numel() == 1 && input.rank() <= 1 && is_host(input.device()) && !is_float(input.dtype()) &&
         fits_host(input.dtype(), input.shape()) && graph::form_of(node.op) == graph::Form::given;
}

// What tells runs apart: shapes, dtypes, and the values of inputs that are known on the host.
std::string kind_of(const TensorMap& inputs) {
  std::string kind;
  for (const auto& [name, tensor] : inputs) {
    kind += name;
    nn::append_kind(kind, tensor);
    if (is_known(tensor)) nn::append_kind(kind, read_to_host(tensor).integers.front());
  }
  return kind;
}

// The others: what a run that comes again is given.
std::vector<Tensor> unknown_of(const TensorMap& inputs) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : inputs) {
    if (!is_known(tensor)) tensors.push_back(tensor);
  }
  return tensors;
}

}  // namespace

Device device_of(const LoadedProgram& loaded) {
  for (const Cell& cell : loaded.cells) {
    if (cell.defined()) return cell.device();
  }
  return loaded.loaded_on;
}

std::shared_ptr<Program> open_program(os::FileBytes file, bool map, const std::string& external_root) {
  const std::string path = file.path;
  return reading(path, [&] {
    ExternalFiles external{.folder = folder_of(path), .root = external_root, .map = map};
    return plan_model(parse_model(std::move(file)), &external);
  });
}

ValueMap run_program(const LoadedProgram& loaded, ValueMap inputs, Device device, bool training,
                     NodeObserver* observer) {
  const Program& program = *loaded.program;
  std::vector<Value> constants = constants_on(loaded, device);
  std::vector<Value> given;
  std::map<std::string_view, std::int64_t> symbols;
  for (const ModelValue& stated : program.inputs) {
    auto found = inputs.find(stated.name);
    if (found != inputs.end()) {
      check_input(stated, found->second, symbols);
      given.push_back(as_stated(stated, std::move(found->second), device));
      inputs.erase(found);
      continue;
    }
    const auto fallback = program.default_inputs.find(stated.name);
    if (fallback != program.default_inputs.end()) {
      given.push_back(constants[fallback->second]);
    } else if (stated.kind == ValueKind::optional || stated.kind == ValueKind::optional_sequence) {
      given.emplace_back();
    } else {
      throw ValueError(fmt::format("input {} is missing", in_quotes(stated.name)));
    }
  }
  if (!inputs.empty()) throw ValueError(fmt::format("the model has no input {}", in_quotes(inputs.begin()->first)));
  std::vector<Value> results = Execution(constants, device, training, observer).run(program.main, std::move(given));
  ValueMap outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    outputs.emplace(std::string(program.outputs[i].name), std::move(results[i]));
  }
  return outputs;
}

}  // namespace onnx

OnnxModel::OnnxModel(std::unique_ptr<onnx::LoadedProgram> program) : program_(std::move(program)) {
  onnx::register_cells(*this, *program_);
  onnx::find_fixed_nodes(*program_->program);
  if (program_->loaded_on != Device{}) to(program_->loaded_on);
  eval();
}
OnnxModel::~OnnxModel() = default;

TensorMap OnnxModel::run(const TensorMap& inputs, CallSite site) const {
  const CallScope call(site);
  const Device here = device();
  for (const auto& [name, tensor] : inputs) {
    if (!tensor.defined()) throw ValueError(fmt::format("input {} is undefined", in_quotes(name)));
    if (tensor.device() != here) {
      fail<DeviceError>(fmt::format("input {} is on another device than the model", in_quotes(name)),
                        {{"input", tensor}}, "move it, e.g. input.to(model.device())", site);
    }
  }
  nn::Replays& replays = program_->replays;
  const std::vector<Cell>& weights = program_->cells;
  if (training() || nn::looks_at_nodes(nn::tensors_of(inputs), weights)) {
    replays.clear();
    return run_nodes(inputs);
  }
  std::string kind = onnx::kind_of(inputs);
  const std::vector<Tensor> unknown = onnx::unknown_of(inputs);
  if (std::optional<TensorMap> outputs = replays.run(weights, kind, unknown)) return std::move(*outputs);
  if (!replays.wants(kind)) return run_nodes(inputs);
  graph::Capture capture(unknown, graph::Steers::allowed);
  TensorMap outputs = run_nodes(inputs);
  replays.keep(weights, std::move(kind), outputs, capture.finish(nn::tensors_of(outputs)));
  return outputs;
}

TensorMap OnnxModel::run_nodes(const TensorMap& inputs) const {
  const Device here = device();
  onnx::ValueMap values;
  for (const auto& [name, tensor] : inputs) {
    values.emplace(name, onnx::is_known(tensor) ? onnx::Value(onnx::read_to_host(tensor)) : onnx::Value(tensor));
  }
  TensorMap outputs;
  for (const auto& [name, value] : onnx::run_program(*program_, std::move(values), here, training())) {
    if (value.is_tensor()) outputs.emplace(name, value.tensor(here));
    if (!value.is_sequence()) continue;
    for (std::size_t i = 0; i < value.sequence().size(); ++i) {
      const onnx::Value& element = value.sequence()[i];
      if (element.is_tensor()) outputs.emplace(fmt::format("{}.{}", name, i), element.tensor(here));
    }
  }
  return outputs;
}

Tensor OnnxModel::forward(const Operand& x) const {
  const CallScope call("OnnxModel", x);
  std::vector<OnnxValue> stated = inputs();
  std::erase_if(stated, [](const OnnxValue& value) { return !value.required; });
  check<ValueError>(stated.size() == 1,
                    fmt::format("the model has {} inputs; give them by name to run()", stated.size()));
  const auto results = run({{stated.front().name, x.tensor()}});
  const auto first = results.find(outputs().front().name);
  check<ValueError>(first != results.end(), "the first output is no tensor; call run()");
  return first->second;
}

std::vector<OnnxValue> OnnxModel::inputs() const {
  return onnx::described(program_->program->inputs, *program_->program, true);
}
std::vector<OnnxValue> OnnxModel::outputs() const {
  return onnx::described(program_->program->outputs, *program_->program, false);
}
Device OnnxModel::device() const {
  return onnx::device_of(*program_);
}

std::unique_ptr<OnnxModel> load_onnx(const std::string& path, OnnxOptions options) {
  auto loaded = std::make_unique<onnx::LoadedProgram>();
  loaded->program = onnx::open_program(open_file(path, {.map = options.map}), options.map, options.external_root);
  loaded->loaded_on = options.device;
  onnx::refuse_problems(*loaded->program);
  if (options.fold) onnx::fold_constants(*loaded->program);
  return std::make_unique<OnnxModel>(std::move(loaded));
}

std::vector<std::string> onnx_external_files(const std::string& path) {
  return reading(path, [&] {
    const auto model = onnx::parse_model(open_file(path, {}));
    std::set<std::string> names;
    const auto add = [&](const onnx::ModelTensor* tensor) {
      if (tensor != nullptr && tensor->external) names.emplace(tensor->location);
    };
    const auto look = [&](const onnx::ModelGraph& graph) {
      for (const onnx::ModelTensor* tensor : graph.initialisers) add(tensor);
      for (const onnx::ModelNode& node : graph.nodes) {
        for (const onnx::Attribute* attribute : node.attributes) add(attribute->tensor);
      }
    };
    for (const onnx::ModelGraph& graph : model->graphs) look(graph);
    for (const onnx::ModelFunction& function : model->functions) look(function.body);
    return std::vector<std::string>(names.begin(), names.end());
  });
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
