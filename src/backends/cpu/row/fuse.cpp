// Joins steps of a pass that would only hand each other tiles: chains of cheap f32 ops become one step that keeps the
// intermediate results in registers, together with the sum that reads the last of them; exp(a - b) and gelu(a + b)
// become one loop. What these leave out, making intermediate results canonical, no result shows: the lemmas stand in
// chain_table.cpp and binary_table.cpp.
#include <utility>

#include "backends/cpu/row/planner.h"

namespace lockstep {
inline namespace v0 {
namespace {

ChainOp turned(ChainOp op) {
  switch (op) {
    case ChainOp::sub: return ChainOp::from;
    case ChainOp::div: return ChainOp::into;
    case ChainOp::max: return ChainOp::max_of;
    case ChainOp::min: return ChainOp::min_of;
    default: return op;
  }
}

}  // namespace

ChainOp chain_op_of(Op op) {
  switch (op) {
    case Op::add: return ChainOp::add;
    case Op::sub: return ChainOp::sub;
    case Op::mul: return ChainOp::mul;
    case Op::div: return ChainOp::div;
    case Op::maximum: return ChainOp::max;
    case Op::minimum: return ChainOp::min;
    case Op::relu: return ChainOp::relu;
    case Op::neg: return ChainOp::neg;
    default: return ChainOp::none;
  }
}

// where(x > z, x, x * y), as leaky_relu and prelu are: five steps become one. Lemma: an x that is above z is no NaN,
// and the words of a value that arithmetic made are those of the value, so a loop on numbers gives the same bits.
// where(y > z, x, word), as the gradient of relu is, becomes a gate, which ends its chain.
void Planner::find_leaky(Pass& pass) const {
  std::vector<int> uses(plan_.types.size(), 0), made_by(plan_.types.size(), -1);
  for (std::size_t s = 0; s < pass.steps.size(); ++s) {
    for_each_value_read(pass.steps[s], [&](int value) { ++uses[idx(value)]; });
    if (pass.steps[s].out >= 0) made_by[idx(pass.steps[s].out)] = static_cast<int>(s);
  }
  const auto maker = [&](int value) {
    return made_by[idx(value)] < 0 ? nullptr : &pass.steps[idx(made_by[idx(value)])];
  };
  // The step, if nothing but one other step of the pass sees what it makes.
  const auto only = [&](int value) -> const Step* {
    const Step* const step = maker(value);
    const bool hidden = step != nullptr && step->kind == Step::Kind::compute && uses[idx(value)] == 1 &&
                        step->place.kind == Place::Kind::none && step->direct < 0;
    return hidden ? step : nullptr;
  };
  const auto is_word = [&](int value) {
    const Instruction& made = analysis_.code[idx(value)];
    return made.kind == Instruction::Kind::to_bits && made.dtype == DType::f32;
  };
  const auto is_made = [&](int value) {
    const Step* const step = maker(value);
    return step != nullptr && (step->kind == Step::Kind::accumulator || step->op != Op::copy);
  };
  const auto is_uniform = [&](int value) { return analysis_.classes[idx(value)] == Class::uniform; };
  std::vector<bool> joined(pass.steps.size(), false);
  for (Step& step : pass.steps) {
    if (step.kind != Step::Kind::compute || (step.scalars != 0 && step.scalars != 4) ||
        idx(step.out) >= analysis_.code.size())
      continue;
    const Instruction& made = analysis_.code[idx(step.out)];
    if (made.kind != Instruction::Kind::elementwise || made.op != Op::where || made.type != ComputeType::i32) continue;
    if (step.scalars == 4) {
      const Step *const above = only(step.a), *const whole = only(step.b);
      if (above == nullptr || whole == nullptr || above->op != Op::gt || above->scalars != 2) continue;
      if (!is_word(whole->out) || !is_made(whole->a) || !is_uniform(above->b) || !is_uniform(step.c)) continue;
      for (const Step* gone : {above, whole}) joined[idx(made_by[idx(gone->out)])] = true;
      step.type = ComputeType::f32;
      step.op = Op::where;
      step.chain_op = ChainOp::gate;
      step.scalars = 0;
      step.otherwise = step.c;
      step.c = above->b;
      step.b = above->a;
      step.a = whole->a;
      continue;
    }
    const Step *const above = only(step.a), *const whole = only(step.b), *const word = only(step.c);
    if (above == nullptr || whole == nullptr || word == nullptr || !is_word(whole->out) || !is_word(word->out))
      continue;
    const Step* const part = only(word->a);
    if (part == nullptr || part->op != Op::mul || above->op != Op::gt || above->scalars != 2) continue;
    const int x = whole->a;
    const int y = part->scalars == 2 ? part->b : part->scalars == 1 ? part->a : -1;
    if (above->a != x || y < 0 || (part->scalars == 2 ? part->a : part->b) != x || !is_made(x)) continue;
    if (!is_uniform(above->b)) continue;
    for (const Step* gone : {above, whole, word, part}) joined[idx(made_by[idx(gone->out)])] = true;
    step.type = ComputeType::f32;
    step.op = Op::where;
    step.chain_op = ChainOp::leaky;
    step.scalars = 2;
    step.c = above->b;
    step.a = x;
    step.b = y;
    // What goes on computing with it takes the number.
    for (std::size_t s = 0; s < pass.steps.size(); ++s) {
      Step& next = pass.steps[s];
      if (next.kind != Step::Kind::compute || next.a != step.out || only(step.out) == nullptr) continue;
      const Instruction& number = analysis_.code[idx(next.out)];
      if (number.kind != Instruction::Kind::from_bits || number.dtype != DType::f32) continue;
      step.out = next.out;
      step.place = next.place;
      step.direct = next.direct;
      joined[s] = true;
    }
  }
  std::vector<Step> steps;
  for (std::size_t s = 0; s < pass.steps.size(); ++s) {
    if (!joined[s]) steps.push_back(std::move(pass.steps[s]));
  }
  pass.steps = std::move(steps);
}

/// Exponentials of a row less one value, mostly its largest, and their sum.
bool Planner::join_exponentials(Pass& pass, const Step& sum) const {
  if (plan_.exponentials->any == nullptr || plan_.has_blocks()) return false;
  for (Step& step : pass.steps) {
    if (step.out != sum.a || step.kind != Step::Kind::compute || step.direct >= 0) continue;
    if (step.fn != plan_.elementwise->exp_of_sub[2]) return false;
    step.kind = Step::Kind::exponentials;
    step.index = sum.index;
    for (std::size_t v = 0; v < analysis_.code.size(); ++v) {
      const Instruction& made = analysis_.code[v];
      const bool is_known = analysis_.used[v] && analysis_.when[v] <= analysis_.when[idx(step.out)];
      if (made.kind != Instruction::Kind::reduce || made.reduce != ReduceOp::max || !is_known) continue;
      if (made.a == step.a) step.c = static_cast<int>(v);
    }
    return true;
  }
  return false;
}

void Planner::fuse_chains(Pass& pass) {
  if (plan_.chain->store == nullptr) return;
  find_leaky(pass);
  std::vector<int> uses(plan_.types.size(), 0);
  for (const Step& step : pass.steps) {
    for_each_value_read(step, [&](int value) { ++uses[idx(value)]; });
  }
  std::vector<int> made_by(plan_.types.size(), -1);  // the chain of a value
  std::vector<bool> joined(pass.steps.size(), false);
  std::vector<int> accumulated(plan_.types.size(), -1);  // the step that makes raw results canonical
  for (std::size_t s = 0; s < pass.steps.size(); ++s) {
    const Step& step = pass.steps[s];
    const bool only_read = step.place.kind == Place::Kind::none && step.direct < 0 && step.type == ComputeType::f32;
    if (step.kind == Step::Kind::accumulator && only_read) accumulated[idx(step.out)] = static_cast<int>(s);
  }
  const auto joinable = [&](int value, int reads) {
    if (value < 0 || made_by[idx(value)] < 0 || uses[idx(value)] != reads) return false;
    const Step& chain = pass.steps[idx(made_by[idx(value)])];
    return chain.place.kind == Place::Kind::none && chain.links.size() < kMostLinks &&
           chain.links.back().op != ChainOp::gate;
  };
  const auto join = [&](int value, Step& step) {
    Step& chain = pass.steps[idx(made_by[idx(value)])];
    step.links = std::move(chain.links);
    step.a = chain.a;
    step.raw = chain.raw;
    joined[idx(made_by[idx(value)])] = true;
  };
  for (std::size_t s = 0; s < pass.steps.size(); ++s) {
    Step& step = pass.steps[s];
    if (step.kind == Step::Kind::compute && step.chain_op != ChainOp::none) {
      const bool scalar_a = (step.scalars & 1) != 0, scalar_b = (step.scalars & 2) != 0;
      const bool is_gate = step.chain_op == ChainOp::gate;
      const bool second = scalar_a || (!is_gate && !joinable(step.a, 1) && joinable(step.b, 1));
      const int live = second ? step.b : step.a;
      Link link{second ? turned(step.chain_op) : step.chain_op, second ? step.a : step.b, second ? scalar_a : scalar_b};
      step.kind = Step::Kind::chain;
      step.a = live;
      step.b = -1;
      if (step.chain_op == ChainOp::leaky || is_gate) link.z = std::exchange(step.c, -1);
      link.otherwise = std::exchange(step.otherwise, -1);
      if (joinable(live, 1)) {
        join(live, step);
      } else if (accumulated[idx(live)] >= 0 && uses[idx(live)] == 1) {
        step.raw = true;
        step.links.push_back({ChainOp::canonical, -1, false, 0});
        joined[idx(accumulated[idx(live)])] = true;
      }
      step.links.push_back(link);
      made_by[idx(step.out)] = static_cast<int>(s);
    } else if (step.kind == Step::Kind::compute && (step.op == Op::exp || step.op == Op::gelu_erf)) {
      if (!joinable(step.a, 1)) continue;
      const int made = made_by[idx(step.a)];
      Step& chain = pass.steps[idx(made)];
      if (chain.raw && chain.links.size() == 2) {  // these loops take canonical operands
        chain.links.erase(chain.links.begin());
        chain.raw = false;
        joined[idx(accumulated[idx(chain.a)])] = false;
      }
      const Link& link = chain.links[0];
      if (chain.links.size() != 1) continue;
      if (step.op == Op::gelu_erf && link.op == ChainOp::add) {
        step.fn = plan_.elementwise->gelu_of_add[link.scalar ? 2 : 0];
        step.b = link.value;
      } else if (step.op == Op::exp && link.op == ChainOp::sub) {
        step.fn = plan_.elementwise->exp_of_sub[link.scalar ? 2 : 0];
        step.b = link.value;
      } else if (step.op == Op::exp && link.op == ChainOp::from) {
        step.fn = plan_.elementwise->exp_of_sub[link.scalar ? 1 : 0];
        step.b = chain.a;
      } else {
        continue;
      }
      step.a = link.op == ChainOp::from ? link.value : chain.a;
      joined[idx(made)] = true;
    } else if (step.kind == Step::Kind::reduce && plan_.layout == Layout::rows) {
      const ReduceOp op = plan_.reductions[idx(step.index)].op;
      const bool squares = op == ReduceOp::dot && step.a == step.b;
      if ((squares || op == ReduceOp::sum) && joinable(step.a, squares ? 2 : 1)) {
        join(step.a, step);
        step.b = -1;
      } else if (op == ReduceOp::sum && join_exponentials(pass, step)) {
        joined[s] = true;
      }
    } else if (step.kind == Step::Kind::store && step.alias && made_by[idx(step.a)] >= 0) {
      Step& chain = pass.steps[idx(made_by[idx(step.a)])];
      // What is read again must not be written past the caches.
      const bool is_last = !plan_.streams || uses[idx(step.a)] == 1;
      if (chain.place.kind == Place::Kind::none && is_last) chain.direct = step.index;
    }
  }
  std::vector<Step> steps;
  for (std::size_t s = 0; s < pass.steps.size(); ++s) {
    if (!joined[s]) steps.push_back(std::move(pass.steps[s]));
  }
  pass.steps = std::move(steps);
}

}  // namespace v0
}  // namespace lockstep
