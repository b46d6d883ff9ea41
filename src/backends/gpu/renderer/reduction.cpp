#include "backends/gpu/renderer/reduction.h"

#include <algorithm>

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

std::string identity(ReduceOp op, ComputeType type) {
  const bool product = op == ReduceOp::prod;
  switch (type) {
    case ComputeType::f32: return product ? "1.0f" : "FROM_BITS(0x80000000u)";
    case ComputeType::f64: return product ? "double(1)" : "FROM_BITS64(ULONG(1) << 63)";
    case ComputeType::i32: return product ? "1" : "0";
    case ComputeType::i64: return product ? "LONG(1)" : "LONG(0)";
  }
  return "";
}

bool is_float(ComputeType type) {
  return type == ComputeType::f32 || type == ComputeType::f64;
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
    lines.add("{} {}{} = {};", type_name(operand_), "r" + std::to_string(number_), s, identity(step_.reduce, operand_));
    return;
  }
  const char* least = key_ == ComputeType::i32 ? "int(0x80000000u)" : "LONG(ULONG(1) << 63)";
  const char* most = key_ == ComputeType::i32 ? "int(0x7fffffffu)" : "LONG(~(ULONG(1) << 63))";
  lines.add("{} key{}{} = {};", type_name(key_), number_, s, largest_ ? least : most);
  lines.add("{} place{}{} = {}(-1);", wide_ ? "LONG" : "int", number_, s, wide_ ? "LONG" : "int");
  if (!position_) lines.add("{} r{}{} = {}(0);", type_name(operand_), number_, s, type_name(operand_));
}

void Reduction::restart(Lines& lines, const std::string& s) const {
  lines.add("r{}{} = {};", number_, s, identity(step_.reduce, operand_));
}

void Reduction::accumulate(Lines& lines, const std::string& s, const std::string& a, const std::string& b,
                           const std::string& element) const {
  const std::string r = "r" + std::to_string(number_) + s;
  if (step_.reduce == ReduceOp::dot) {
    if (is_float(operand_)) {
      lines.add("{} = {}({}, {}, {});", r, operand_ == ComputeType::f32 ? "FMA_EXACT" : "FMA64", a, b, r);
    } else {
      lines.add("{} = wrap_add(wrap_mul({}, {}), {});", r, a, b, r);
    }
    return;
  }
  if (ordered_) return lines.add("{} = {};", r, combined(r, a));
  lines.open("{{");
  lines.add("{} key = {}_key({});", type_name(key_), largest_ ? "max" : "min", a);
  // A thread takes its elements in ascending order, and every float beats the key that stands for none.
  if (is_float(operand_)) {
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

void Reduction::share(Lines& lines, const std::string& s) const {
  if (!ordered_) {
    lines.add("shared_key{}[THREAD] = key{}{};", number_, number_, s);
    lines.add("shared_place{}[THREAD] = place{}{};", number_, number_, s);
    if (position_) return;
  }
  lines.add("shared{}[THREAD] = r{}{};", number_, number_, s);
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

void Reduction::stage(Lines& lines, int index, const std::string& a, const std::string& b,
                      const std::string& element) const {
  lines.add("stage{}[{}] = {};", index, element, a);
  if (step_.b >= 0 && step_.b != step_.a) lines.add("stage{}[{}] = {};", index + 1, element, b);
}

void Reduction::chain(Lines& lines, int index, int size) const {
  lines.add("UNROLL_BY(16)");
  lines.open("for (int e = lane; e < {}; e += 64) {{", size > 0 ? std::to_string(size) : "int(length)");
  const std::string a = fmt::format("stage{}[e]", index);
  accumulate(lines, "", a, step_.b >= 0 && step_.b != step_.a ? fmt::format("stage{}[e]", index + 1) : a, "e");
  lines.close();
}

void Reduction::finish(Lines& lines, const std::string& s, const std::string& empty) const {
  if (position_) return lines.add("LONG v{0} = LONG(place{0}{1});", number_, s);
  if (!ordered_) return lines.add("{0} v{1} = canonical(r{1}{2});", type_name(operand_), number_, s);
  const char* none = step_.reduce == ReduceOp::prod ? "1" : "0";
  lines.add("{0} v{1} = SELECT({2}, {0}({3}), canonical(r{1}{4}));", type_name(operand_), number_, empty, none, s);
}

std::vector<SharedArray> Reduction::shared(int threads) const {
  std::vector<SharedArray> arrays;
  if (!ordered_) {
    arrays.push_back({key_, fmt::format("shared_key{}", number_), threads});
    arrays.push_back({wide_ ? ComputeType::i64 : ComputeType::i32, fmt::format("shared_place{}", number_), threads});
  }
  if (!position_) arrays.push_back({operand_, fmt::format("shared{}", number_), threads});
  return arrays;
}

void combine_lanes(Lines& lines, const std::vector<Reduction>& reductions, const std::string& suffix, int lanes,
                   int team_threads) {
  constexpr int kNear = 32;
  if (reductions.empty()) return;
  const char* const all = team_threads <= kNear ? "NEAR_BARRIER();" : "BARRIER();";
  lines.add("{}", all);
  for (const Reduction& reduction : reductions) reduction.share(lines, suffix);
  lines.add("{}", all);
  // The last halves are among threads that are near each other.
  const auto halve = [&](int from, int to, const char* barrier) {
    lines.open("for (int h = {}; h > {}; h >>= 1) {{", from, to);
    lines.open("if (lane < h) {{");
    for (const Reduction& reduction : reductions) reduction.combine(lines, "int(THREAD) + h");
    lines.close();
    lines.add("{}", barrier);
    lines.close();
  };
  if (lanes > 2 * kNear) halve(lanes / 2, kNear, "BARRIER();");
  if (lanes > kNear) {
    lines.open("if (lane < {}) {{", kNear);
    for (const Reduction& reduction : reductions) reduction.combine(lines, fmt::format("int(THREAD) + {}", kNear));
    lines.close();
    lines.add("NEAR_BARRIER();");
  }
  halve(std::min(lanes, kNear) / 2, 0, "NEAR_BARRIER();");
  if (team_threads > kNear) lines.add("BARRIER();");
  for (const Reduction& reduction : reductions) {
    reduction.fetch(lines, suffix, fmt::format("team * {}", team_threads));
  }
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
