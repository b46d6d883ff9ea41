// Primitives of the graph as operators of ONNX, where the reader makes the same primitive of the operator. What has
// none with the same roundings is refused by name: nothing is written that would compute something else.
#include <bit>
#include <cmath>
#include <map>

#include <lockstep/ops.h>

#include "core/overloaded.h"
#include "io/onnx/export/graph_builder.h"
#include "io/onnx/export/own_functions.h"
#include "io/onnx/export/views.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

using graph::Node;
using graph::NodeRef;
using Names = std::vector<std::string>;

/// A row without an operator of its own name; `composed` writes it.
struct ElementwiseRow {
  const char* op = nullptr;
  std::string (*composed)(GraphBuilder&, const Names&, DType dtype) = nullptr;
  int since = 0;
};

const ElementwiseRow* find_elementwise(Op op) {
  static const std::map<Op, ElementwiseRow> rows = {
      {Op::neg, {"Neg"}},
      {Op::abs, {"Abs"}},
      {Op::sign, {"Sign"}},
      {Op::relu, {"Relu"}},
      {Op::floor, {"Floor"}},
      {Op::ceil, {"Ceil"}},
      {Op::round, {"Round"}},
      {Op::sqrt, {"Sqrt"}},
      {Op::reciprocal, {"Reciprocal"}},
      {Op::exp, {"Exp"}},
      {Op::log, {"Log"}},
      {Op::sin, {"Sin"}},
      {Op::cos, {"Cos"}},
      {Op::tan, {"Tan"}},
      {Op::asin, {"Asin"}},
      {Op::acos, {"Acos"}},
      {Op::atan, {"Atan"}},
      {Op::sinh, {"Sinh"}},
      {Op::cosh, {"Cosh"}},
      {Op::tanh, {"Tanh"}},
      {Op::asinh, {"Asinh"}},
      {Op::acosh, {"Acosh"}},
      {Op::atanh, {"Atanh"}},
      {Op::sigmoid, {"Sigmoid"}},
      {Op::erf, {"Erf"}},
      {Op::add, {"Add"}},
      {Op::sub, {"Sub"}},
      {Op::mul, {"Mul"}},
      {Op::div, {"Div"}},
      {Op::pow, {"Pow"}},
      {Op::maximum, {"Max"}},
      {Op::minimum, {"Min"}},
      {Op::eq, {"Equal"}},
      {Op::lt, {"Less"}},
      {Op::le, {"LessOrEqual"}},
      {Op::gt, {"Greater"}},
      {Op::ge, {"GreaterOrEqual"}},
      {Op::isnan, {"IsNaN"}},
      {Op::isinf, {"IsInf"}},
      {Op::logical_not, {"Not"}},
      {Op::bitwise_not, {"BitwiseNot", nullptr, 18}},
      {Op::where, {"Where"}},
      {Op::ne, {nullptr, [](GraphBuilder& b, const Names& n, DType) { return b.add("Not", {b.add("Equal", n)}); }}},
      {Op::isfinite,
       {nullptr,
        [](GraphBuilder& b, const Names& n, DType) {
          return b.add("Not", {b.add("Or", {b.add("IsInf", n), b.add("IsNaN", n)})});
        }}},
      {Op::fmod,
       {nullptr,
        [](GraphBuilder& b, const Names& n, DType) {
          return b.add("Mod", n, {{"fmod", std::int64_t{1}}});
        }}},
      {Op::remainder,
       {nullptr, [](GraphBuilder& b, const Names& n,
                    DType dtype) { return is_float(dtype) ? std::string() : b.add("Mod", n); }}},
      {Op::gelu_erf,
       {nullptr, [](GraphBuilder& b, const Names& n,
                    DType) { return b.opset() >= 20 ? b.add("Gelu", n) : b.add("Gelu", n, {}, "com.microsoft"); }}},
  };
  const auto row = rows.find(op);
  return row == rows.end() ? nullptr : &row->second;
}

// Of conditions there are words of their own; numbers have them from opset 18 on.
std::string bitwise_name(Op op, DType dtype, int opset) {
  const bool condition = dtype == DType::boolean;
  if (!condition && opset < 18) return "";
  const char* const name = op == Op::bitwise_and ? "And" : op == Op::bitwise_or ? "Or" : "Xor";
  return condition ? name : "Bitwise" + std::string(name);
}

double number_of(Scalar scalar, DType dtype) {
  switch (compute_type(dtype)) {
    case ComputeType::f32: return std::bit_cast<float>(static_cast<std::uint32_t>(scalar.bits));
    case ComputeType::f64: return std::bit_cast<double>(scalar.bits);
    case ComputeType::i32:
    case ComputeType::i64: break;
  }
  return static_cast<double>(static_cast<std::int64_t>(scalar.bits));
}

// Whether a number of the compute type is one of the dtype: narrow floats meet scalars in f32.
bool holds(double value, DType dtype) {
  if (dtype != DType::f16 && dtype != DType::bf16) return true;
  const double stored = full({}, value, {.dtype = dtype, .device = Device{}}).to(DType::f64).item<double>();
  return stored == value || std::isnan(value);
}

std::string elementwise(GraphBuilder& builder, const Node& node, const graph::Elementwise& op,
                        const std::vector<NodeRef>& inputs, std::string& problem) {
  if (op.op == Op::copy) return builder.name_of(inputs[0]);
  DType dtype = node.dtype;
  for (std::size_t i = op.op == Op::where ? 1 : 0; i < inputs.size(); ++i) {
    if (inputs[i] != nullptr) dtype = inputs[i]->dtype;
  }
  bool widens = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) widens = widens || !holds(number_of(op.scalars[i], dtype), dtype);
  }
  const DType working = widens && op.op != Op::where ? DType::f32 : dtype;
  Names names;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) {
      names.push_back(builder.scalar(number_of(op.scalars[i], dtype), working));
    } else {
      const std::string name = builder.name_of(inputs[i]);
      names.push_back(inputs[i]->dtype == dtype ? builder.cast(name, dtype, working) : name);
    }
  }
  std::string result;
  if (op.op == Op::bitwise_and || op.op == Op::bitwise_or || op.op == Op::bitwise_xor) {
    const std::string name = bitwise_name(op.op, dtype, builder.opset());
    if (!name.empty()) result = builder.add(name, names);
  } else if (const ElementwiseRow* const row = find_elementwise(op.op);
             row != nullptr && builder.opset() >= row->since) {
    result = row->composed != nullptr ? row->composed(builder, names, dtype) : builder.add(row->op, names);
  }
  if (const std::string_view own = own_name(op.op); result.empty() && !own.empty() && is_float(dtype)) {
    result = builder.add(own, names, {}, kOwnDomain);
  }
  if (result.empty()) {
    problem = op.op == Op::merge ? "joins words" : "no operator of this opset rounds like it";
    return "";
  }
  return node.dtype == dtype ? builder.cast(result, working, dtype) : result;
}

std::string reduce(GraphBuilder& builder, const Node& node, const graph::Reduce& op, const std::vector<NodeRef>& inputs,
                   std::string& problem) {
  const NodeRef& x = inputs[0];
  std::vector<std::int64_t> axes;
  for (int d = 0; d < x->shape.rank(); ++d) {
    if ((op.dims >> d & 1u) != 0) axes.push_back(d);
  }
  const bool old = builder.opset() < 18;
  const auto write = [&](std::string_view name, DType working, bool attribute) {
    const std::string value = builder.cast(builder.name_of(x), x->dtype, working);
    const std::string y =
        attribute ? builder.add(name, {value}, {{"axes", axes}}) : builder.add(name, {value, builder.sizes(axes)});
    return builder.cast(y, working, node.dtype);
  };
  const DType numbers = x->dtype == DType::boolean ? DType::i32 : x->dtype;
  switch (op.op) {
    case ReduceOp::sum: return write("ReduceSum", node.dtype, false);
    case ReduceOp::prod: return write("ReduceProd", node.dtype, old);
    case ReduceOp::max: return write("ReduceMax", numbers, old);
    case ReduceOp::min: return write("ReduceMin", numbers, old);
    case ReduceOp::argmax:
    case ReduceOp::argmin: {
      if (axes.size() != 1) {
        problem = "positions over several dimensions";
        return "";
      }
      const std::string value = builder.cast(builder.name_of(x), x->dtype, numbers);
      return builder.add(op.op == ReduceOp::argmax ? "ArgMax" : "ArgMin", {value}, {{"axis", axes[0]}});
    }
    case ReduceOp::dot: break;
  }
  if (!is_float(x->dtype) || inputs[1]->dtype != x->dtype) {
    problem = "sums of products of integers";
    return "";
  }
  return builder.add("SumOfProducts", {builder.name_of(x), builder.name_of(inputs[1])}, {{"axes", axes}}, kOwnDomain);
}

// The operands as [batch, m, k] and [batch, k, n].
std::string contract(GraphBuilder& builder, const Node& node, const graph::Contract& op,
                     const std::vector<NodeRef>& inputs, std::string& problem) {
  const bool exact = node.dtype == DType::i32 || node.dtype == DType::i64;
  if ((!is_float(node.dtype) && !exact) || inputs[0]->encoding != Encoding::dense ||
      inputs[1]->encoding != Encoding::dense) {
    problem = "products of packed weights, or of integers in fewer than 32 bits";
    return "";
  }
  if (op.numerics != Numerics::exact) {
    problem =
        std::string("products in ") + name_of(op.numerics) + " numerics: record the network outside of their scope";
    return "";
  }
  const std::int64_t b = op.b.numel(), m = op.m.numel(), n = op.n.numel(), k = op.k.numel();
  const auto operand = [&](std::size_t i, const View& view, const Shape& shape) -> std::string {
    const std::string value = write_view(builder, builder.name_of(inputs[i]), inputs[i]->shape, view, inputs[i]->dtype);
    if (value.empty()) return "";
    return builder.cast(builder.reshape(value, view.shape, shape), inputs[i]->dtype, node.dtype);
  };
  const std::string a = operand(0, op.a_view, {b, m, k});
  const std::string c = operand(1, op.b_view, {b, k, n});
  if (a.empty() || c.empty()) {
    problem = "windows that are too large for a table";
    return "";
  }
  return builder.reshape(builder.add("MatMul", {a, c}), {b, m, n}, node.shape);
}

// From the flat table at places that are the source's plus those of the index.
std::string gather(GraphBuilder& builder, const Node& node, const graph::Gather& op, const std::vector<NodeRef>& inputs,
                   std::string& problem) {
  const auto places = op.source.bounds.empty() ? places_of(op.source) : std::nullopt;
  if (!places || inputs[0]->encoding != Encoding::dense || op.failure != graph::Failure::index) {
    problem = "computed places of this kind";
    return "";
  }
  const std::string flat = builder.reshape(builder.name_of(inputs[0]), inputs[0]->shape, {inputs[0]->shape.numel()});
  std::string index = builder.cast(builder.name_of(inputs[1]), inputs[1]->dtype, DType::i64);
  if (op.stride != 1) index = builder.add("Mul", {index, builder.scalar(double(op.stride), DType::i64)});
  index = builder.add("Add", {index, builder.constant(Tensor::from(*places, op.source.shape, Device{}))});
  return builder.reshape(builder.add("Gather", {flat, index}, {{"axis", std::int64_t{0}}}), op.source.shape,
                         node.shape);
}

std::string scatter(GraphBuilder& builder, const graph::Scatter& op, const std::vector<NodeRef>& inputs,
                    std::string& problem) {
  static constexpr const char* kModes[] = {"none", "add", "mul", "max", "min"};
  const auto mode = static_cast<std::size_t>(op.op);
  if ((!op.include_self && op.op != ScatterOp::set) || (mode >= 3 && builder.opset() < 18)) {
    problem = "this way to combine elements";
    return "";
  }
  const Names names = {builder.name_of(inputs[0]), builder.name_of(inputs[1]), builder.name_of(inputs[2])};
  return builder.add("ScatterElements", names,
                     {{"axis", std::int64_t{op.dim}}, {"reduction", std::string(kModes[mode])}});
}

std::string update(GraphBuilder& builder, const Node& node, const graph::Update& op, const std::vector<NodeRef>& inputs,
                   std::string& problem) {
  const auto places = places_of(op.region);
  if (!places) {
    problem = "a region that is too large for a table";
    return "";
  }
  const Shape flat{node.shape.numel()};
  const Shape count{op.region.shape.numel()};
  const std::string values = builder.reshape(builder.name_of(inputs[1]), op.region.shape, count);
  const std::string index = builder.constant(Tensor::from(*places, count, Device{}));
  const std::string self = builder.reshape(builder.name_of(inputs[0]), node.shape, flat);
  return builder.reshape(builder.add("ScatterElements", {self, index, values}, {{"axis", std::int64_t{0}}}), flat,
                         node.shape);
}

// DFT's inverse is divided by its length, rounded once more: inverses are written as forward transforms of numbers
// whose parts are swapped, which is what they are (docs/numerics.md section 4).
std::string fourier(GraphBuilder& builder, const Node& node, const graph::Fourier& op,
                    const std::vector<NodeRef>& inputs, std::string& problem) {
  if (builder.opset() < 17 || op.kind == FourierKind::real_inverse) {
    problem = builder.opset() < 17 ? "Fourier transforms before opset 17" : "the real signal of half a spectrum";
    return "";
  }
  const auto swapped = [&](const std::string& value) {
    const std::string order = builder.sizes(std::vector<std::int64_t>{1, 0});
    return builder.add("Gather", {value, order}, {{"axis", std::int64_t{3}}});
  };
  std::string value = builder.name_of(inputs[0]);
  if (op.kind == FourierKind::inverse) value = swapped(value);
  if (op.kind == FourierKind::real) {
    Shape parts = inputs[0]->shape;
    parts.push_back(1);
    value = builder.reshape(value, inputs[0]->shape, parts);
  }
  Names operands = {value, builder.scalar(static_cast<double>(op.n), DType::i64)};
  const std::int64_t onesided = op.kind == FourierKind::real ? 1 : 0;
  if (builder.opset() < 20) {
    value = builder.add("DFT", operands, {{"axis", std::int64_t{1}}, {"onesided", onesided}});
  } else {
    operands.push_back(builder.scalar(1, DType::i64));
    value = builder.add("DFT", operands, {{"onesided", onesided}});
  }
  if (op.kind == FourierKind::inverse) value = swapped(value);
  const double scale = node.dtype == DType::f64
                           ? std::bit_cast<double>(op.scale.bits)
                           : double(std::bit_cast<float>(static_cast<std::uint32_t>(op.scale.bits)));
  return scale == 1 ? value : builder.add("Mul", {value, builder.scalar(scale, node.dtype)});
}

}  // namespace

std::string write_primitive(GraphBuilder& builder, const Node& node, const std::vector<NodeRef>& inputs,
                            std::string& problem) {
  const auto refuse = [&](const char* why) {
    problem = why;
    return std::string();
  };
  return graph::visit_primitive(
      overloaded{
          [&](const graph::Data&) { return refuse("data"); },
          [&](const graph::Full&) { return refuse("a constant"); },
          [&](const graph::Iota&) { return refuse("a constant"); },
          [&](const graph::Random&) { return refuse("random numbers"); },
          [&](const graph::ViewOf& op) {
            const NodeRef& base = inputs[0];
            if (base->encoding != Encoding::dense) return refuse("a view of packed weights");
            std::string value = write_view(builder, builder.name_of(base), base->shape, op.view, node.dtype);
            if (value.empty()) problem = "a view that is too large for a table, or fills with other numbers than 0";
            return value;
          },
          [&](const graph::Elementwise& op) { return elementwise(builder, node, op, inputs, problem); },
          [&](const graph::Cast&) { return builder.cast(builder.name_of(inputs[0]), inputs[0]->dtype, node.dtype); },
          [&](const graph::Reduce& op) { return reduce(builder, node, op, inputs, problem); },
          [&](const graph::Contract& op) { return contract(builder, node, op, inputs, problem); },
          [&](const graph::Gather& op) { return gather(builder, node, op, inputs, problem); },
          [&](const graph::Scatter& op) { return scatter(builder, op, inputs, problem); },
          [&](const graph::Scan& op) {
            if (op.op != ScanOp::sum) return refuse("running results other than sums");
            return builder.add("CumSum", {builder.name_of(inputs[0]), builder.scalar(op.dim, DType::i64)});
          },
          [&](const graph::Sort& op) {
            const std::string count = builder.sizes(std::vector<std::int64_t>{node.shape[op.dim]});
            return builder.add_output("TopK", {builder.name_of(inputs[0]), count},
                                      {{"axis", std::int64_t{op.dim}}, {"largest", std::int64_t{op.descending}}}, 1);
          },
          [&](const graph::Update& op) { return update(builder, node, op, inputs, problem); },
          [&](const graph::Fourier& op) { return fourier(builder, node, op, inputs, problem); },
          [&](const graph::Attend&) { return refuse("attention in fast numerics"); },
          [&](const graph::Recur&) { return refuse("all steps of a recurrence as one kernel"); },
      },
      node.op);
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
