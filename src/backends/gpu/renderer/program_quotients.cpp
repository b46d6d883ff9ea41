// Quotients by row values, whose inverse is computed once per row: a product and two fma that correct it, or, where
// only a rounding to bf16 takes the quotient, the product alone. The lemmas stand at quick_quotient and
// quick_quotient_to_bf16 (kernels/math.h): each says for which results it holds, and the others are divided in full.
#include <algorithm>

#include "backends/gpu/renderer/program.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Kind = Instruction::Kind;

}  // namespace

void ProgramWriter::declare_inverses(Lines& lines, const std::set<int>& instructions) {
  const auto type_and_extent = [&](int i, Extent extent) {
    return type_of(i) == ComputeType::f32 && program_.code[static_cast<std::size_t>(i)].extent == extent;
  };
  for (const int i : instructions) {
    const Instruction& step = program_.code[static_cast<std::size_t>(i)];
    if (step.kind != Kind::elementwise || step.op != Op::div || step.type != ComputeType::f32) continue;
    if (!type_and_extent(step.a, Extent::vector) || !type_and_extent(step.b, Extent::row)) continue;
    const Instruction& x = program_.code[static_cast<std::size_t>(step.a)];
    if (x.kind == Kind::elementwise && x.op == Op::exp && shares_.insert(i).second)
      lines.add("float minus{}_{} = -{};", step.b, i, name(step.b));
    if (!inverses_.insert(step.b).second) continue;
    if (known_.insert("quotient").second) {
      functions_ +=
          "FUNCTION float inverse_of(float d) {\n"
          "  return SELECT(BITS(d) - 0x37800000u < 0x26000000u /* 2^-16 to 2^60 */, DIV(1.0f, d), "
          "FROM_BITS(0x7fc00000u));\n"
          "}\n"
          "RARE_FUNCTION float full_quotient(float x, float d) { return CANONICAL_F32(DIV(x, d)); }\n";
    }
    lines.add("float inverse{0} = inverse_of({1});", step.b, name(step.b));
  }
}

bool ProgramWriter::divides_by_inverse(int i) const {
  const Instruction& step = program_.code[static_cast<std::size_t>(i)];
  return step.kind == Kind::elementwise && step.op == Op::div && type_of(step.a) == ComputeType::f32 &&
         inverses_.contains(step.b);
}

void ProgramWriter::write_group(Lines& lines, const std::set<int>& instructions, const std::set<int>& outputs,
                                const std::function<void()>& elements) {
  // Shares have no doubts.
  if (!outputs.empty() && std::all_of(outputs.begin(), outputs.end(), [&](int o) { return is_share(o); })) {
    for (const int o : outputs) {
      if (has_haste_ && program_.outputs[static_cast<std::size_t>(o)].dtype == DType::bf16) rounded_.insert(o);
    }
    return elements();
  }
  const bool divides = std::any_of(instructions.begin(), instructions.end(),
                                   [&](int i) { return divides_by_inverse(i) && !shortcuts_.shares.contains(i); });
  const bool hastens = is_hasty(instructions, outputs);
  // What is stored one by one may be an operand of what is computed once more.
  const bool stays = std::all_of(outputs.begin(), outputs.end(), [&](int o) { return vector_outputs_.contains(o); });
  if ((!divides && !hastens) || !stays) return elements();
  lines.add("bool doubtful = false;");
  if (divides) quotients_ = Quotients::quick;
  if (hastens) begin_haste(instructions, outputs);
  const bool watches = watched_left_ > 0;
  if (watches) lines.add("float doubt = 0.0f, doubted = 0.0f;");
  if (!sure_.empty()) lines.add("float least = 1.0f;");
  elements();
  // Infinite, or no number; below 2^-90.
  lines.open("if (doubtful{}{}) {{", watches ? " || (BITS(doubt) & 0x7f800000u) == 0x7f800000u" : "",
             sure_.empty() ? "" : " || !(least >= FROM_BITS(0x12800000u))");
  if (divides) quotients_ = Quotients::full;
  if (hastens) haste_ = Haste::careful;
  elements();
  lines.close();
  quotients_ = Quotients::each;
  haste_ = Haste::none;
  sure_.clear();
  loose_.clear();
}

void ProgramWriter::quotient(Lines& lines, const Instruction& step, int i) const {
  const std::string exact =
      shares_.contains(i)
          ? fmt::format("quick_share({}, minus{}_{}, inverse{}, {})", name(step.a), step.b, i, step.b, name(i))
          : fmt::format("quick_quotient({}, {}, inverse{}, {})", name(step.a), name(step.b), step.b, name(i));
  if (shortcuts_.shares.contains(i)) {
    lines.add("float {};", name(i));
    return lines.add("{};", exact);
  }
  const std::string full = fmt::format("full_quotient({}, {})", name(step.a), name(step.b));
  if (quotients_ == Quotients::full) return lines.add("float {} = {};", name(i), full);
  const std::string quick =
      roundings_.only_to_bf16[static_cast<std::size_t>(i)]
          ? fmt::format("quick_quotient_to_bf16({}, inverse{}, {})", name(step.a), step.b, name(i))
          : exact;
  lines.add("float {};", name(i));
  lines.add("if (!{}) {};", quick, quotients_ == Quotients::quick ? "doubtful = true" : name(i) + " = " + full);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
