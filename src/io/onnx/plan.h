// A model as steps: names resolved to slots, each node to its operator's row, bodies of functions put in place of their
// calls, what nobody reads left out, constants computed. program.h runs it.
//
// A Plan is one graph. Its values live in a frame of slots; a branch's or a loop's body is a plan of its own with its
// own frame, into which the values that it captures are copied.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/onnx/derived.h"
#include "io/onnx/fixed_values.h"
#include "io/onnx/model.h"
#include "io/onnx/operator.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

struct Plan;
struct Program;

/// Where inputs and outputs are left out.
inline constexpr int kNoSlot = -1;

struct PlannedNode {
  std::string_view domain;
  std::string_view op;
  std::string_view name;
  int version = 0;
  const Operator* row = nullptr;  ///< Null in a program that has problems.
  std::vector<int> inputs;        ///< Slots.
  std::vector<int> outputs;
  std::vector<int> captured;   ///< Slots that graphs below read.
  std::vector<int> last_uses;  ///< Slots that nobody reads afterwards.
  std::vector<const Attribute*> attributes;
  std::vector<std::pair<std::string_view, std::unique_ptr<Plan>>> graphs;  ///< By the attribute's name.
  const Program* program = nullptr;
  std::string problem;  ///< Why it cannot run; empty if it can.
  std::unique_ptr<DerivedWeights> derived = std::make_unique<DerivedWeights>();
  bool folded = false;             ///< Computed at load; runs where a scope of the thread changes arithmetic.
  bool fixed = false;              ///< Computes of weights alone (fixed.h).
  std::uint64_t fixed_inputs = 0;  ///< Bit i: input i < 64 is a weight, or computed of weights alone.
};

struct Capture {
  int outer = kNoSlot;
  int inner = kNoSlot;
};
struct SlotOfConstant {
  int slot = kNoSlot;
  std::size_t constant = 0;
};

struct Plan {
  int slots = 0;
  std::vector<PlannedNode> nodes;
  std::vector<int> inputs;
  std::vector<int> outputs;
  std::vector<Capture> captures;
  std::vector<SlotOfConstant> constants;  ///< Slots that have a value from the start.
  std::vector<int> fixed_sources;         ///< What fixed nodes read,
  std::vector<int> fixed_results;         ///< and what others read of them.
  std::unique_ptr<FixedValues> fixed = std::make_unique<FixedValues>();
};

/// How an initialiser appears in the module.
enum class Role : std::uint8_t {
  constant,   ///< Small integers, few numbers, and what was computed at load.
  parameter,  ///< Floats that feed a weight, bias or scale.
  buffer,     ///< All others.
};

struct Constant {
  std::string name;  ///< Of an initialiser; empty for others.
  Role role = Role::constant;
  Value value;           ///< On the CPU.
  std::string consumer;  ///< The node that reads it first, for names that exporters lost.
  std::string_view consumer_op;
  std::size_t consumer_input = 0;
};

/// Why some nodes cannot run: one line of the error.
struct Problem {
  std::string op;      ///< "NonMaxSuppression-11"
  std::string reason;  ///< May be empty: there is no such operator here.
  std::size_t nodes = 0;
  std::string first;  ///< The first node's name.
};

struct Program {
  std::shared_ptr<const Model> model;
  Plan main;
  std::vector<Constant> constants;
  std::map<std::string, std::size_t, std::less<>> default_inputs;  ///< Inputs that an initialiser stands for.
  std::vector<ModelValue> inputs;  ///< That a caller must give, and those with a default behind them.
  std::vector<ModelValue> outputs;
  std::vector<Problem> problems;
  std::size_t nodes = 0;             ///< Planned ones, in all graphs.
  std::deque<Attribute> attributes;  ///< Renamed ones, of functions' bodies.
  bool folded = false;
};

/// Checks the messages against each other. FormatError for what is wrong with them; what cannot run is listed in
/// `problems`. Without `external` the plan is only good for looking at: what lies in other files has no value.
std::shared_ptr<Program> plan_model(std::shared_ptr<const Model> model, ExternalFiles* external);

/// UnsupportedError that lists every problem, if there are any.
void refuse_problems(const Program& program);
std::string describe_problems(const Program& program);

/// Computes at load what constants determine, within 64 MiB and 10 s. Changes no result by a bit.
void fold_constants(Program& program);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
