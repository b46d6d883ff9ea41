// Calls that ONNX has operators for, written as those: the reader makes the same calls of them.
#include <array>
#include <limits>
#include <string_view>

#include <lockstep/ops.h>

#include "io/onnx/export/graph_builder.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

using graph::Node;
using graph::RecordedCall;

std::vector<std::int64_t> list_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}
std::vector<std::int64_t> pads_of(const Shape& before, const Shape& after) {
  std::vector<std::int64_t> pads = list_of(before);
  pads.insert(pads.end(), after.begin(), after.end());
  return pads;
}

/// The names of a call's operands, and their nodes.
class Operands {
 public:
  Operands(GraphBuilder& builder, const RecordedCall& call) : call_(call) {
    for (const graph::NodeRef& operand : call.operands) {
      names_.push_back(operand == nullptr ? std::string() : builder.name_of(operand));
    }
  }
  const std::string& operator[](std::size_t i) const { return names_[i]; }
  bool has(std::size_t i) const { return i < names_.size() && !names_[i].empty(); }
  const Node& node(std::size_t i) const { return *call_.operands[i]; }
  const Shape& shape(std::size_t i) const { return node(i).shape; }
  DType dtype(std::size_t i = 0) const { return node(i).dtype; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  const RecordedCall& call_;
  std::vector<std::string> names_;
};

using Write = std::string (*)(GraphBuilder&, const RecordedCall&, const Node&, const Operands&);

std::string ones_for(GraphBuilder& builder, const Operands& operands, const Shape& shape) {
  return builder.constant(ones(shape, {.dtype = operands.dtype(), .device = Device{}}));
}

std::string reshape_call(GraphBuilder& builder, const RecordedCall&, const Node& result, const Operands& operands) {
  return builder.add("Reshape", {operands[0], builder.sizes(result.shape)});
}
std::string permute_call(GraphBuilder& builder, const RecordedCall& call, const Node&, const Operands& operands) {
  return builder.transpose(operands[0], call.lists[0]);
}
std::string expand_call(GraphBuilder& builder, const RecordedCall&, const Node& result, const Operands& operands) {
  return builder.add("Expand", {operands[0], builder.sizes(result.shape)});
}

std::string slice_call(GraphBuilder& builder, const RecordedCall& call, const Node& result, const Operands& operands) {
  const std::int64_t dim = call.lists[0][0];
  const std::int64_t start = call.lists[0][1];
  const std::int64_t step = call.lists[0][2];
  const std::int64_t count = result.shape[static_cast<int>(dim)];
  std::int64_t end = start + (count - 1) * step + (step > 0 ? 1 : -1);
  if (end < 0) end = std::numeric_limits<std::int32_t>::min();  // before the first element
  if (count == 0) end = start;
  return builder.add(
      "Slice",
      {operands[0], builder.sizes(std::vector<std::int64_t>{start}), builder.sizes(std::vector<std::int64_t>{end}),
       builder.sizes(std::vector<std::int64_t>{dim}), builder.sizes(std::vector<std::int64_t>{step})});
}

std::string pad_call(GraphBuilder& builder, const RecordedCall& call, const Node& result, const Operands& operands) {
  const int rank = result.shape.rank();
  Shape before = Shape::filled(rank, 0);
  Shape after = before;
  const Shape& pairs = call.lists[0];
  for (int pair = 0; pair < pairs.rank() / 2; ++pair) {
    before[rank - 1 - pair] = pairs[2 * pair];
    after[rank - 1 - pair] = pairs[2 * pair + 1];
  }
  return builder.add(
      "Pad", {operands[0], builder.sizes(pads_of(before, after)), builder.scalar(call.numbers[0], result.dtype)});
}

std::string cat_call(GraphBuilder& builder, const RecordedCall& call, const Node&, const Operands& operands) {
  return builder.add("Concat", operands.names(), {{"axis", call.lists[0][0]}});
}

// Narrow floats are multiplied as f32, which holds their products exactly, where the product is kept so.
std::string matmul_call(GraphBuilder& builder, const RecordedCall&, const Node& result, const Operands& operands) {
  const std::string a = builder.cast(operands[0], operands.dtype(0), result.dtype);
  return builder.add("MatMul", {a, builder.cast(operands[1], operands.dtype(1), result.dtype)});
}

std::string conv_call(GraphBuilder& builder, const RecordedCall& call, const Node&, const Operands& operands) {
  const Shape& weight = operands.shape(1);
  return builder.add("Conv", operands.names(),
                     {{"strides", list_of(call.lists[0])},
                      {"dilations", list_of(call.lists[1])},
                      {"pads", pads_of(call.lists[2], call.lists[3])},
                      {"group", call.lists[4][0]},
                      {"kernel_shape", list_of(weight.slice(2, weight.rank()))}});
}
std::string conv_transpose_call(GraphBuilder& builder, const RecordedCall& call, const Node&,
                                const Operands& operands) {
  const Shape& weight = operands.shape(1);
  return builder.add("ConvTranspose", operands.names(),
                     {{"strides", list_of(call.lists[0])},
                      {"pads", pads_of(call.lists[2], call.lists[2])},
                      {"dilations", list_of(call.lists[1])},
                      {"output_padding", list_of(call.lists[3])},
                      {"group", call.lists[4][0]},
                      {"kernel_shape", list_of(weight.slice(2, weight.rank()))}});
}

std::string max_pool_call(GraphBuilder& builder, const RecordedCall& call, const Node&, const Operands& operands) {
  return builder.add("MaxPool", {operands[0]},
                     {{"kernel_shape", list_of(call.lists[0])},
                      {"strides", list_of(call.lists[1])},
                      {"dilations", list_of(call.lists[2])},
                      {"pads", pads_of(call.lists[3], call.lists[4])}});
}
std::string avg_pool_call(GraphBuilder& builder, const RecordedCall& call, const Node&, const Operands& operands) {
  const Shape& x = operands.shape(0);
  const bool unpadded = call.lists[3].numel() == 0 || call.lists[3] == Shape::filled(call.lists[3].rank(), 0);
  if (unpadded && x.slice(2, x.rank()) == call.lists[0]) return builder.add("GlobalAveragePool", {operands[0]});
  return builder.add("AveragePool", {operands[0]},
                     {{"kernel_shape", list_of(call.lists[0])},
                      {"strides", list_of(call.lists[1])},
                      {"pads", pads_of(call.lists[3], call.lists[3])},
                      {"count_include_pad", call.lists[5][0]}});
}

std::string batch_norm_call(GraphBuilder& builder, const RecordedCall& call, const Node&, const Operands& operands) {
  return builder.add("BatchNormalization", {operands[0], operands[3], operands[4], operands[1], operands[2]},
                     {{"epsilon", static_cast<float>(call.numbers[0])}});
}
std::string layer_norm_call(GraphBuilder& builder, const RecordedCall& call, const Node&, const Operands& operands) {
  const std::string scale = operands.has(1) ? operands[1] : ones_for(builder, operands, call.lists[0]);
  return builder.add("LayerNormalization", {operands[0], scale, operands[2]},
                     {{"axis", std::int64_t{-call.lists[0].rank()}}, {"epsilon", static_cast<float>(call.numbers[0])}});
}
std::string rms_norm_call(GraphBuilder& builder, const RecordedCall& call, const Node&, const Operands& operands) {
  const std::string scale = operands.has(1) ? operands[1] : ones_for(builder, operands, call.lists[0]);
  return builder.add("RMSNormalization", {operands[0], scale},
                     {{"axis", std::int64_t{-call.lists[0].rank()}}, {"epsilon", static_cast<float>(call.numbers[0])}});
}
std::string group_norm_call(GraphBuilder& builder, const RecordedCall& call, const Node&, const Operands& operands) {
  return builder.add("GroupNormalization", operands.names(),
                     {{"num_groups", call.lists[0][0]}, {"epsilon", static_cast<float>(call.numbers[0])}});
}

std::int64_t axis_of(std::int64_t mask) {
  return std::countr_zero(static_cast<std::uint64_t>(mask));
}
std::string softmax_call(GraphBuilder& builder, const RecordedCall& call, const Node&, const Operands& operands) {
  return builder.add("Softmax", {operands[0]}, {{"axis", axis_of(call.lists[0][0])}});
}
std::string log_softmax_call(GraphBuilder& builder, const RecordedCall& call, const Node&, const Operands& operands) {
  return builder.add("LogSoftmax", {operands[0]}, {{"axis", axis_of(call.lists[0][0])}});
}

std::string gather_call(GraphBuilder& builder, const RecordedCall& call, const Node&, const Operands& operands) {
  return builder.add("GatherElements", {operands[0], operands[1]}, {{"axis", call.lists[0][0]}});
}
std::string index_select_call(GraphBuilder& builder, const RecordedCall& call, const Node&, const Operands& operands) {
  return builder.add("Gather", {operands[0], operands[1]}, {{"axis", call.lists[0][0]}});
}

// A row that sees nothing gives zeros, which Softmax does not; where there is a mask its parts are written.
std::string weights_of(GraphBuilder& builder, const std::string& scores, int rank, bool masked) {
  if (!masked) return builder.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  const std::int64_t last = rank - 1;
  const bool old = builder.opset() < 18;
  const auto reduced = [&](std::string_view op, const std::string& of, bool attribute) {
    if (attribute) return builder.add(op, {of}, {{"axes", std::vector<std::int64_t>{last}}});
    return builder.add(op, {of, builder.sizes(std::vector<std::int64_t>{last})});
  };
  const std::string largest = reduced("ReduceMax", scores, old);
  const std::string infinite = builder.add("Or", {builder.add("IsInf", {largest}), builder.add("IsNaN", {largest})});
  const std::string shift = builder.add("Where", {infinite, builder.scalar(0, DType::f32), largest});
  const std::string exponentials = builder.add("Exp", {builder.add("Sub", {scores, shift})});
  const std::string total = reduced("ReduceSum", exponentials, false);
  const std::string nothing = builder.add("Equal", {total, builder.scalar(0, DType::f32)});
  return builder.add("Div", {exponentials, builder.add("Where", {nothing, builder.scalar(1, DType::f32), total})});
}

// [..., H, L, E] with fewer heads of keys: [..., H / repeats, repeats, L, E].
Shape with_groups(const Shape& shape, std::int64_t heads) {
  Shape result = shape.slice(0, shape.rank() - 3);
  result.push_back(heads);
  result.push_back(shape[shape.rank() - 3] / heads);
  result.push_back(shape[shape.rank() - 2]);
  result.push_back(shape.back());
  return result;
}

std::string attention_call(GraphBuilder& builder, const RecordedCall& call, const Node& result,
                           const Operands& operands) {
  std::array<std::string, 3> parts;
  std::array<Shape, 3> shapes;
  const bool grouped = call.lists[0][1] != 0;
  const std::int64_t heads = grouped ? operands.shape(1)[operands.shape(1).rank() - 3] : 0;
  for (std::size_t i = 0; i < 3; ++i) {
    shapes[i] = grouped ? with_groups(operands.shape(i), heads) : operands.shape(i);
    parts[i] = builder.cast(operands[i], operands.dtype(i), DType::f32);
    parts[i] = builder.reshape(parts[i], operands.shape(i), shapes[i]);
  }
  const int rank = std::max({shapes[0].rank(), shapes[1].rank(), shapes[2].rank()});
  Shape turned;
  for (int d = 0; d < shapes[1].rank(); ++d) turned.push_back(d);
  std::swap(turned[turned.rank() - 1], turned[turned.rank() - 2]);
  std::string scores = builder.add("MatMul", {parts[0], builder.transpose(parts[1], turned)});
  scores = builder.add("Mul", {scores, builder.scalar(call.numbers[0], DType::f32)});
  const auto hidden = [&] { return builder.scalar(-std::numeric_limits<double>::infinity(), DType::f32); };
  if (operands.has(3)) {
    const bool condition = operands.dtype(3) == DType::boolean;
    scores = condition ? builder.add("Where", {operands[3], scores, hidden()})
                       : builder.add("Add", {scores, builder.cast(operands[3], operands.dtype(3), DType::f32)});
  }
  if (call.lists[0][0] != 0) {
    const Shape seen{shapes[0][shapes[0].rank() - 2], shapes[1][shapes[1].rank() - 2]};
    const Tensor visible = tril(ones(seen, {.dtype = DType::i64, .device = Device{}})).to(DType::boolean);
    scores = builder.add("Where", {builder.constant(visible), scores, hidden()});
  }
  const std::string weights = weights_of(builder, scores, rank, operands.has(3));
  std::string y = builder.add("MatMul", {weights, parts[2]});
  if (grouped) y = builder.add("Reshape", {y, builder.sizes(result.shape)});
  return builder.cast(y, DType::f32, result.dtype);
}

// Whether the calls of a row can be written, beyond their opset.
using CallCheck = bool (*)(const RecordedCall&, const Node&);

bool is_batched_pool(const RecordedCall& call) {
  return call.operands[0]->shape.rank() == call.lists[0].rank() + 2;
}
// Attributes are f32.
bool has_plain_epsilon(const RecordedCall& call, const Node& result) {
  return result.dtype != DType::f64 || static_cast<double>(static_cast<float>(call.numbers[0])) == call.numbers[0];
}

struct CallRow {
  std::string_view name;
  Write write;
  int since = 0;
  CallCheck check = nullptr;
};

constexpr CallRow kCalls[] = {
    {"reshape", reshape_call},
    {"permute", permute_call},
    {"expand", expand_call},
    {"slice", slice_call},
    {"pad", pad_call},
    {"cat", cat_call},
    {"matmul", matmul_call, 0, [](const RecordedCall&, const Node& result) { return is_float(result.dtype); }},
    {"conv", conv_call},
    {"conv_transpose", conv_transpose_call},
    {"max_pool", max_pool_call, 0, [](const RecordedCall& call, const Node&) { return is_batched_pool(call); }},
    {"avg_pool", avg_pool_call, 0,
     [](const RecordedCall& call, const Node& result) {
       bool plain = is_batched_pool(call) && (result.dtype == DType::f32 || result.dtype == DType::f64);
       for (int d = 0; d < call.lists[3].rank(); ++d) plain = plain && call.lists[4][d] <= call.lists[3][d];
       return plain;
     }},
    {"batch_norm", batch_norm_call, 0,
     [](const RecordedCall& call, const Node& result) {
       return call.operands[3] != nullptr && call.operands[4] != nullptr && has_plain_epsilon(call, result);
     }},
    {"layer_norm", layer_norm_call, 0, has_plain_epsilon},
    {"rms_norm", rms_norm_call, 23, has_plain_epsilon},
    {"group_norm", group_norm_call, 21,
     [](const RecordedCall& call, const Node& result) {
       return call.operands[1] != nullptr && call.operands[2] != nullptr && has_plain_epsilon(call, result);
     }},
    {"softmax", softmax_call, 0,
     [](const RecordedCall& call, const Node&) { return std::has_single_bit(std::uint64_t(call.lists[0][0])); }},
    {"log_softmax", log_softmax_call, 0,
     [](const RecordedCall& call, const Node&) { return std::has_single_bit(std::uint64_t(call.lists[0][0])); }},
    {"gather", gather_call, 0,
     [](const RecordedCall& call, const Node&) { return call.operands[0]->shape.rank() > 0; }},
    {"index_select", index_select_call, 0,
     [](const RecordedCall& call, const Node&) { return call.operands[0]->shape.rank() > 0; }},
    {"attention", attention_call, 0,
     [](const RecordedCall& call, const Node& result) {
       const bool grouped = call.lists[0][1] != 0;
       return result.dtype != DType::f64 && result.shape.numel() > 0 && !(grouped && call.operands[3] != nullptr);
     }},
};

const CallRow* find_call(std::string_view name) {
  for (const CallRow& row : kCalls) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace

bool can_write_call(int opset, const RecordedCall& call, const Node& result) {
  const CallRow* const row = find_call(call.op);
  for (const graph::NodeRef& operand : call.operands) {
    if (operand != nullptr && operand->encoding != Encoding::dense) return false;
  }
  return row != nullptr && opset >= row->since && (row->check == nullptr || row->check(call, result));
}

std::string write_call(GraphBuilder& builder, const RecordedCall& call, const Node& result) {
  return find_call(call.op)->write(builder, call, result, Operands(builder, call));
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
