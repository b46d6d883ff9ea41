// Whether a kernel case can be run: the rules that ops otherwise keep when they make primitives, said once more for
// cases from files. What passes reads and writes nothing outside of its values.
#include <algorithm>

#include <fmt/format.h>

#include <lockstep/shape.h>

#include "core/checked.h"
#include "core/overloaded.h"
#include "graph/kernel_case.h"
#include "kernels/fourier.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

constexpr std::uint64_t kMostCaseElements = std::uint64_t{1} << 40;

// What a rule says that does not hold.
struct CaseMistake {
  std::string what;
};
void demand(bool holds, const char* what) {
  if (!holds) throw CaseMistake{what};
}

void demand_shape(const Shape& shape) {
  CheckedSize count = 1;
  for (const std::int64_t size : shape) {
    demand(size >= 0, "a size is negative");
    count *= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
  }
  demand(count.at_most(kMostCaseElements), "it has too many elements");
}

Shape join(std::initializer_list<const Shape*> parts) {
  std::size_t rank = 0;
  for (const Shape* part : parts) rank += static_cast<std::size_t>(part->rank());
  demand(rank <= static_cast<std::size_t>(kMaxRank), "it has too many dimensions");
  Shape shape;
  for (const Shape* part : parts) {
    for (const std::int64_t size : *part) shape.push_back(size);
  }
  return shape;
}

// All addresses that the view reads lie in [0, elements), with `reach` more of them on either side for each.
void demand_inside(const View& view, std::int64_t elements, std::int64_t least_reach = 0, std::int64_t most_reach = 0) {
  demand_shape(view.shape);
  demand(view.strides.rank() == view.shape.rank(), "a view's strides are not of its shape");
  for (const Bound& bound : view.bounds) {
    demand(bound.m.rank() == view.shape.rank() && bound.step >= 1, "a view's bound is not of its shape");
  }
  if (view.shape.numel() == 0) return;
  using Wide = __int128;
  // Dimensions that a bound looks at are tried place by place, the others by their ends.
  std::vector<int> looked;
  Wide least = least_reach;
  Wide most = most_reach;
  CheckedSize places = 1;
  for (int d = 0; d < view.rank(); ++d) {
    const bool is_looked =
        std::ranges::any_of(view.bounds, [&](const Bound& bound) { return bound.m[d] != 0; }) && view.shape[d] > 1;
    if (is_looked) {
      looked.push_back(d);
      places *= static_cast<std::uint64_t>(view.shape[d]);
      continue;
    }
    const Wide end = static_cast<Wide>(view.strides[d]) * (view.shape[d] - 1);
    (end < 0 ? least : most) += end;
  }
  demand(places.at_most(std::uint64_t{1} << 26), "a view with bounds is too large to be looked through");
  Shape index = view.shape;
  for (std::int64_t& i : index) i = 0;
  for (std::uint64_t n = 0; n < places.value(); ++n) {
    auto rest = static_cast<std::int64_t>(n);
    for (auto d = looked.rbegin(); d != looked.rend(); ++d) {
      index[*d] = rest % view.shape[*d];
      rest /= view.shape[*d];
    }
    Wide address = view.offset;
    bool reads = true;
    for (const Bound& bound : view.bounds) {
      Wide c = bound.offset;
      for (const int d : looked) c += static_cast<Wide>(bound.m[d]) * index[d];
      reads = reads && c >= bound.lo && c < bound.hi && c % bound.step == 0;
      if (bound.step > 1) address += static_cast<Wide>(bound.stride) * (c / bound.step);
    }
    if (!reads) continue;
    for (const int d : looked) address += static_cast<Wide>(view.strides[d]) * index[d];
    demand(address + least >= 0 && address + most < elements, "a view reads outside of its value");
  }
}

bool broadcasts(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int d = 1; d <= from.rank(); ++d) {
    if (from[from.rank() - d] != to[to.rank() - d] && from[from.rank() - d] != 1) return false;
  }
  return true;
}

bool computes(DType dtype) {
  return !is_storage_only(dtype);
}
bool is_index(DType dtype) {
  return dtype == DType::i32 || dtype == DType::i64;
}

// One value of a case, as rules look at it.
struct CaseValue {
  const KernelCase& work;
  const KernelCase::Value& value;

  std::size_t count() const { return value.operands.size(); }
  void demand_count(std::size_t wanted) const {
    demand(count() == wanted, "it has another number of operands than its op");
    for (const KernelCase::Operand& operand : value.operands) demand(operand.value >= 0, "an operand is a scalar");
  }
  const KernelCase::Value& base(std::size_t i) const {
    return work.values[static_cast<std::size_t>(value.operands[i].value)];
  }
  DType dtype(std::size_t i) const { return base(i).dtype; }
  const Shape& shape(std::size_t i) const {
    return value.operands[i].view ? value.operands[i].view->shape : base(i).shape;
  }
  void demand_direct(std::size_t i) const {
    demand(!value.operands[i].view, "an operand is a view where the op has its own");
  }
};

void check_rule(const Data&, const CaseValue& v) {
  demand(v.count() == 0, "given data have operands");
  if (v.value.encoding != Encoding::dense) {
    const EncodingInfo& info = info_of(v.value.encoding);
    demand(v.value.dtype == info.dtype && v.value.shape.rank() > 0 && v.value.shape.back() % info.elements == 0,
           "its blocks are not whole");
  }
  demand(v.value.data.size() == encoded_bytes(v.value.encoding, v.value.dtype, v.value.shape.numel()),
         "its data are not of its shape and dtype");
  if (v.value.dtype == DType::boolean) {
    demand(std::ranges::all_of(v.value.data, [](std::byte b) { return std::to_integer<int>(b) < 2; }),
           "a bool is neither 0 nor 1");
  }
}
void check_rule(const Full&, const CaseValue& v) {
  demand(v.count() == 0, "it has operands");
}
void check_rule(const Iota&, const CaseValue& v) {
  demand(v.count() == 0 && v.value.dtype == DType::i64, "positions are i64 without operands");
}
void check_rule(const Random&, const CaseValue& v) {
  demand(v.count() == 0 && v.value.dtype == DType::u32, "random words are u32 without operands");
}
void check_rule(const ViewOf&, const CaseValue&) {
  demand(false, "a view is no value");
}

void check_rule(const Elementwise& op, const CaseValue& v) {
  const OpInfo& info = info_of(op.op);
  demand(v.count() == static_cast<std::size_t>(info.arity), "it has another number of operands than its op");
  const bool is_where = op.op == Op::where;
  std::optional<DType> dtype;
  for (std::size_t i = 0; i < v.count(); ++i) {
    if (v.value.operands[i].value < 0) {
      demand(!is_where || i > 0, "its condition is a scalar");
      continue;
    }
    demand(broadcasts(v.shape(i), v.value.shape), "an operand does not broadcast to its shape");
    if (is_where && i == 0) {
      demand(v.dtype(0) == DType::boolean, "its condition is not bool");
      continue;
    }
    demand(!dtype || *dtype == v.dtype(i), "its operands have several dtypes");
    dtype = v.dtype(i);
  }
  if (!dtype && is_where) dtype = v.value.dtype;
  demand(dtype.has_value(), "it has no operand");
  demand(v.value.dtype == (info.kind == OpKind::comparison ? DType::boolean : *dtype),
         "its dtype is not that of its op");
  demand(info.kind == OpKind::move || computes(*dtype), "its op does not take the dtype");
  const unsigned type = *dtype == DType::boolean                   ? kTypeBool
                        : compute_type(*dtype) == ComputeType::f32 ? kTypeF32
                        : compute_type(*dtype) == ComputeType::f64 ? kTypeF64
                                                                   : kTypeInt;
  demand((info.types & type) != 0, "its op does not take the dtype");
}

void check_rule(const Cast&, const CaseValue& v) {
  v.demand_count(1);
  demand(broadcasts(v.shape(0), v.value.shape) && computes(v.value.dtype) && computes(v.dtype(0)),
         "it cannot be cast so");
}

void check_rule(const Reduce& op, const CaseValue& v) {
  v.demand_count(op.op == ReduceOp::dot ? 2 : 1);
  Shape shape = v.shape(0);
  demand(shape.rank() == kMaxRank || op.dims >> shape.rank() == 0, "it reduces dimensions that are not there");
  const bool positions = op.op == ReduceOp::argmax || op.op == ReduceOp::argmin;
  const bool needs_elements = positions || op.op == ReduceOp::max || op.op == ReduceOp::min;
  for (int d = 0; d < shape.rank(); ++d) {
    if ((op.dims >> d & 1u) == 0) continue;
    demand(!needs_elements || shape[d] > 0, "nothing has no largest element");
    shape[d] = 1;
  }
  demand(shape == v.value.shape, "its shape is not that of its op");
  demand(v.value.dtype == (positions ? DType::i64 : v.dtype(0)) && computes(v.dtype(0)),
         "its dtype is not that of its op");
  if (op.op == ReduceOp::dot)
    demand(v.shape(1) == v.shape(0) && v.dtype(1) == v.dtype(0), "its operands are not alike");
}

void check_rule(const Contract& op, const CaseValue& v) {
  v.demand_count(2);
  v.demand_direct(0);
  v.demand_direct(1);
  for (const Shape* group : {&op.b, &op.m, &op.n, &op.k})
    demand(group->rank() <= 4, "a group has more than four dimensions");
  demand(op.a_view.shape == join({&op.b, &op.m, &op.k}) && op.b_view.shape == join({&op.b, &op.k, &op.n}) &&
             v.value.shape == join({&op.b, &op.m, &op.n}),
         "its shapes are not those of a contraction");
  // Bytes meet bytes of the other sign, too: activations and weights of quantised models.
  const auto is_byte = [](DType dtype) { return dtype == DType::i8 || dtype == DType::u8; };
  // Floats of 16 bits meet packed weights, whose values are f32.
  const bool narrow = (v.dtype(0) == DType::f16 || v.dtype(0) == DType::bf16) && v.dtype(1) == DType::f32 &&
                      v.base(1).encoding != Encoding::dense;
  demand((v.dtype(0) == v.dtype(1) || narrow || (is_byte(v.dtype(0)) && is_byte(v.dtype(1)))) && computes(v.dtype(0)) &&
             compute_type(v.dtype(0)) == compute_type(v.value.dtype),
         "its dtypes are not those of a contraction");
  demand(op.numerics == Numerics::exact || compute_type(v.dtype(0)) == ComputeType::f32,
         "its numerics do not take the dtype");
  demand(
      op.numerics != Numerics::q8 || (!narrow && has_q8_form(v.base(1).encoding, op.b_view, op.b.rank(), op.k.rank())),
      "its numerics do not take the weights");
  demand_inside(op.a_view, v.base(0).shape.numel());
  demand_inside(op.b_view, v.base(1).shape.numel());
}

void check_rule(const Gather& op, const CaseValue& v) {
  v.demand_count(2);
  v.demand_direct(0);
  demand(op.source.shape == v.value.shape && v.dtype(0) == v.value.dtype,
         "its shape or dtype is not that of its table");
  demand(is_index(v.dtype(1)) && broadcasts(v.shape(1), v.value.shape), "its index is none");
  demand(op.size >= 0, "its axis is negative");
  const std::int64_t reach = op.size == 0 ? 0 : op.stride * (op.size - 1);
  demand(op.size < (std::int64_t{1} << 31) && std::abs(op.stride) < (std::int64_t{1} << 31), "its axis is too long");
  if (op.size > 0)
    demand_inside(op.source, v.base(0).shape.numel(), std::min<std::int64_t>(reach, 0),
                  std::max<std::int64_t>(reach, 0));
  demand(op.source.strides.rank() == op.source.shape.rank(), "a view's strides are not of its shape");
}

void check_rule(const Scatter& op, const CaseValue& v) {
  v.demand_count(3);
  demand(op.dim >= 0 && op.dim < v.value.shape.rank(), "its dimension is not there");
  demand(v.shape(0) == v.value.shape && v.dtype(0) == v.value.dtype && v.dtype(2) == v.value.dtype,
         "its operands are not alike");
  demand(is_index(v.dtype(1)) && v.shape(1) == v.shape(2) && v.shape(1).rank() == v.value.shape.rank(),
         "its index is none");
  for (int d = 0; d < v.value.shape.rank(); ++d) {
    demand(d == op.dim || v.shape(1)[d] <= v.value.shape[d], "its index is larger than what it goes to");
  }
  demand(op.op == ScatterOp::set || (computes(v.value.dtype) && v.value.dtype != DType::boolean),
         "its op does not take the dtype");
}

void check_rule(const Scan& op, const CaseValue& v) {
  v.demand_count(1);
  demand(op.dim >= 0 && op.dim < v.value.shape.rank() && v.shape(0) == v.value.shape,
         "its shape is not that of its operand");
  const bool positions = op.op == ScanOp::argmax || op.op == ScanOp::argmin;
  demand(computes(v.dtype(0)) && v.value.dtype == (positions ? DType::i64 : v.dtype(0)),
         "its dtype is not that of its op");
}

void check_rule(const Sort& op, const CaseValue& v) {
  v.demand_count(1);
  demand(op.dim >= 0 && op.dim < v.value.shape.rank() && v.shape(0) == v.value.shape,
         "its shape is not that of its operand");
  demand(computes(v.dtype(0)) && v.value.dtype == DType::i64, "its dtype is not that of its op");
}

void check_rule(const Update& op, const CaseValue& v) {
  v.demand_count(2);
  const auto start = static_cast<std::int64_t>(op.start.bits);
  demand(v.shape(0).numel() == v.value.shape.numel() && !v.value.operands[0].view && v.dtype(0) == v.value.dtype &&
             v.dtype(1) == v.value.dtype,
         "its operands are not alike");
  demand(op.region.shape == v.shape(1) && op.region.bounds.empty(), "its region is not that of its values");
  demand(start >= 0 && start <= v.value.shape.numel() && start % Update::kAligned == 0, "its region begins outside");
  View region = op.region;
  region.offset += start;
  demand_inside(region, v.value.shape.numel());
}

void check_rule(const Fourier& op, const CaseValue& v) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 32;
  v.demand_count(2);
  v.demand_direct(1);
  demand(op.n >= 1 && op.n <= kMostElements, "its lines have no or too many elements");
  const FourierPlan plan(op.kind, op.n);
  const auto of = [](const Shape& shape, std::int64_t elements, bool pairs) {
    return shape.rank() == (pairs ? 4 : 3) && shape[1] == elements && (!pairs || shape[3] == 2);
  };
  const Shape& from = v.shape(0);
  const Shape& to = v.value.shape;
  demand(of(from, plan.inputs(), plan.reads_pairs()) && of(to, plan.outputs(), plan.writes_pairs()) &&
             from[0] == to[0] && from[2] == to[2] && v.shape(1).numel() == plan.table,
         "its shapes are not those of a transform");
  demand((v.value.dtype == DType::f32 || v.value.dtype == DType::f64) && v.dtype(0) == v.value.dtype &&
             v.dtype(1) == v.value.dtype,
         "its dtypes are not those of a transform");
}

void check_rule(const Attend& op, const CaseValue& v) {
  demand(op.numerics == Numerics::blocked || op.numerics == Numerics::fast, "its numerics are not those of attention");
  const std::size_t count = op.gradients ? 5 : 3;
  v.demand_count(count);
  const bool ranks = v.shape(0).rank() == 4 && v.shape(1).rank() == 4 && v.shape(1) == v.shape(2);
  demand(ranks, "its operands are not those of attention");
  const AttentionSizes sizes = attention_sizes(v.shape(0), v.shape(1), op.numerics);
  demand(sizes.key_heads > 0 && sizes.heads % sizes.key_heads == 0 && v.shape(1)[0] == sizes.batches &&
             v.shape(1)[3] == sizes.width,
         "its operands are not those of attention");
  if (op.gradients) {
    v.demand_direct(3);
    demand(v.shape(3) == Shape{sizes.made()} && v.shape(4) == v.shape(0), "its operands are not those of attention");
  }
  demand(v.value.shape == Shape{op.gradients ? sizes.gradients() : sizes.made()} &&
             (op.behind == 0 || op.behind == sizes.keys - sizes.rows) && op.behind >= 0,
         "its shape is not that of attention");
  demand(v.value.dtype == DType::f16 || v.value.dtype == DType::bf16, "its dtypes are not those of attention");
  for (std::size_t i = 0; i < count; ++i) {
    demand(v.dtype(i) == v.value.dtype, "its dtypes are not those of attention");
  }
}

void check_rule(const Recur& op, const CaseValue& v) {
  const bool bytes = op.cell == RecurrentCell::int8_lstm;
  const bool memory = has_memory(op.cell);
  v.demand_count(op.operands() * op.directions());
  const char* const kShapes = "its operands are not those of a recurrence";
  const char* const kDtypes = "its dtypes are not those of a recurrence";
  const Shape& shares = v.shape(0);
  demand(shares.rank() == 3 && v.shape(1).rank() == 2 && shares[0] > 0, kShapes);
  const std::int64_t size = v.shape(1)[bytes ? 0 : 1];
  const std::int64_t gates = gates_of(op.cell) * size;
  for (std::size_t first = 0; first < op.operands() * op.directions(); first += op.operands()) {
    demand(v.shape(first) == Shape{shares[0], shares[1], gates}, kShapes);
    demand(v.shape(first + 1) == (bytes ? Shape{size, gates} : Shape{gates, size}), kShapes);
    demand(v.shape(first + 2) == Shape{gates} && v.shape(first + 3) == Shape{shares[1], size}, kShapes);
    demand(!memory || v.shape(first + 4) == v.shape(first + 3), kShapes);
    for (std::size_t i = 0; i < (memory ? 5 : 4); ++i) {
      demand((bytes && i == 1) || v.dtype(first + i) == DType::f32, kDtypes);
    }
    if (!bytes) continue;
    demand(v.shape(first + 5) == Shape{gates} && v.shape(first + 6) == Shape{gates}, kShapes);
    const DType weights = v.dtype(first + 1);
    demand((weights == DType::u8 || weights == DType::i8) && v.dtype(first + 6) == weights, kDtypes);
    demand(v.dtype(first + 5) == DType::f32, kDtypes);
  }
  const auto directions = static_cast<std::int64_t>(op.directions());
  demand(v.value.shape == Shape{shares[0] + (memory ? 1 : 0), shares[1], directions * size},
         "its shape is not that of a recurrence");
  demand(v.value.dtype == DType::f32, "its dtype is not f32");
}

}  // namespace

std::string mistake_in(const KernelCase& work) {
  if (work.results.empty()) return "it has no result";
  for (std::size_t i = 0; i < work.values.size(); ++i) {
    const KernelCase::Value& value = work.values[i];
    try {
      demand_shape(value.shape);
      if (!work.is_given(i)) demand(value.encoding == Encoding::dense, "what is computed is dense");
      for (std::size_t k = 0; k < value.operands.size(); ++k) {
        const KernelCase::Operand& operand = value.operands[k];
        demand(operand.value < static_cast<int>(i) && operand.value >= -1, "an operand is no earlier value");
        if (!operand.view) continue;
        demand(operand.value >= 0, "a scalar is read through a view");
        demand_inside(*operand.view, work.values[static_cast<std::size_t>(operand.value)].shape.numel());
      }
      visit_primitive([&](const auto& op) { check_rule(op, {work, value}); }, value.op);
    } catch (const CaseMistake& mistake) {
      return fmt::format("value {}: {}", i, mistake.what);
    }
  }
  for (const KernelCase::Result& result : work.results) {
    if (result.value >= work.values.size() || work.is_given(result.value)) return "a result is not computed";
  }
  return {};
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
