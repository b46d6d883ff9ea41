#include "io/onnx/plan.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/onnx.h>

#include "core/checked.h"
#include "io/onnx/operators.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

constexpr std::size_t kMostPlannedNodes = 262'144;
constexpr int kDeepestCalls = 64;

using AttributesByName = std::map<std::string_view, const Attribute*>;

// Where names are looked up: a graph within its surroundings, or a function's body, which sees nothing outside.
struct Scope {
  Plan* plan = nullptr;
  Scope* outer = nullptr;
  const OpsetImports* opsets = nullptr;
  const AttributesByName* call = nullptr;  // in a function's body: the attributes of its call
  std::map<std::string_view, int> names = {};
  std::map<int, std::size_t> constants = {};  // by slot: of initialisers
  int depth = 0;
};

// Inputs that take weights, by operator: what of them are parameters.
bool takes_weight(std::string_view op, std::size_t input) {
  struct Row {
    std::string_view op;
    std::size_t first, last;
  };
  static constexpr std::array kRows = {
      Row{"Conv", 1, 2},
      Row{"ConvTranspose", 1, 2},
      Row{"DeformConv", 1, 3},
      Row{"Gemm", 0, 2},
      Row{"MatMul", 0, 1},
      Row{"BatchNormalization", 1, 2},
      Row{"LayerNormalization", 1, 2},
      Row{"GroupNormalization", 1, 2},
      Row{"InstanceNormalization", 1, 2},
      Row{"RMSNormalization", 1, 1},
      Row{"LSTM", 1, 3},
      Row{"GRU", 1, 3},
      Row{"RNN", 1, 3},
      Row{"PRelu", 1, 1},
      Row{"Add", 0, 1},
      Row{"Sub", 0, 1},
      Row{"Mul", 0, 1},
      Row{"Div", 0, 1},
      Row{"Gather", 0, 0},
      Row{"Einsum", 0, 1},
      Row{"Transpose", 0, 0},
      Row{"SkipLayerNormalization", 2, 4},
  };
  return std::any_of(kRows.begin(), kRows.end(),
                     [&](const Row& row) { return row.op == op && row.first <= input && input <= row.last; });
}

class Planner {
 public:
  Planner(std::shared_ptr<const Model> model, ExternalFiles* external)
      : program_(std::make_shared<Program>()), model_(*model), external_(external) {
    program_->model = std::move(model);
  }

  std::shared_ptr<Program> plan() {
    index_functions();
    const ModelGraph& graph = *model_.graph;
    Scope scope{.plan = &program_->main, .opsets = &model_.opsets};
    initialise(scope, graph);
    for (const ModelValue& input : graph.inputs) {
      const auto known = scope.names.find(input.name);
      int slot = kNoSlot;
      if (known == scope.names.end()) {
        slot = define(scope, input.name);
      } else {
        slot = known->second;
        if (!defaults_.emplace(input.name, slot).second) twice(input.name);
      }
      const auto type = element_type_of(input.type);
      if (input.kind == ValueKind::tensor && type) note_narrow(scope, slot, type->narrow);
      program_->main.inputs.push_back(slot);
      program_->inputs.push_back(input);
    }
    nodes_of(scope, graph);
    outputs_of(scope, graph);
    program_->outputs = graph.outputs;
    finish(program_->main);
    collect_problems(program_->main);
    note_defaults();
    return std::move(program_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw FormatError(fmt::format("{}: {}", model_.file.path, what));
  }
  [[noreturn]] void twice(std::string_view name) const {
    fail(fmt::format("the value {} is made twice", in_quotes(name)));
  }

  using FunctionKey = std::tuple<std::string_view, std::string_view, std::string_view>;
  void index_functions() {
    for (const ModelFunction& function : model_.functions) {
      if (!functions_.emplace(FunctionKey{function.domain, function.name, function.overload}, &function).second) {
        fail(fmt::format("the function {} is there twice", in_quotes(function.name)));
      }
    }
  }

  int define(Scope& scope, std::string_view name) {
    const int slot = scope.plan->slots++;
    if (!scope.names.emplace(name, slot).second) twice(name);
    return slot;
  }

  // The slot of a name in this scope's frame, captured from outside if need be; kNoSlot if there is no such value yet.
  int find(Scope& scope, std::string_view name) {
    const auto known = scope.names.find(name);
    if (known != scope.names.end()) return known->second;
    if (scope.outer == nullptr) return kNoSlot;
    const int outer = find(*scope.outer, name);
    if (outer == kNoSlot) return kNoSlot;
    const int inner = scope.plan->slots++;
    scope.plan->captures.push_back({outer, inner});
    note_narrow(scope, inner, narrow_of(*scope.outer, outer));
    scope.names.emplace(name, inner);
    return inner;
  }

  void initialise(Scope& scope, const ModelGraph& graph) {
    if (!graph.sparse_initialisers.empty()) {
      throw UnsupportedError(fmt::format("{}: the initialiser {} is a sparse tensor, which is not supported",
                                         model_.file.path, in_quotes(graph.sparse_initialisers.front())));
    }
    for (const ModelTensor* tensor : graph.initialisers) {
      if (tensor->name.empty()) fail("an initialiser has no name");
      const int slot = define(scope, tensor->name);
      scope.plan->constants.push_back({slot, program_->constants.size()});
      scope.constants.emplace(slot, program_->constants.size());
      if (const auto type = element_type_of(tensor->type)) note_narrow(scope, slot, type->narrow);
      program_->constants.push_back({.name = std::string(tensor->name), .value = load(*tensor)});
    }
  }

  Value load(const ModelTensor& tensor) {
    if (!element_type_of(tensor.type)) {
      unsupported_types_.push_back(name_of_type(tensor.type));
      return {};
    }
    if (tensor.external && external_ == nullptr) return {};
    return settled(value_of(tensor, model_.file, external_));
  }

  void nodes_of(Scope& scope, const ModelGraph& graph) {
    for (const ModelNode& node : graph.nodes) add(scope, node);
  }
  void outputs_of(Scope& scope, const ModelGraph& graph) {
    for (const ModelValue& output : graph.outputs) {
      const int slot = find(scope, output.name);
      if (slot == kNoSlot) fail(fmt::format("the output {} is made by no node", in_quotes(output.name)));
      scope.plan->outputs.push_back(slot);
    }
  }

  int version_of(const Scope& scope, std::string_view domain) const {
    const auto found = scope.opsets->find(domain);
    if (found != scope.opsets->end()) return static_cast<int>(found->second);
    const auto of_model = model_.opsets.find(domain);
    return of_model == model_.opsets.end() ? 1 : static_cast<int>(of_model->second);
  }

  void add(Scope& scope, const ModelNode& node) {
    if (++program_->nodes > kMostPlannedNodes) fail("has too many nodes once functions are in place of their calls");
    const int version = version_of(scope, node.domain);
    const Operator* row = find_operator(node.domain, node.op, version);
    if (row == nullptr) {
      const auto function = functions_.find(FunctionKey{node.domain, node.op, node.overload});
      if (function != functions_.end()) return add_call(scope, node, *function->second);
    }
    PlannedNode planned{.domain = node.domain, .op = node.op, .name = node.name, .version = version, .row = row};
    planned.program = program_.get();
    if (planned.name.empty() && !node.outputs.empty()) planned.name = node.outputs.front();
    for (const std::string_view input : node.inputs) planned.inputs.push_back(resolve(scope, node, input));
    while (!planned.inputs.empty() && planned.inputs.back() == kNoSlot) planned.inputs.pop_back();
    planned.attributes = attributes_of(scope, node);
    for (const Attribute* attribute : planned.attributes) {
      if (attribute->graph == nullptr) continue;
      auto body = std::make_unique<Plan>();
      plan_body(scope, *attribute->graph, *body);
      for (const Capture& capture : body->captures) planned.captured.push_back(capture.outer);
      planned.graphs.emplace_back(attribute->name, std::move(body));
    }
    for (const std::string_view output : node.outputs) {
      planned.outputs.push_back(output.empty() ? kNoSlot : define(scope, output));
    }
    if (row == nullptr) {
      planned.problem = knows_operator(node.domain, node.op) ? "this version is not supported" : "no such operator";
    } else if (row->check != nullptr) {
      planned.problem = row->check(NodeFacts(planned));
    }
    if (planned.problem.empty()) check_narrow(scope, planned);
    for (std::size_t i = 0; i < planned.inputs.size(); ++i) note_consumer(scope, planned, i);
    scope.plan->nodes.push_back(std::move(planned));
  }

  // Which values have less than a byte for an element, as far as that is known before a run.
  void note_narrow(const Scope& scope, int slot, Narrow type) {
    if (slot != kNoSlot && type != Narrow::none) narrow_[{scope.plan, slot}] = type;
  }
  Narrow narrow_of(const Scope& scope, int slot) const {
    const auto found = narrow_.find({scope.plan, slot});
    return found == narrow_.end() ? Narrow::none : found->second;
  }
  void check_narrow(const Scope& scope, PlannedNode& node) {
    std::vector<Narrow> inputs;
    for (const int slot : node.inputs) inputs.push_back(narrow_of(scope, slot));
    const bool given = std::any_of(inputs.begin(), inputs.end(), [](Narrow type) { return type != Narrow::none; });
    if (given && node.row->narrow == NarrowInputs::refused) {
      node.problem = kNarrowRefused;
    } else if (node.row->narrow_output != nullptr && !node.outputs.empty()) {
      note_narrow(scope, node.outputs.front(), node.row->narrow_output(NodeFacts(node), inputs));
    } else if (given && node.row->narrow == NarrowInputs::kept) {
      for (const int slot : node.outputs) note_narrow(scope, slot, inputs.front());
    }
  }

  int resolve(Scope& scope, const ModelNode& node, std::string_view input) {
    if (input.empty()) return kNoSlot;
    const int slot = find(scope, input);
    const bool left_out = scope.names.contains(input);  // by the call of a function
    if (slot == kNoSlot && !left_out) {
      fail(fmt::format("node {} ({}) reads {}, which nothing before it makes", in_quotes(node.name), in_quotes(node.op),
                       in_quotes(input)));
    }
    return slot;
  }

  void plan_body(Scope& outer, const ModelGraph& graph, Plan& plan) {
    Scope scope{.plan = &plan, .outer = &outer, .opsets = outer.opsets, .call = outer.call, .depth = outer.depth};
    for (const ModelValue& input : graph.inputs) plan.inputs.push_back(define(scope, input.name));
    initialise(scope, graph);
    nodes_of(scope, graph);
    outputs_of(scope, graph);
    finish(plan);
  }

  // The attributes of a node; in a function's body, references replaced by what the call says, or left out.
  std::vector<const Attribute*> attributes_of(const Scope& scope, const ModelNode& node) {
    std::vector<const Attribute*> result;
    for (const Attribute* attribute : node.attributes) {
      if (attribute->refers_to.empty()) {
        result.push_back(attribute);
        continue;
      }
      if (scope.call == nullptr) fail(fmt::format("attribute {} refers to a function's", in_quotes(attribute->name)));
      const auto given = scope.call->find(attribute->refers_to);
      if (given == scope.call->end()) continue;
      Attribute& renamed = program_->attributes.emplace_back(*given->second);
      renamed.name = attribute->name;
      result.push_back(&renamed);
    }
    return result;
  }

  // A function's body in place of its call, in the caller's frame.
  void add_call(Scope& scope, const ModelNode& node, const ModelFunction& function) {
    if (scope.depth == kDeepestCalls) fail(fmt::format("functions call each other more than {} deep", kDeepestCalls));
    if (node.inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size()) {
      fail(fmt::format("node {} gives function {} too many inputs or outputs", in_quotes(node.name),
                       in_quotes(function.name)));
    }
    AttributesByName call;
    for (const Attribute* attribute : function.defaults) call[attribute->name] = attribute;
    for (const Attribute* attribute : attributes_of(scope, node)) call[attribute->name] = attribute;
    Scope body{.plan = scope.plan, .opsets = &function.opsets, .call = &call, .depth = scope.depth + 1};
    for (std::size_t i = 0; i < function.inputs.size(); ++i) {
      const int slot = i < node.inputs.size() ? resolve(scope, node, node.inputs[i]) : kNoSlot;
      if (!body.names.emplace(function.inputs[i], slot).second) twice(function.inputs[i]);
    }
    nodes_of(body, function.body);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const auto made = body.names.find(function.outputs[i]);
      if (made == body.names.end())
        fail(fmt::format("function {} does not make its outputs", in_quotes(function.name)));
      if (!node.outputs[i].empty() && !scope.names.emplace(node.outputs[i], made->second).second)
        twice(node.outputs[i]);
    }
  }

  // Which node reads an initialiser first, and whether as a weight.
  void note_consumer(const Scope& scope, const PlannedNode& node, std::size_t input) {
    const auto found = scope.constants.find(node.inputs[input]);
    if (found == scope.constants.end()) return;
    Constant& constant = program_->constants[found->second];
    if (constant.consumer_op.empty()) {
      constant.consumer = std::string(node.name);
      constant.consumer_op = node.op;
      constant.consumer_input = input;
    }
    if (!constant.value.is_tensor() || constant.value.narrow() != Narrow::none) return;
    const bool has_sizes = is_float(constant.value.dtype()) && constant.value.shape().rank() > 0;
    if (has_sizes && takes_weight(node.op, input)) constant.role = Role::parameter;
    const bool is_statistic = node.op == "BatchNormalization" && (input == 3 || input == 4);
    if (has_sizes && is_statistic && constant.role == Role::constant) constant.role = Role::buffer;
  }

  // Leaves out what no output needs, and notes after which node a value may go.
  void finish(Plan& plan) {
    std::vector<bool> needed(static_cast<std::size_t>(plan.slots), false);
    for (const int slot : plan.outputs) needed[static_cast<std::size_t>(slot)] = true;
    std::vector<PlannedNode> kept;
    std::vector<bool> read = needed;
    for (auto node = plan.nodes.rbegin(); node != plan.nodes.rend(); ++node) {
      const bool lives = std::any_of(node->outputs.begin(), node->outputs.end(), [&](int slot) {
        return slot != kNoSlot && needed[static_cast<std::size_t>(slot)];
      });
      if (!lives) continue;
      for (int& slot : node->outputs) {
        if (slot != kNoSlot && !needed[static_cast<std::size_t>(slot)]) slot = kNoSlot;
      }
      for (const std::vector<int>* slots : {&node->inputs, &node->captured}) {
        for (const int slot : *slots) {
          if (slot == kNoSlot) continue;
          needed[static_cast<std::size_t>(slot)] = true;
          if (read[static_cast<std::size_t>(slot)]) continue;
          read[static_cast<std::size_t>(slot)] = true;
          node->last_uses.push_back(slot);
        }
      }
      kept.push_back(std::move(*node));
    }
    std::reverse(kept.begin(), kept.end());
    plan.nodes = std::move(kept);
  }

  void collect_problems(const Plan& plan) {
    for (const PlannedNode& node : plan.nodes) {
      if (!node.problem.empty()) {
        const std::string op =
            fmt::format("{}{}{}-{}", node.domain, node.domain.empty() ? "" : "::", node.op, node.version);
        auto known = std::find_if(program_->problems.begin(), program_->problems.end(), [&](const Problem& problem) {
          return problem.op == op && problem.reason == node.problem;
        });
        if (known == program_->problems.end()) {
          program_->problems.push_back({op, node.problem, 0, std::string(node.name)});
          known = std::prev(program_->problems.end());
        }
        ++known->nodes;
      }
      for (const auto& [name, body] : node.graphs) collect_problems(*body);
    }
    if (&plan != &program_->main) return;
    for (const std::string& type : unsupported_types_) {
      program_->problems.push_back({"initialiser", fmt::format("of type {}", type), 1, ""});
    }
  }

  void note_defaults() {
    for (Constant& constant : program_->constants) {
      if (constant.role != Role::constant || !constant.value.is_tensor()) continue;
      // Few floats that are no weights are scales, ranges or limits.
      const std::int64_t most = is_float(constant.value.dtype()) ? 8 : kMaxHostElements;
      const bool few = constant.value.host() != nullptr || constant.value.narrow() != Narrow::none;
      const bool small = few && constant.value.shape().numel() <= most;
      constant.role = small ? Role::constant : Role::buffer;
    }
    for (const SlotOfConstant& entry : program_->main.constants) {
      const auto known = defaults_.find(program_->constants[entry.constant].name);
      if (known != defaults_.end()) program_->default_inputs.emplace(known->first, entry.constant);
    }
  }

  std::shared_ptr<Program> program_;
  const Model& model_;
  ExternalFiles* external_;
  std::map<FunctionKey, const ModelFunction*> functions_;
  std::map<std::string_view, int> defaults_;
  std::map<std::pair<const Plan*, int>, Narrow> narrow_;  // by slot
  std::vector<std::string> unsupported_types_;
};

}  // namespace

std::shared_ptr<Program> plan_model(std::shared_ptr<const Model> model, ExternalFiles* external) {
  return Planner(std::move(model), external).plan();
}

std::string describe_problems(const Program& program) {
  std::size_t nodes = 0;
  for (const Problem& problem : program.problems) nodes += problem.nodes;
  std::string text =
      fmt::format("{} cannot run ({} {}; {} of {} nodes)", program.model->file.path, program.problems.size(),
                  program.problems.size() == 1 ? "reason" : "reasons", nodes, program.nodes);
  for (const Problem& problem : program.problems) {
    text += fmt::format("\n  {} x{}", problem.op, problem.nodes);
    if (!problem.reason.empty()) text += fmt::format("   {}", problem.reason);
    if (!problem.first.empty()) text += fmt::format("   first: {}", in_quotes(problem.first));
  }
  return text;
}

void refuse_problems(const Program& program) {
  if (!program.problems.empty()) throw UnsupportedError(describe_problems(program));
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
