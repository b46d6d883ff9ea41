#include "backends/gpu/renderer/reduction.h"

#include "backends/gpu/renderer/contraction.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

std::string start_of(ReduceOp op, ComputeType type) {
  const bool product = op == ReduceOp::prod;
  switch (type) {
    case ComputeType::f32: return product ? "1.0f" : "FROM_BITS(0x80000000u)";
    case ComputeType::f64: return product ? "double(1)" : "FROM_BITS64(ULONG(1) << 63)";
    case ComputeType::i32: return product ? "1" : "0";
    case ComputeType::i64: return product ? "LONG(1)" : "LONG(0)";
  }
  return "";
}

}  // namespace

Reduction::Reduction(const Instruction& step, int number, ComputeType operand, bool wide)
    : step_(step), number_(number), operand_(operand), key_(operand), wide_(wide) {
  ordered_ = step.reduce == ReduceOp::sum || step.reduce == ReduceOp::prod || step.reduce == ReduceOp::dot;
  largest_ = step.reduce == ReduceOp::max || step.reduce == ReduceOp::argmax;
  position_ = step.reduce == ReduceOp::argmax || step.reduce == ReduceOp::argmin;
  if (!position_) operand_ = step.type;
  key_ = operand_ == ComputeType::f32 ? ComputeType::i32 : operand_ == ComputeType::f64 ? ComputeType::i64 : operand_;
}

std::string Reduction::combined(const std::string& a, const std::string& b) const {
  const bool product = step_.reduce == ReduceOp::prod;
  if (operand_ == ComputeType::f32) return fmt::format("{}_EXACT({}, {})", product ? "MUL" : "ADD", a, b);
  if (operand_ == ComputeType::f64) return fmt::format("{} {} {}", a, product ? "*" : "+", b);
  return fmt::format("{}({}, {})", product ? "wrap_mul" : "wrap_add", a, b);
}

std::string Reduction::beats(const std::string& key, const std::string& at, const std::string& best_key,
                             const std::string& best_at) const {
  const char* word = wide_ ? "ULONG" : "UINT";
  return fmt::format("{0} {1} {2} || ({0} == {2} && {3}({4}) < {3}({5}))", key, largest_ ? ">" : "<", best_key, word,
                     at, best_at);
}

void Reduction::start(Lines& lines, const std::string& s) const {
  if (ordered_) {
    lines.add("{} {}{} = {};", type_name(operand_), "r" + std::to_string(number_), s, start_of(step_.reduce, operand_));
    return;
  }
  const char* least = key_ == ComputeType::i32 ? "int(0x80000000u)" : "LONG(ULONG(1) << 63)";
  const char* most = key_ == ComputeType::i32 ? "int(0x7fffffffu)" : "LONG(~(ULONG(1) << 63))";
  lines.add("{} key{}{} = {};", type_name(key_), number_, s, largest_ ? least : most);
  lines.add("{} place{}{} = {}(-1);", wide_ ? "LONG" : "int", number_, s, wide_ ? "LONG" : "int");
  if (!position_) lines.add("{} r{}{} = {}(0);", type_name(operand_), number_, s, type_name(operand_));
}

void Reduction::restart(Lines& lines, const std::string& s) const {
  lines.add("r{}{} = {};", number_, s, start_of(step_.reduce, operand_));
}

void Reduction::accumulate(Lines& lines, const std::string& s, const std::string& a, const std::string& b,
                           const std::string& element, const char* fma) const {
  const std::string r = "r" + std::to_string(number_) + s;
  if (step_.reduce == ReduceOp::dot) {
    if (!is_integer(operand_)) {
      lines.add("{} = {}({}, {}, {});", r, operand_ == ComputeType::f32 ? fma : "FMA64", a, b, r);
    } else {
      lines.add("{} = wrap_add(wrap_mul({}, {}), {});", r, a, b, r);
    }
    return;
  }
  if (ordered_) return lines.add("{} = {};", r, combined(r, a));
  lines.open("{{");
  lines.add("{} key = {}_key({});", type_name(key_), largest_ ? "max" : "min", a);
  // A thread takes its elements in ascending order, and every float beats the key that stands for none.
  if (!is_integer(operand_)) {
    lines.open("if (key {} key{}{}) {{", largest_ ? ">" : "<", number_, s);
  } else {
    lines.open("if ({}) {{",
               beats("key", element, fmt::format("key{}{}", number_, s), fmt::format("place{}{}", number_, s)));
  }
  lines.add("key{}{} = key;", number_, s);
  lines.add("place{}{} = {};", number_, s, element);
  if (!position_) lines.add("{} = {};", r, a);
  lines.close();
  lines.close();
}

void Reduction::add(Lines& lines, const std::string& s, const std::string& result) const {
  const std::string r = "r" + std::to_string(number_) + s;
  lines.add("{} = {};", r, combined(r, result));
}

void Reduction::share(Lines& lines, const std::string& s, const std::string& place) const {
  if (!ordered_) {
    lines.add("shared_key{}[{}] = key{}{};", number_, place, number_, s);
    lines.add("shared_place{}[{}] = place{}{};", number_, place, number_, s);
    if (position_) return;
  }
  lines.add("shared{}[{}] = r{}{};", number_, place, number_, s);
}

void Reduction::combine(Lines& lines, const std::string& other) const {
  if (ordered_) {
    return lines.add("shared{0}[THREAD] = {1};", number_,
                     combined(fmt::format("shared{}[THREAD]", number_), fmt::format("shared{}[{}]", number_, other)));
  }
  lines.open("if ({}) {{",
             beats(fmt::format("shared_key{}[{}]", number_, other), fmt::format("shared_place{}[{}]", number_, other),
                   fmt::format("shared_key{}[THREAD]", number_), fmt::format("shared_place{}[THREAD]", number_)));
  lines.add("shared_key{0}[THREAD] = shared_key{0}[{1}];", number_, other);
  lines.add("shared_place{0}[THREAD] = shared_place{0}[{1}];", number_, other);
  if (!position_) lines.add("shared{0}[THREAD] = shared{0}[{1}];", number_, other);
  lines.close();
}

void Reduction::fetch(Lines& lines, const std::string& s, const std::string& from) const {
  if (!ordered_) {
    lines.add("key{0}{1} = shared_key{0}[{2}];", number_, s, from);
    lines.add("place{0}{1} = shared_place{0}[{2}];", number_, s, from);
    if (position_) return;
  }
  lines.add("r{0}{1} = shared{0}[{2}];", number_, s, from);
}

std::vector<std::pair<std::string, ComputeType>> Reduction::state() const {
  std::vector<std::pair<std::string, ComputeType>> result;
  if (!ordered_) {
    result.emplace_back(fmt::format("key{}", number_), key_);
    result.emplace_back(fmt::format("place{}", number_), wide_ ? ComputeType::i64 : ComputeType::i32);
  }
  if (!position_) result.emplace_back(fmt::format("r{}", number_), operand_);
  return result;
}

void Reduction::merge(Lines& lines, const std::vector<std::string>& fields) const {
  if (ordered_) return add(lines, "", fields[0]);
  lines.open("{{");
  lines.add("{} key = {};", type_name(key_), fields[0]);
  lines.add("{} at = {};", wide_ ? "LONG" : "int", fields[1]);
  lines.open("if ({}) {{", beats("key", "at", fmt::format("key{}", number_), fmt::format("place{}", number_)));
  lines.add("key{} = key;", number_);
  lines.add("place{} = at;", number_);
  if (!position_) lines.add("r{} = {};", number_, fields[2]);
  lines.close();
  lines.close();
}

std::vector<SharedArray> Reduction::stages(int index, int size) const {
  std::vector<SharedArray> arrays = {{operand_, fmt::format("stage{}", index), size}};
  if (step_.b >= 0 && step_.b != step_.a) arrays.push_back({operand_, fmt::format("stage{}", index + 1), size});
  return arrays;
}

void Reduction::stage(Lines& lines, const char* array, int index, const std::string& a, const std::string& b,
                      const std::string& at) const {
  lines.add("{}{}[{}] = {};", array, index, at, a);
  if (step_.b >= 0 && step_.b != step_.a) lines.add("{}{}[{}] = {};", array, index + 1, at, b);
}

void Reduction::chain(Lines& lines, int index, const std::string& from, int size, bool guarded) const {
  const char* const end = "int(length)";
  if (!is_watched(guarded)) return chain_by(lines, index, from, size, Chain::plain, end);
  start_chain(lines, guarded);
  chain_by(lines, index, from, size, Chain::watched, end);
  lines.open("if (least{} < {}) {{", number_, kSmallWords);
  restart(lines, "");
  chain_by(lines, index, from, 0, Chain::rare, end);
  lines.close();
}

void Reduction::start_chain(Lines& lines, bool guarded) const {
  if (is_watched(guarded)) lines.add("UINT least{} = 0xffffffffu;", number_);
}

void Reduction::chain_part(Lines& lines, int index, const std::string& from, int size, bool full, bool guarded,
                           const std::string& sure) const {
  const int constant = full ? size : 0;
  const std::string end = full ? "" : fmt::format("SELECT(left < {0}, left, {0})", size);
  if (!is_watched(guarded)) return chain_by(lines, index, from, constant, Chain::plain, end);
  if (!sure.empty()) {
    lines.open("if ({}) {{", sure);
    chain_by(lines, index, from, constant, Chain::sure, end);
    lines.close();
    lines.open("else {{");
  }
  // From the first part with small elements on, all are added exactly: what was added before them is.
  lines.add("float before{0} = r{0};", number_);
  chain_by(lines, index, from, constant, Chain::watched, end);
  lines.open("if (least{} < {}) {{", number_, kSmallWords);
  lines.add("r{0} = before{0};", number_);
  chain_by(lines, index, from, 0, Chain::rare, full ? std::to_string(size) : end);
  lines.close();
  if (!sure.empty()) lines.close();
}

void Reduction::chain_by(Lines& lines, int index, const std::string& from, int size, Chain kind,
                         const std::string& end) const {
  if (size % order::kLanes == 0 && size > 0) {  // at most 64 per lane, which load before they add
    lines.add("UNROLL");
    lines.open("for (int first = 0; first < {}; first += {}) {{", size, order::kLanes);
    lines.add("int e = first + lane;");
  } else {
    if (kind != Chain::rare) lines.add("UNROLL_BY(16)");
    lines.open("for (int e = lane; e < {}; e += {}) {{", end, order::kLanes);
  }
  const bool two = step_.b >= 0 && step_.b != step_.a;
  const std::string a = fmt::format("stage{}[{} + e]", index, from);
  const std::string b = two ? fmt::format("stage{}[{} + e]", index + 1, from) : a;
  if (kind == Chain::watched) {
    for (const std::string& element : two ? std::vector{a, b} : std::vector{a}) {
      lines.open("{{");
      lines.add("UINT word = (BITS({}) & 0x7fffffffu) - 1u;", element);
      lines.add("least{0} = SELECT(word < least{0}, word, least{0});", number_);
      lines.close();
    }
  }
  accumulate(lines, "", a, b, "e", kind == Chain::watched || kind == Chain::sure ? "FMA" : "FMA_EXACT");
  lines.close();
}

void Reduction::chain_held(Lines& lines, const std::string& arrays, int index, int steps, int width) const {
  const bool two = step_.b >= 0 && step_.b != step_.a;
  const std::string a = fmt::format("{}{}[s * {} + q]", arrays, index, width);
  const std::string b = two ? fmt::format("{}{}[s * {} + q]", arrays, index + 1, width) : a;
  lines.add("UNROLL");
  lines.open("for (int s = 0; s < {}; s++) {{", steps);
  lines.add("UNROLL");
  lines.open("for (int q = 0; q < {}; q++) {{", width);
  accumulate(lines, "[q]", a, b, "");
  lines.close();
  lines.close();
}

void Reduction::start_lanes(Lines& lines, int width) const {
  lines.add("{} r{}[{}];", type_name(operand_), number_, width);
  lines.add("UNROLL");
  lines.add("for (int q = 0; q < {}; q++) r{}[q] = {};", width, number_, start_of(step_.reduce, operand_));
}

void Reduction::write_lanes(Lines& lines, int width) const {
  if (operand_ != ComputeType::f32) {
    return lines.add("for (int q = 0; q < {0}; q++) shared{1}[int(THREAD) * {0} + q] = r{1}[q];", width, number_);
  }
  for (int q = 0; q < width; q += 4) {
    lines.add("WRITE4(shared{0}, int(THREAD) * {1} + {2}, r{0}, {2})", number_, width, q);
  }
}

void Reduction::read_lanes(Lines& lines, const std::string& from, int width) const {
  if (operand_ != ComputeType::f32) {
    return lines.add("for (int q = 0; q < {0}; q++) r{1}[q] = shared{1}[{2} + q];", width, number_, from);
  }
  for (int q = 0; q < width; q += 4) lines.add("READ4(shared{0}, {1} + {2}, r{0}, {2})", number_, from, q);
}

void Reduction::halve(Lines& lines, int from, int to) const {
  for (int h = from / 2; h >= to; h /= 2) {
    for (int q = 0; q < h; ++q) add(lines, fmt::format("[{}]", q), fmt::format("r{}[{}]", number_, q + h));
  }
}

bool Reduction::is_float_extremum() const {
  return !ordered_ && !position_ && operand_ == ComputeType::f32;
}

std::string Reduction::better(const std::string& a, const std::string& b) const {
  return fmt::format("{}({}, {})", largest_ ? "LARGER" : "SMALLER", a, b);
}

void Reduction::start_quick(Lines& lines) const {
  lines.add("float r{} = FROM_BITS({});", number_, largest_ ? "0xff800000u" : "0x7f800000u");
  if (!any_zero_) lines.add("int zero{} = 0x7fffffff;", number_);
}

void Reduction::start_words(Lines& lines) const {
  lines.add("int upper{} = int(0x80000000u);", number_);
  lines.add("UINT lower{} = 0u;", number_);
}

void Reduction::take_word(Lines& lines, const std::string& a) const {
  lines.add("upper{0} = max(upper{0}, int(BITS({1})));", number_, a);
  lines.add("lower{0} = max(lower{0}, BITS({1}));", number_, a);
}

// A NaN without a sign is above all, one with a sign has a word above that of -infinity.
std::string Reduction::take_words(Lines& lines) const {
  lines.add("r{0} = FROM_BITS(UINT(upper{0}));", number_);
  lines.add("float lowest{0} = FROM_BITS(SELECT(lower{0} >= 0x80000000u, lower{0}, 0u));", number_);
  return fmt::format("upper{0} >= 0 && lower{0} <= 0xff800000u", number_);
}

void Reduction::find_zero(Lines& lines, const std::string& a, const std::string& element) const {
  lines.add("if ((BITS({0}) << 1) == 0u && zero{1} == 0x7fffffff) zero{1} = ({2} << 1) | int(BITS({0}) >> 31);", a,
            number_, element);
}

void Reduction::finish(Lines& lines, const std::string& s, const std::string& empty) const {
  if (position_) return lines.add("LONG v{0} = LONG(place{0}{1});", number_, s);
  const char* canonical = operand_ == ComputeType::f32 ? "CANONICAL_F32" : "canonical";
  if (!ordered_) return lines.add("{0} v{1} = {2}(r{1}{3});", type_name(operand_), number_, canonical, s);
  const char* none = step_.reduce == ReduceOp::prod ? "1" : "0";
  lines.add("{0} v{1} = SELECT({2}, {0}({3}), {4}(r{1}{5}));", type_name(operand_), number_, empty, none, canonical, s);
}

std::vector<SharedArray> Reduction::shared(int threads, bool quick) const {
  std::vector<SharedArray> arrays;
  if (quick) {
    arrays.push_back({operand_, fmt::format("shared{}", number_), 2 * threads});
    if (!any_zero_) arrays.push_back({ComputeType::i32, fmt::format("shared_zero{}", number_), threads});
    return arrays;
  }
  if (!ordered_) {
    arrays.push_back({key_, fmt::format("shared_key{}", number_), threads});
    arrays.push_back({wide_ ? ComputeType::i64 : ComputeType::i32, fmt::format("shared_place{}", number_), threads});
  }
  if (!position_) arrays.push_back({operand_, fmt::format("shared{}", number_), threads});
  return arrays;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
