#include "backends/gpu/renderer/space.h"

#include <algorithm>
#include <bit>

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::int64_t kNarrow = std::int64_t{1} << 31;

bool leaves_31_bits(std::int64_t offset, const Shape& coefficients, const Shape& shape) {
  // Sums of magnitudes: an upper bound that also covers the steps of the computation.
  std::int64_t reach = std::abs(offset);
  for (int d = 0; d < shape.rank(); ++d) {
    const std::int64_t magnitude = std::abs(coefficients[d]);
    if (shape[d] > 1 && magnitude > kNarrow / (shape[d] - 1)) return true;
    reach += magnitude * std::max<std::int64_t>(shape[d] - 1, 0);
    if (reach >= kNarrow) return true;
  }
  return false;
}

}  // namespace

bool is_wide(const View& view) {
  if (leaves_31_bits(view.offset, view.strides, view.shape)) return true;
  return std::any_of(view.bounds.begin(), view.bounds.end(), [&](const Bound& bound) {
    return leaves_31_bits(bound.offset, bound.m, view.shape) || std::abs(bound.lo) >= kNarrow / 4 ||
           std::abs(bound.hi) >= kNarrow / 4 || std::abs(bound.offset) >= kNarrow / 4 ||
           std::abs(bound.stride) >= kNarrow / 4;
  });
}

Space Space::of(const Program& program, bool keep_rows) {
  Space space;
  Shape shape = program.rows;
  for (const std::int64_t size : program.inner) shape.push_back(size);
  for (const Input& input : program.inputs) space.inputs.push_back(input.view);
  for (const Output& output : program.outputs)
    space.outputs.push_back(View{.shape = shape, .strides = output.strides, .offset = output.offset});
  for (const Position& position : program.positions) {
    space.positions.push_back(View{.shape = shape, .strides = position.strides, .offset = position.offset});
  }
  space.row_count = program.rows.numel();
  space.length = program.inner.numel();
  space.wide = space.row_count >= kNarrow || space.length >= kNarrow ||
               (space.length > 0 && space.row_count >= kNarrow / space.length);
  for (const auto* views : {&space.inputs, &space.outputs}) {
    space.wide = space.wide || std::any_of(views->begin(), views->end(), is_wide);
  }
  std::vector<View*> views;
  for (auto* list : {&space.inputs, &space.outputs, &space.positions}) {
    for (View& view : *list) views.push_back(&view);
  }
  std::vector<int> first_of;
  const int rows = program.rows.rank();
  const std::vector<int> keep =
      keep_rows && rows > 0 && rows < shape.rank() ? std::vector<int>{rows} : std::vector<int>{};
  space.shape = collapse_dims(views, shape, keep, &first_of);
  space.rows = rows < shape.rank() ? first_of[static_cast<std::size_t>(rows)] : space.shape.rank();
  return space;
}

std::string quotient(Words& words, const std::string& x, std::int64_t size, bool wide) {
  if (wide) return fmt::format("({} / {})", x, words.int64(size));
  // Granlund and Montgomery: x / size = (high(x * m) + x) >> s with 2^s >= size; the sum fits since x < 2^31.
  const auto divisor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
  const auto shift = static_cast<int>(std::bit_width(divisor - 1));
  const std::uint64_t magic = ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - divisor)) / divisor + 1;
  const std::string m = words.uint32(magic);
  return fmt::format("int((MUL_HIGH(UINT({0}), {1}) + UINT({0})) >> {2})", x, m,
                     words.uint32(static_cast<std::uint64_t>(shift)));
}

void decompose(Lines& lines, Words& words, const Shape& shape, int first, int last, const std::string& linear,
               const std::string& name, bool wide) {
  const char* type = wide ? "LONG" : "int";
  std::string rest = linear;
  for (int d = last - 1; d >= first; --d) {
    if (d == first) {
      lines.add("{} {}{} = {};", type, name, d, rest);
      return;
    }
    const std::string next = fmt::format("{}_above{}", name, d);
    lines.add("{} {} = {};", type, next, quotient(words, rest, shape[d], wide));
    lines.add("{} {}{} = {} - {} * {};", type, name, d, rest, next, words.index(shape[d], wide));
    rest = next;
  }
}

std::string Access::term(Words& words, std::int64_t coefficient, const std::string& index) const {
  if (coefficient == 0) return "";
  if (coefficient == 1) return " + " + index;
  return fmt::format(" + {} * {}", words.index(coefficient, wide_), index);
}

std::string Access::sum(Words& words, int bound, int first, int last, const std::string& index,
                        bool with_constant) const {
  const Bound* of = bound < 0 ? nullptr : &view_.bounds[static_cast<std::size_t>(bound)];
  const Shape& coefficients = of == nullptr ? view_.strides : of->m;
  // Counted from lo, so that one unsigned comparison checks both ends; steps need the coordinate itself.
  const std::int64_t constant = of == nullptr ? view_.offset : of->offset - (of->step == 1 ? of->lo : 0);
  std::string sum = with_constant ? words.index(constant, wide_) : fmt::format("{}(0)", index_type());
  for (int d = first; d < last; ++d) sum += term(words, coefficients[d], fmt::format("{}{}", index, d));
  return sum;
}

void Access::declare(Lines& lines, Words& words, const std::string& part, const std::string& base, int first, int last,
                     const std::string& index) const {
  for (int b = -1; b < bounds(); ++b) {
    const std::string suffix = b < 0 ? "" : fmt::format("_{}", b);
    const std::string before = base.empty() ? "" : fmt::format("{}_{}{} + ", name_, base, suffix);
    lines.add("{} {}_{}{} = {}{};", index_type(), name_, part, suffix, before,
              sum(words, b, first, last, index, base.empty()));
  }
}

void Access::check_bounds(Lines& lines, Words& words, const std::string& part) const {
  if (!bounded()) return;
  const char* word = wide_ ? "ULONG" : "UINT";
  std::string inside;
  for (std::size_t b = 0; b < view_.bounds.size(); ++b) {
    const Bound& bound = view_.bounds[b];
    const std::string c = fmt::format("{}_{}_{}", name_, part, b);
    std::string condition;
    if (bound.step == 1) {
      condition = fmt::format("{0}({1}) < {0}({2})", word, c,
                              words.index(std::max(bound.hi - bound.lo, std::int64_t{0}), wide_));
    } else {
      const std::string step = words.index(bound.step, wide_);
      lines.add("{} {}_quotient = {} / {};", index_type(), c, c, step);
      lines.add("{0}_{1} = {0}_{1}{2};", name_, part, term(words, bound.stride, c + "_quotient"));
      condition = fmt::format("{0} >= {1} && {0} < {2} && {0}_quotient * {3} == {0}", c, words.index(bound.lo, wide_),
                              words.index(bound.hi, wide_), step);
    }
    inside += (b == 0 ? "" : " && ") + condition;
  }
  lines.add("bool {}_{}_in = {};", name_, part, inside);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
