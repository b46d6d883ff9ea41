#include "graph/gradients.h"

#include <cctype>
#include <string>
#include <string_view>

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// 1 where `wins`, but equal operands share: half each, as in PyTorch.
Tensor half_where_equal(const Tensor& a, const Tensor& b, const Tensor& wins) {
  return where(eq(a, b), 0.5, wins.to(a.dtype()));
}

// The derivative of digamma: reflected to the right half, moved right by recurrence, then the asymptotic series.
Tensor trigamma(const Tensor& a) {
  const Tensor left = a < 0.5;
  Tensor x = where(left, 1 - a, a);
  Tensor sum = reciprocal(x * x);
  for (int i = 0; i < 9; ++i) {
    x = x + 1;
    sum = sum + reciprocal(x * x);
  }
  // The sum has the term of x already; the series is that of x, whose own term it holds.
  const Tensor y = reciprocal(x);
  const Tensor z = y * y;
  const Tensor series = (((z * (5.0 / 66) - 1.0 / 30) * z + 1.0 / 42) * z - 1.0 / 30) * z + 1.0 / 6;
  const Tensor right = sum + y - z * 0.5 + series * z * y;
  const Tensor sine = sin((a - floor(a)) * 3.141592653589793);
  return where(left, 9.869604401089358 / (sine * sine) - right, right);
}

// The gradient column as text, split into one expression per operand.
std::vector<std::string> expressions_of(Op op) {
  std::string_view column;
  switch (op) {
#define ROW(name, arity, kind, types, cost, domain, call, torch, floats, integers, gradients, what) \
  case Op::name: column = #gradients; break;
#include "kernels/ops.def"
#undef ROW
  }
  column = column.substr(1, column.size() - 2);
  std::vector<std::string> result;
  if (column.empty()) return result;
  result.emplace_back();
  int depth = 0;
  for (const char letter : column) {
    depth += (letter == '(') - (letter == ')');
    if (letter == ',' && depth == 0) {
      result.emplace_back();
    } else {
      result.back() += letter;
    }
  }
  return result;
}

// Whether the one-letter name stands in the expression as a word.
bool mentions(const std::string& expression, char name) {
  const auto is_word = [&](std::size_t i) {
    return i < expression.size() &&
           (std::isalnum(static_cast<unsigned char>(expression[i])) != 0 || expression[i] == '_');
  };
  for (std::size_t i = 0; i < expression.size(); ++i) {
    if (expression[i] == name && !is_word(i + 1) && (i == 0 || !is_word(i - 1))) return true;
  }
  return false;
}

// By op and operand. The condition of `where` has no expression.
using Reads = std::vector<std::vector<unsigned>>;
Reads make_reads() {
  Reads reads;
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    std::vector<unsigned>& row = reads.emplace_back();
    if (op == Op::where) row.push_back(0);
    for (const std::string& expression : expressions_of(op)) {
      row.push_back(unsigned{mentions(expression, 'a')} | unsigned{mentions(expression, 'b')} << 1 |
                    (mentions(expression, 'r') ? kReadsResult : 0));
    }
  }
  return reads;
}

const std::vector<unsigned>& reads_of(Op op) {
  static const Reads& reads = *new Reads(make_reads());
  return reads[static_cast<std::size_t>(op)];
}

}  // namespace

std::size_t gradient_count(Op op) { return reads_of(op).size(); }
unsigned gradient_reads(Op op, std::size_t of) { return reads_of(op)[of]; }

Tensor elementwise_gradient(Op op, std::size_t of, std::span<const Tensor> inputs, const Tensor& result,
                            const Tensor& g) {
  // The names of the table's gradient column.
  const Tensor& a = inputs[0];
  const Tensor& b = inputs.size() > 1 ? inputs[1] : a;
  const Tensor& r = result;
  if (op == Op::where) {
    if (of == 0) return {};
    --of;
  }
  // Only the expression of operand `of` is evaluated.
#define GRADIENTS_0() return {}
#define GRADIENTS_1(x) \
  if (of == 0) return x; \
  return {}
#define GRADIENTS_2(x, y) \
  if (of == 0) return x;  \
  if (of == 1) return y;  \
  return {}
#define CHOSEN(_0, _1, _2, name, ...) name
#define GRADIENTS(...) CHOSEN(_0 __VA_OPT__(, ) __VA_ARGS__, GRADIENTS_2, GRADIENTS_1, GRADIENTS_0)(__VA_ARGS__)
  switch (op) {
#define ROW(name, arity, kind, types, cost, domain, call, torch, floats, integers, gradients, what) \
  case Op::name: GRADIENTS gradients;
#include "kernels/ops.def"
#undef ROW
  }
#undef GRADIENTS
#undef CHOSEN
#undef GRADIENTS_2
#undef GRADIENTS_1
#undef GRADIENTS_0
  return {};
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
