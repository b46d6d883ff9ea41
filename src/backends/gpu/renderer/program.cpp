#include "backends/gpu/renderer/program.h"

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Kind = Instruction::Kind;

struct RowText {
  const char* floats;
  const char* integers;
};
constexpr RowText kRows[] = {
#define ROW(name, arity, kind, types, cost, domain, call, torch, float_value, integer_value, ...) \
  {#float_value, #integer_value},
#include "kernels/ops.def"
#undef ROW
};

const char* suffix(ComputeType type) {
  switch (type) {
    case ComputeType::f32: return "f32";
    case ComputeType::f64: return "f64";
    case ComputeType::i32: return "i32";
    case ComputeType::i64: return "i64";
  }
  return "";
}

const char* canonical_macro(Rounding rounding) {
  switch (rounding) {
    case Rounding::none:
    case Rounding::to_16_bits: return "";
    case Rounding::flushed: return "FLUSHED_F32";
    case Rounding::canonical: break;
  }
  return "CANONICAL_F32";
}

bool is_half(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

/// Null for what is not rounded to 16 bits.
const char* rounding_macro(DType dtype, Rounding rounding) {
  if (!is_half(dtype)) return nullptr;
  const bool half = dtype == DType::f16;
  switch (rounding) {
    case Rounding::none: return "";
    case Rounding::to_16_bits: return half ? "ANY_ROUND_F16" : "NEAREST_BF16";
    case Rounding::flushed: return half ? "ANY_ROUND_F16" : "ANY_ROUND_BF16";
    case Rounding::canonical: break;
  }
  return half ? "ROUND_F16" : "ROUND_BF16";
}

const char* cast_name(DType dtype) {
  return dtype == DType::boolean ? "bool" : name_of(dtype).data();
}

}  // namespace

ProgramWriter::ProgramWriter(const Program& program, const Space& space, Words& words)
    : program_(program), space_(space), words_(words), roundings_(program), users_(program.code.size(), kNobody) {
  const auto take = [&](int value, int user) {
    if (value < 0) return;
    int& of = users_[static_cast<std::size_t>(value)];
    of = of == kNobody ? user : kMany;
  };
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& step = program.code[i];
    for (const int operand : {step.a, step.b, step.c}) take(operand, static_cast<int>(i));
  }
  for (const Output& output : program.outputs) take(output.value, kMany);
}

void ProgramWriter::declare_buffers(Lines& lines) {
  std::set<int> slots;
  for (const Input& input : program_.inputs) slots.insert(input.slot);
  for (const Output& output : program_.outputs) slots.insert(output.slot);
  for (const Table& table : program_.tables) slots.insert(table.slot);
  for (const int s : slots) lines.add("MEMORY {} = {};", slot(s), words_.memory(Patch::Kind::address, s));
  if (!program_.tables.empty()) lines.add("MEMORY faults = {};", words_.memory(Patch::Kind::faults, 0));
}

void ProgramWriter::declare_places(Lines& lines, const std::string& part, const std::string& base, int first, int last,
                                   const std::set<int>& instructions, const std::set<int>& outputs, bool complete) {
  std::set<int> inputs;
  for (const int i : instructions) {
    const Instruction& step = program_.code[static_cast<std::size_t>(i)];
    if (step.kind == Kind::load || step.kind == Kind::load_bits) inputs.insert(step.index);
  }
  for (const int input : inputs) {
    Access(fmt::format("in{}", input), space_.inputs[static_cast<std::size_t>(input)], space_.wide)
        .declare(lines, words_, part, base, first, last, "i");
  }
  for (const int output : outputs) {
    Access(fmt::format("out{}", output), space_.outputs[static_cast<std::size_t>(output)], space_.wide)
        .declare(lines, words_, part, base, first, last, "i");
  }
  std::set<int> positions;
  for (const int i : instructions) {
    const Instruction& step = program_.code[static_cast<std::size_t>(i)];
    if (step.kind == Kind::iota) positions.insert(step.index);
  }
  for (const int p : positions) {
    const View& view = space_.positions[static_cast<std::size_t>(p)];
    std::string sum = base.empty() ? words_.int64(view.offset) : fmt::format("position{}_{}", p, base);
    for (int d = first; d < last; ++d) {
      if (view.strides[d] != 0) sum += fmt::format(" + {} * LONG(i{})", words_.int64(view.strides[d]), d);
    }
    lines.add("LONG position{}_{} = {};", p, part, sum);
  }
  if (!complete) return;
  for (const int input : inputs) {
    Access(fmt::format("in{}", input), space_.inputs[static_cast<std::size_t>(input)], space_.wide)
        .check_bounds(lines, words_, part);
  }
}

std::set<int> ProgramWriter::fixed_along(int first, int last) const {
  const auto varies = [&](const View& view) {
    for (int d = first; d < last; ++d) {
      if (view.strides[d] != 0) return true;
      for (const Bound& bound : view.bounds) {
        if (bound.m[d] != 0) return true;
      }
    }
    return false;
  };
  std::set<int> fixed;
  for (std::size_t i = 0; i < program_.code.size(); ++i) {
    const Instruction& step = program_.code[i];
    const auto index = static_cast<std::size_t>(step.index);
    if (step.kind == Kind::accumulator || step.kind == Kind::reduce) continue;
    if ((step.kind == Kind::load || step.kind == Kind::load_bits) && varies(space_.inputs[index])) continue;
    if (step.kind == Kind::iota && varies(space_.positions[index])) continue;
    const auto has = [&](int operand) { return operand < 0 || fixed.contains(operand); };
    if (has(step.a) && has(step.b) && has(step.c)) fixed.insert(static_cast<int>(i));
  }
  return fixed;
}

std::string ProgramWriter::value(int i, ComputeType type) const {
  return converted(name(i), type_of(i), type);
}

std::string ProgramWriter::parameter(int index, ComputeType type) {
  const std::string word = words_.scalar(index);
  switch (type) {
    case ComputeType::f32: return fmt::format("FROM_BITS(UINT({}))", word);
    case ComputeType::f64: return fmt::format("FROM_BITS64({})", word);
    case ComputeType::i32: return fmt::format("int(UINT({}))", word);
    case ComputeType::i64: return fmt::format("LONG({})", word);
  }
  return "";
}

std::string ProgramWriter::load_word(Lines& lines, const Instruction& step, int i, const std::string& part) {
  const Input& input = program_.inputs[static_cast<std::size_t>(step.index)];
  const Access access(fmt::format("in{}", step.index), space_.inputs[static_cast<std::size_t>(step.index)],
                      space_.wide);
  const std::string load = fmt::format("{}({}, {})", load_of(input.dtype), slot(input.slot), access.address(part));
  const std::string word = fmt::format("w{}", i);
  if (vector_inputs_.contains(step.index)) {
    lines.add("UINT {} = in{}_words{}[q];", word, step.index, batched_ ? "[b]" : "");
    return word;
  }
  if (!access.bounded()) {
    lines.add("{} {} = {};", word_type_of(input.dtype), word, load);
    return word;
  }
  const bool is_long = size_of(input.dtype) == 8;
  lines.add("{} {} = {};", word_type_of(input.dtype), word,
            is_long ? words_.uint64(input.view.fill) : words_.uint32(input.view.fill));
  lines.add("if ({}) {} = {};", access.inside(part), word, load);
  return word;
}

std::string ProgramWriter::gather_word(Lines& lines, const Instruction& step, int i) {
  const Table& table = program_.tables[static_cast<std::size_t>(step.index)];
  const std::string at = fmt::format("at{}", i);
  const std::string word = fmt::format("w{}", i);
  lines.add("LONG {} = {};", at, value(step.a, ComputeType::i64));
  lines.add("{} {} = {}(0);", word_type_of(table.dtype), word, word_type_of(table.dtype));
  lines.open("if (ULONG({}) < {}) {{", at, words_.uint64(static_cast<std::uint64_t>(table.size)));
  lines.add("{} = {}({}, {} + {} * {});", word, load_of(table.encoding, table.dtype), slot(table.slot),
            value(step.b, ComputeType::i64), words_.int64(table.stride), at);
  lines.close();
  lines.open("else {{");
  lines.add("STORE_U32(faults, {}, 1u);", step.index);
  lines.close();
  return word;
}

std::string ProgramWriter::function_of(Op op, ComputeType type, Rounding rounding) {
  const OpInfo& info = info_of(op);
  const bool is_rounded = type == ComputeType::f32 && info.kind == OpKind::arithmetic;
  const std::string macro = is_rounded ? canonical_macro(rounding) : "";
  const std::string name = fmt::format("op_{}_{}{}{}", info.name, suffix(type), macro.empty() ? "" : "_", macro);
  if (!known_.insert(name).second) return name;
  const RowText& row = kRows[static_cast<std::size_t>(op)];
  std::string text = is_integer(type) ? row.integers : row.floats;
  if (!is_integer(type)) {
    // Division as a word of its own: not every device's operator is exact.
    for (const auto& [from, to] : {std::pair{"a / b", "DIV(a, b)"}, {"T(1) / a", "DIV(T(1), a)"}}) {
      if (const std::size_t at = text.find(from); at != std::string::npos)
        text.replace(at, std::string_view(from).size(), to);
    }
    LOCKSTEP_ASSERT(text.find('/') == std::string::npos);
  }
  const char* t = type_name(type);
  std::string parameters;
  for (int i = 0; i < info.arity; ++i) parameters += fmt::format("{}{} {}", i == 0 ? "" : ", ", t, "abc"[i]);
  const bool comparison = info.kind == OpKind::comparison;
  const char* declared = type == ComputeType::f32 ? "FLOAT" : type == ComputeType::f64 ? "DOUBLE" : t;
  functions_ += fmt::format("#define T {}\n", t);
  if (comparison) {
    functions_ += fmt::format("FUNCTION int {}({}) {{ return SELECT(bool({}), 1, 0); }}\n", name, parameters,
                              text);  // some say so with an int, which GLSL does not take for a condition
  } else {
    functions_ +=
        fmt::format("FUNCTION {0} {1}({2}) {{ {3} result = {4}; return {5}; }}\n", t, name, parameters, declared, text,
                    info.kind != OpKind::arithmetic ? std::string("result")
                    : type == ComputeType::f32      ? fmt::format("{}(result)", macro)
                                                    : "canonical(result)");
  }
  functions_ += "#undef T\n";
  return name;
}

bool ProgramWriter::holds(DType dtype, int i) const {
  const Instruction& step = program_.code[static_cast<std::size_t>(i)];
  if (step.kind == Kind::load) return program_.inputs[static_cast<std::size_t>(step.index)].dtype == dtype;
  return step.kind == Kind::cast && step.dtype == dtype;
}

bool ProgramWriter::is_bf16(int i) const {
  const Instruction& step = program_.code[static_cast<std::size_t>(i)];
  if (step.type != ComputeType::f32) return false;
  if (step.kind == Kind::load) return program_.inputs[static_cast<std::size_t>(step.index)].dtype == DType::bf16;
  if (step.kind != Kind::cast) return false;
  return roundings_.bf16[static_cast<std::size_t>(i)] || (step.dtype == DType::f32 && is_bf16(step.a));
}

std::string ProgramWriter::elementwise(const Instruction& step, int i) {
  if (shortcuts_.mild.contains(i)) return fmt::format("exp_of_mild({})", name(step.a));
  if (shortcuts_.low.contains(i)) return fmt::format("exp_of_low({})", name(step.a));
  const OpInfo& info = info_of(step.op);
  ComputeType type = step.type;
  if (info.kind == OpKind::comparison) {
    type = type_of(step.a);
    if (type == ComputeType::i32 && step.b >= 0) type = type_of(step.b);
  }
  if (step.op == Op::gelu_erf && type == ComputeType::f32) {
    const auto at = static_cast<std::size_t>(i);
    if (roundings_.only_to_bf16[at] && holds(DType::bf16, step.a)) {
      return fmt::format("{}GELU_TO_BF16({})", haste_ == Haste::hasty ? "HASTY_" : "", name(step.a));
    }
    if (roundings_.only_to_f16[at] && holds(DType::f16, step.a)) return fmt::format("GELU_TO_F16({})", name(step.a));
  }
  const Rounding rounding = shortcuts_.not_tiny.contains(i) || late_.contains(i) ? Rounding::none : rounding_of(i);
  if (step.op == Op::add && type == ComputeType::f32 && (factors_.contains(step.a) || factors_.contains(step.b))) {
    const int flushed = factors_.contains(step.a) ? step.a : step.b;
    const int other = flushed == step.a ? step.b : step.a;
    return fmt::format("{}(FMA({}, factor{}, {}))", canonical_macro(rounding), name(flushed), flushed,
                       value(other, type));
  }
  std::string arguments;
  for (int o = 0; o < info.arity; ++o) {
    const int operand = o == 0 ? step.a : o == 1 ? step.b : step.c;
    arguments += (o == 0 ? "" : ", ") + value(operand, type);
  }
  return fmt::format("{}({})", function_of(step.op, type, rounding), arguments);
}

bool ProgramWriter::is_late(int i) const {
  return late_.contains(i) && !shortcuts_.not_tiny.contains(i);
}

void ProgramWriter::flush_in_sums(const std::set<int>& kept) {
  std::map<int, int> uses;
  std::set<int> others;  // are taken by something else
  for (const Output& output : program_.outputs) others.insert(output.value);
  for (std::size_t i = 0; i < program_.code.size(); ++i) {
    const Instruction& step = program_.code[i];
    const bool sums = step.kind == Kind::elementwise && step.op == Op::add && step.type == ComputeType::f32;
    for (const int operand : {step.a, step.b, step.c}) {
      if (operand >= 0 && (!sums || ++uses[operand] > 1)) others.insert(operand);
    }
  }
  for (const auto& [i, count] : uses) {
    const Instruction& step = program_.code[static_cast<std::size_t>(i)];
    const bool flushes = rounding_of(i) == Rounding::flushed && step.type == ComputeType::f32 &&
                         (step.kind == Kind::elementwise || rounds_in_haste(i));
    if (flushes && step.extent == Extent::vector && !kept.contains(i) && !others.contains(i)) late_.insert(i);
  }
}

void ProgramWriter::declare_factor(Lines& lines, int i, int of, const char* least) {
  lines.add("float factor{} = FLUSH_FACTOR({}, {});", i, name(of), least);
  factors_.insert(i);
}

void ProgramWriter::emit(Lines& lines, int i, const std::string& part) {
  factors_.erase(i);
  const Instruction& step = program_.code[static_cast<std::size_t>(i)];
  const auto define = [&](const std::string& text) { lines.add("{} {} = {};", type_name(step.type), name(i), text); };
  const auto words_as_value = [&](const std::string& word) {
    return fmt::format("{}({})", type_name(step.type), word);
  };
  const Rounding rounding = roundings_.results[static_cast<std::size_t>(i)];
  const auto loaded = [&](DType dtype, const std::string& word, bool canonical) {
    return dtype == DType::f16 && rounding == Rounding::flushed ? fmt::format("ANY_DECODE_F16({})", word)
                                                                : decoded(dtype, word, canonical);
  };
  switch (step.kind) {
    case Kind::load: {
      const Input& input = program_.inputs[static_cast<std::size_t>(step.index)];
      return define(loaded(input.dtype, load_word(lines, step, i, part), input.canonical));
    }
    case Kind::load_bits: return define(words_as_value(load_word(lines, step, i, part)));
    case Kind::gather: {
      const Table& table = program_.tables[static_cast<std::size_t>(step.index)];
      return define(loaded(table.dtype, gather_word(lines, step, i), table.canonical));
    }
    case Kind::gather_bits: return define(words_as_value(gather_word(lines, step, i)));
    case Kind::constant: return define(parameter(step.index, step.type));
    case Kind::iota: return define(fmt::format("position{}_{}", step.index, part));
    case Kind::random: {
      const std::string seed = fmt::format("seed{}", i);
      const std::string draw = fmt::format("draw{}", i);
      const std::string position = fmt::format("position_of{}", i);
      lines.add("ULONG {} = {};", seed, words_.scalar(step.index));
      lines.add("ULONG {} = {};", draw, words_.scalar(step.index + 1));
      lines.add("ULONG {} = ULONG({});", position, value(step.a, ComputeType::i64));
      return define(
          fmt::format("int(philox_word(UINT({0}), UINT({0} >> 32), UINT({1}), UINT({1} >> 32), UINT({2}), "
                      "UINT({2} >> 32)))",
                      seed, draw, position));
    }
    case Kind::elementwise:
      if (divides_by_inverse(i)) return quotient(lines, step, i);
      define(elementwise(step, i));
      if (haste_ == Haste::hasty) {
        const int user = users_[static_cast<std::size_t>(i)];
        if (sure_.contains(user)) return;
        const auto sure = sure_.find(i);
        if (sure != sure_.end() && sure->second >= 0)
          lines.add("least = LEAST_MAGNITUDE(least, {});", name(sure->second));
      }
      if (is_late(i)) declare_factor(lines, i, i, "0x00800000u");
      return;
    case Kind::cast:
      if (compute_type(step.from) == ComputeType::f32 && type_of(step.a) == ComputeType::f32) {
        if (step.dtype == DType::f32) return define(fmt::format("{}({})", canonical_macro(rounding), name(step.a)));
        if (haste_ == Haste::hasty && rounds_in_haste(i)) {
          const bool loose = loose_.contains(i);
          const bool nearest = rounding == Rounding::to_16_bits || late_.contains(i);
          const char* macro = loose ? "HASTY_LOOSE_BF16" : nearest ? "HASTY_NEAREST_BF16" : "HASTY_BF16";
          define(fmt::format("{}({})", macro, name(step.a)));
          if (late_.contains(i) && !loose) declare_factor(lines, i, step.a, "0x00808000u");
          if (is_watched(i)) watch(lines, name(i));
          return;
        }
        if (const char* round = rounding_macro(step.dtype, rounding)) {
          return define(fmt::format("{}({})", round, name(step.a)));
        }
      }
      // Rounded to odd, beyond 24 bits to a multiple of 256, as cast.h does in 64 bits, where Mesa 22.3 loses the sign.
      if (is_half(step.dtype) && compute_type(step.from) == ComputeType::i32) {
        return define(
            fmt::format("cast_{1}(float(SELECT({0} > -0x1000000 && {0} < 0x1000000, {0}, ({0} & ~255) | "
                        "SELECT(({0} & 255) != 0, 256, 0))))",
                        value(step.a, ComputeType::i32), cast_name(step.dtype)));
      }
      return define(fmt::format("cast_{}({})", cast_name(step.dtype), value(step.a, compute_type(step.from))));
    case Kind::to_bits: {
      const std::string word = encoded(step.dtype, value(step.a, compute_type(step.dtype)), compute_type(step.dtype));
      // Words are zero extended.
      const std::size_t size = size_of(step.dtype);
      const bool masked = size < 4 && compute_type(step.dtype) == ComputeType::i32;
      return define(words_as_value(masked ? fmt::format("({} & {}u)", word, size == 1 ? "0xff" : "0xffff") : word));
    }
    case Kind::from_bits: {
      const bool is_long = size_of(step.dtype) == 8;
      const std::string word = (is_long ? "ULONG(" : "UINT(") + name(step.a) + ")";
      return define(decoded(step.dtype, word, false));
    }
    case Kind::accumulator: return define(step.index == 1 ? "second_accumulator" : "accumulator");
    case Kind::reduce: break;
  }
  LOCKSTEP_ASSERT(false);
}

void ProgramWriter::store(Lines& lines, int output, const std::string& part) {
  const Output& out = program_.outputs[static_cast<std::size_t>(output)];
  const ComputeType type = type_of(out.value);
  std::string word;
  if (vector_outputs_.contains(output) && rounds_at_store(output)) {
    if (rounded_.contains(output)) {
      lines.add("out{}_words[q] = {};", output, hasty_output(output));
      if (is_sure_output(output)) lines.add("least = LEAST_MAGNITUDE(least, out{}_words[q]);", output);
      const bool watches = haste_ == Haste::hasty && !is_share_of_row(out.value);
      if (watches && watched_.empty() && watched_left_ == 1) {
        --watched_left_;
        lines.add("if (q % 2 == 1) doubt = FMA(out{0}_words[q - 1], out{0}_words[q], doubt);", output);
      } else if (watches) {
        watch(lines, fmt::format("out{}_words[q]", output));
      }
      return;
    }
    return lines.add("out{}_words[q] = {};", output, name(out.value));
  }
  if (out.bits) {
    word = encoded(out.dtype, name(out.value), type);
    if (!is_integer(type)) word = (type == ComputeType::f64 ? "BITS64(" : "BITS(") + name(out.value) + ")";
  } else {
    // Lemma: the word of what a cast has rounded to bf16 is the upper half of its bits.
    const bool is_rounded = out.dtype == DType::bf16 && roundings_.bf16[static_cast<std::size_t>(out.value)];
    word = is_rounded ? fmt::format("(BITS({}) >> 16)", name(out.value)) : encoded(out.dtype, name(out.value), type);
  }
  if (vector_outputs_.contains(output)) return lines.add("out{}_words[q] = {};", output, word);
  lines.add("{}({}, out{}_{}, {});", store_of(out.dtype), slot(out.slot), output, part, word);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
