#include "graph/lower.h"

#include <algorithm>
#include <map>

#include "core/assert.h"
#include "core/overloaded.h"
#include "graph/lower_irregular.h"
#include "graph/maps.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

using Kind = Instruction::Kind;

// Elementwise kernels whose row values are shared by fewer elements than this gain nothing from rows.
constexpr std::int64_t kShortestRow = 16;

// Whether results in the compute type still have to be rounded or wrapped to the storage type.
bool is_narrow(DType dtype) {
  return dtype != DType::boolean && dtype != dtype_of(compute_type(dtype));
}

class Lowering {
 public:
  Lowering(const std::vector<Entry>& entries, const Fusion& fusion, int group)
      : entries_(entries), fusion_(fusion), group_index_(group), group_(fusion.groups[index(group)]) {}

  Step run() {
    if (group_.alone) return lower_irregular(entries_, group_.members[0].entry);
    choose_inner();
    for (const Group::Member& member : group_.members) emit(member);
    emit_outputs();
    program_.parameters = static_cast<int>(step_.parameters.size());
    if (group_.contraction >= 0) {
      step_.kernel = contraction_kernel();
    } else {
      step_.kernel = RowKernel{std::move(program_)};
    }
    return std::move(step_);
  }

 private:
  // What is known of a member's value: instructions that hold it as a number, or as words.
  struct Value {
    int number = -1;
    int bits = -1;
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  const Entry& entry(int e) const { return entries_[index(e)]; }

  // The dimensions that form the rows' elements, and the order of the iteration space: other dimensions first.
  void choose_inner() {
    const int rank = group_.space.rank();
    std::uint32_t inner = group_.inner;
    if (!group_.decided) inner = elementwise_inner();
    for (int d = 0; d < rank; ++d) {
      if ((inner >> d & 1u) == 0) order_.push_back(d);
    }
    const int rows = order_.rank();
    for (int d = 0; d < rank; ++d) {
      if ((inner >> d & 1u) != 0) order_.push_back(d);
    }
    for (int d = 0; d < rank; ++d) {
      (d < rows ? program_.rows : program_.inner).push_back(group_.space[static_cast<int>(order_[d])]);
    }
  }

  // Values that broadcast along trailing dimensions are computed once per row of these.
  std::uint32_t elementwise_inner() const {
    const int rank = group_.space.rank();
    const std::uint32_t all = (1u << rank) - 1u;
    int best = rank;
    std::int64_t best_length = 0;
    for (const Group::Member& member : group_.members) {
      int first = rank;
      std::int64_t length = 1;
      while (first > 0 && member.map.strides[first - 1] == 0) length *= group_.space[--first];
      const bool varies = std::any_of(member.map.strides.begin(), member.map.strides.end(),
                                      [](std::int64_t stride) { return stride != 0; });
      if (varies && length >= kShortestRow && length > best_length) {
        best = first;
        best_length = length;
      }
    }
    return best_length == 0 ? all : all & ~((1u << best) - 1u);
  }

  View ordered(const View& view) const { return view.permuted(order_); }

  bool is_row(const View& ordered_view) const {
    for (int d = program_.rows.rank(); d < ordered_view.rank(); ++d) {
      if (ordered_view.strides[d] != 0) return false;
      for (const Bound& bound : ordered_view.bounds) {
        if (bound.m[d] != 0) return false;
      }
    }
    return true;
  }

  Extent extent_of(const View& ordered_view) const { return is_row(ordered_view) ? Extent::row : Extent::vector; }

  int add(Instruction instruction) {
    program_.code.push_back(instruction);
    return static_cast<int>(program_.code.size()) - 1;
  }

  Extent extent(int instruction) const { return program_.code[index(instruction)].extent; }

  int constant(ParameterSource source, ComputeType type, DType dtype) {
    step_.parameters.push_back(source);
    return add({.kind = Kind::constant,
                .type = type,
                .dtype = dtype,
                .extent = Extent::row,
                .index = static_cast<int>(step_.parameters.size()) - 1});
  }

  // --- operands -----------------------------------------------------------------------------------------------

  int operand(int reader, int position, const View& map, bool bits) {
    const Entry::Operand& source = entry(reader).operands[index(position)];
    if (source.entry < 0) return scalar_operand(reader, position, bits);
    const bool fills_space = form_of(*entry(reader).op) == Form::rows;
    const std::optional<View> positions = fills_space ? source.view : compose(map, source.view);
    LOCKSTEP_ASSERT(positions.has_value());
    if (fusion_.group_of[index(source.entry)] == group_index_) return member_value(source.entry, bits);
    if (const auto* full = std::get_if<Full>(entry(source.entry).op);
        full != nullptr && !entry(source.entry).given && positions->bounds.empty()) {
      return as_bits_if(
          bits, constant({source.entry, 0}, compute_type(entry(source.entry).dtype), entry(source.entry).dtype));
    }
    if (!entry(source.entry).given && fusion_.group_of[index(source.entry)] < 0) {
      return as_bits_if(bits, source_value(source.entry, ordered(*positions)));
    }
    if (fusion_.recomputed[index(source.entry)]) return again(source.entry, *positions, bits);
    return load(source.entry, ordered(*positions), bits);
  }

  // A value of another group that is not stored, at `positions` of its dense elements.
  int again(int e, const View& positions, bool bits) {
    for (Again& earlier : again_) {
      if (earlier.entry == e && same_positions(earlier.positions, positions)) {
        return as_wanted(earlier.value, entry(e).dtype, bits);
      }
    }
    emit({e, positions});
    Value value = values_.extract(e).mapped();
    const int result = as_wanted(value, entry(e).dtype, bits);
    again_.push_back({e, positions, value});
    return result;
  }

  int scalar_operand(int reader, int position, bool bits) {
    // A scalar has the type of the tensor operands beside it; only `where` has operands of two types.
    DType dtype = entry(reader).dtype;
    const auto& elementwise = std::get<Elementwise>(*entry(reader).op);
    if (info_of(elementwise.op).kind == OpKind::comparison) {
      for (const Entry::Operand& other : entry(reader).operands) {
        if (other.entry >= 0) dtype = entry(other.entry).dtype;
      }
    }
    return as_bits_if(bits, constant({reader, position}, compute_type(dtype), dtype));
  }

  int as_bits_if(bool bits, int number) {
    if (!bits) return number;
    const Instruction& of = program_.code[index(number)];
    return add(
        {.kind = Kind::to_bits, .type = word_type(of.dtype), .dtype = of.dtype, .extent = of.extent, .a = number});
  }

  int member_value(int e, bool bits) { return as_wanted(values_[e], entry(e).dtype, bits); }

  int as_wanted(Value& value, DType dtype, bool bits) {
    int& wanted = bits ? value.bits : value.number;
    const int other = bits ? value.number : value.bits;
    if (wanted < 0) {
      LOCKSTEP_ASSERT(other >= 0);
      const int made = add({.kind = bits ? Kind::to_bits : Kind::from_bits,
                            .type = bits ? word_type(dtype) : compute_type(dtype),
                            .dtype = dtype,
                            .extent = extent(other),
                            .a = other});
      wanted = made;
    }
    return wanted;
  }

  int load(int e, const View& view, bool bits) {
    const DType dtype = entry(e).dtype;
    const Input input = input_through(step_, entries_, e, view);
    LOCKSTEP_ASSERT(input.encoding == Encoding::dense);
    for (std::size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& earlier = program_.code[i];
      if (earlier.kind == (bits ? Kind::load_bits : Kind::load) && program_.inputs[index(earlier.index)] == input) {
        return static_cast<int>(i);
      }
    }
    int input_index = -1;
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      if (program_.inputs[i] == input) input_index = static_cast<int>(i);
    }
    if (input_index < 0) {
      program_.inputs.push_back(input);
      input_index = static_cast<int>(program_.inputs.size()) - 1;
    }
    return add({.kind = bits ? Kind::load_bits : Kind::load,
                .type = bits ? word_type(dtype) : compute_type(dtype),
                .dtype = dtype,
                .extent = extent_of(view),
                .index = input_index});
  }

  // A source computed at the positions `view` selects of its dense value.
  int source_value(int e, const View& view) {
    const Entry& source = entry(e);
    return visit_primitive(overloaded{
                               [&](const Full&) {
                                 return constant({e, 0}, compute_type(source.dtype), source.dtype);
                               },
                               [&](const Iota&) { return position(view); },
                               [&](const Random& random) { return random_value(e, random, view); },
                               [](const OneOf<Data, ViewOf, Elementwise, Cast, Reduce, Contract, Gather, Scatter, Scan,
                                              Sort, Update, Fourier, Attend, Recur> auto&) -> int {
                                 fail_invariant("a source has no operands", __FILE__, __LINE__);
                               },
                           },
                           *source.op);
  }

  int position(const View& view) {
    program_.positions.push_back({view.offset, view.strides});
    return add({.kind = Kind::iota,
                .type = ComputeType::i64,
                .dtype = DType::i64,
                .extent = extent_of(view),
                .index = static_cast<int>(program_.positions.size()) - 1});
  }

  int random_value(int e, const Random& random, const View& view) {
    const Extent where = extent_of(view);
    int at = position(view);
    if (random.word != Random::Word::own) {
      // The pair of an element: its position with the last bit cleared (even) or set (odd).
      const bool even = random.word == Random::Word::even;
      const std::uint64_t mask = even ? ~std::uint64_t{1} : 1;
      const int mask_value = constant({-1, 0, {mask}}, ComputeType::i64, DType::i64);
      at = add({.kind = Kind::elementwise,
                .type = ComputeType::i64,
                .dtype = DType::i64,
                .extent = where,
                .op = even ? Op::bitwise_and : Op::bitwise_or,
                .a = at,
                .b = mask_value});
    }
    step_.parameters.push_back({e, 0});
    step_.parameters.push_back({e, 1});
    const int word = add({.kind = Kind::random,
                          .type = ComputeType::i32,
                          .dtype = DType::u32,
                          .extent = where,
                          .a = at,
                          .index = static_cast<int>(step_.parameters.size()) - 2});
    return add({.kind = Kind::from_bits, .type = ComputeType::i64, .dtype = DType::u32, .extent = where, .a = word});
  }

  // --- members ------------------------------------------------------------------------------------------------

  void emit(const Group::Member& member) {
    const int e = member.entry;
    const Entry& self = entry(e);
    const View map = member.map;
    visit_primitive(
        overloaded{
            [&](const OneOf<Full, Iota, Random> auto&) { values_[e].number = source_value(e, ordered(map)); },
            [&](const Elementwise& elementwise) { emit_elementwise(e, elementwise, map); },
            [&](const Cast&) { emit_cast(e, map); },
            [&](const Reduce& reduce) { emit_reduce(e, reduce, map); },
            [&](const Contract&) {
              values_[e].number =
                  add({.kind = Kind::accumulator, .type = compute_type(self.dtype), .dtype = self.dtype});
            },
            [&](const Gather& gather) { emit_gather(e, gather, map); },
            [](const OneOf<Data, ViewOf, Scatter, Scan, Sort, Update, Fourier, Attend, Recur> auto&) {
              fail_invariant("a member of a group is an instruction of its program", __FILE__, __LINE__);
            },
        },
        *self.op);
  }

  void emit_reduce(int e, const Reduce& reduce, const View& map) {
    const Entry& self = entry(e);
    const int a = spread(operand(e, 0, map, false));
    const int b = reduce.op == ReduceOp::dot ? spread(operand(e, 1, map, false)) : -1;
    values_[e].number = add({.kind = Kind::reduce,
                             .type = compute_type(self.dtype),
                             .dtype = self.dtype,
                             .from = entry(self.operands[0].entry).dtype,
                             .extent = Extent::row,
                             .reduce = reduce.op,
                             .a = a,
                             .b = b});
  }

  void emit_cast(int e, const View& map) {
    const Entry& self = entry(e);
    const int a = operand(e, 0, map, false);
    values_[e].number = add({.kind = Kind::cast,
                             .type = compute_type(self.dtype),
                             .dtype = self.dtype,
                             .from = entry(self.operands[0].entry).dtype,
                             .extent = extent(a),
                             .a = a});
  }

  // Gathers move words: whoever computes with them converts. Of elements that are held in fewer bits that is the
  // gather.
  void emit_gather(int e, const Gather& gather, const View& map) {
    const Entry::Operand& source = entry(e).operands[0];
    const std::optional<View> composed = compose(map, source.view);
    LOCKSTEP_ASSERT(composed && composed->bounds.empty());
    const View first = ordered(*composed);
    const Entry& from = entry(source.entry);
    const DType held = held_dtype(from.encoding, from.dtype);
    program_.tables.push_back({.slot = slot_of(step_, source.entry),
                               .dtype = held,
                               .canonical = from.canonical,
                               .stride = gather.stride,
                               .size = gather.size,
                               .encoding = is_blocks(from.encoding) ? from.encoding : Encoding::dense});
    step_.checks.push_back(e);
    const int table = static_cast<int>(program_.tables.size()) - 1;
    const int element = position(first);
    const int at = operand(e, 1, map, false);
    // Where there are no elements there is no index to be found bad, not even one that all would share.
    const bool vector = extent(element) == Extent::vector || extent(at) == Extent::vector || group_.space.numel() == 0;
    const Extent where = vector ? Extent::vector : Extent::row;
    const int bits = add({.kind = Kind::gather_bits,
                          .type = word_type(held),
                          .dtype = held,
                          .extent = where,
                          .a = at,
                          .b = element,
                          .index = table});
    if (held == from.dtype) {
      values_[e].bits = bits;
      return;
    }
    const ComputeType type = compute_type(held);
    const int number = add({.kind = Kind::from_bits, .type = type, .dtype = held, .extent = where, .a = bits});
    values_[e].number = add({.kind = Kind::cast,
                             .type = compute_type(from.dtype),
                             .dtype = from.dtype,
                             .from = held,
                             .extent = where,
                             .a = number});
  }

  void emit_elementwise(int e, const Elementwise& elementwise, const View& map) {
    const DType dtype = entry(e).dtype;
    const OpInfo& op = info_of(elementwise.op);
    const bool moves = op.kind == OpKind::move;
    int operands[3] = {-1, -1, -1};
    Extent where = Extent::row;
    for (int i = 0; i < op.arity; ++i) {
      const bool bits = moves && !(elementwise.op == Op::where && i == 0);
      operands[i] = operand(e, i, map, bits);
      if (extent(operands[i]) == Extent::vector) where = Extent::vector;
    }
    Instruction instruction{.kind = Kind::elementwise,
                            .type = moves ? word_type(dtype) : compute_type(dtype),
                            .dtype = dtype,
                            .extent = where,
                            .op = elementwise.op,
                            .a = operands[0],
                            .b = operands[1],
                            .c = operands[2]};
    if (op.kind == OpKind::comparison) instruction.from = program_.code[index(operands[0])].dtype;
    int made = add(instruction);
    if (op.kind == OpKind::arithmetic && is_narrow(dtype)) {
      made = add(
          {.kind = Kind::cast, .type = compute_type(dtype), .dtype = dtype, .from = dtype, .extent = where, .a = made});
    }
    (moves ? values_[e].bits : values_[e].number) = made;
  }

  // A row value for every element of its row.
  int spread(int value, bool bits = false) {
    const Instruction row = program_.code[index(value)];
    if (row.extent == Extent::vector) return value;
    if (bits) return add({.kind = Kind::elementwise, .type = row.type, .dtype = row.dtype, .op = Op::copy, .a = value});
    return add({.kind = Kind::cast, .type = row.type, .dtype = row.dtype, .from = row.dtype, .a = value});
  }

  void emit_outputs() {
    for (const Group::Member& member : group_.members) {
      if (!fusion_.stored[index(member.entry)]) continue;
      View map = ordered(member.map);
      // A value without elements moves along the dimensions that have none, or it would look like one per row.
      for (int d = 0; d < map.shape.rank(); ++d) {
        if (map.shape[d] == 0 && entry(member.entry).shape.numel() == 0) map.strides[d] = 1;
      }
      Value& value = values_[member.entry];
      const bool bits = value.bits >= 0;
      int stored = bits ? value.bits : value.number;
      const DType dtype = entry(member.entry).dtype;
      if (extent(stored) == Extent::row && !is_row(map)) {
        stored = spread(stored, bits);
      }
      program_.outputs.push_back({.slot = slot_of(step_, member.entry),
                                  .dtype = dtype,
                                  .value = stored,
                                  .bits = bits,
                                  .strides = map.strides});
      step_.writes.push_back(member.entry);
    }
  }

  ContractionKernel contraction_kernel() {
    const Entry& self = entry(group_.contraction);
    const auto& contract = *primitive_if<Contract>(*self.op);
    ContractionKernel kernel;
    kernel.b = contract.b;
    kernel.m = contract.m;
    kernel.n = contract.n;
    kernel.k = contract.k;
    kernel.type = compute_type(self.dtype);
    kernel.numerics = contract.numerics;
    kernel.a = input_of(step_, entries_, group_.contraction, 0);
    kernel.b_operand = input_of(step_, entries_, group_.contraction, 1);
    kernel.epilogue = std::move(program_);
    return kernel;
  }

  const std::vector<Entry>& entries_;
  const Fusion& fusion_;
  const int group_index_;
  const Group& group_;
  Shape order_;
  Program program_;
  Step step_;
  std::map<int, Value> values_;
  struct Again {
    int entry = 0;
    View positions;
    Value value;
  };
  std::vector<Again> again_;
};

}  // namespace

Step lower(const std::vector<Entry>& entries, const Fusion& fusion, int group) {
  return Lowering(entries, fusion, group).run();
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
