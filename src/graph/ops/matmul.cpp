// Matrix products, and what is added to them (docs/numerics.md section 6).
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "graph/autocast.h"
#include "graph/numerics.h"
#include "graph/ops/contraction.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor matmul(const Operand& left, const Operand& right) {
  const CallScope call("matmul", left);
  if (is_autocasting()) return with_autocast(autocast_dtype(), matmul, left, right);
  const std::vector<Shown> shown{{"a", left}, {"b", right}};
  check_operands(shown);
  Tensor a = left.tensor();
  Tensor b = right.tensor();
  if (a.rank() == 0 || b.rank() == 0) {
    fail<ShapeError>("operands need at least one dimension", shown, "multiply by a scalar with *");
  }
  const bool vector_a = a.rank() == 1;
  const bool vector_b = b.rank() == 1;
  if (vector_a) a = a.unsqueeze(0);
  if (vector_b) b = b.unsqueeze(1);
  const std::int64_t k = a.shape().back();
  const std::int64_t rows_b = b.shape()[b.rank() - 2];
  if (k != rows_b) {
    const bool transposed = !vector_b && b.shape().back() == k;
    fail<ShapeError>(fmt::format("inner sizes differ: {} and {}", k, rows_b), shown,
                     transposed ? "did you mean b.transpose(-2, -1)?" : "the last size of a must equal the rows of b");
  }
  for (int i = 3; i <= std::min(a.rank(), b.rank()); ++i) {
    const std::int64_t size_a = a.shape()[a.rank() - i];
    const std::int64_t size_b = b.shape()[b.rank() - i];
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      fail<ShapeError>(fmt::format("batch sizes {} and {} do not broadcast", size_a, size_b), shown);
    }
  }
  Tensor product = cast(batched_matmul(a, b), returned(a.dtype()));
  if (vector_a) product = product.squeeze(-2);
  if (vector_b) product = product.squeeze(-1);
  return product;
}

Tensor linear(const Operand& x, const Operand& weight, const std::optional<Tensor>& bias) {
  const CallScope call("linear", x);
  if (is_autocasting()) {
    return with_autocast(
        autocast_dtype(), [](const auto&... with) { return linear(with...); }, x, weight, bias);
  }
  std::vector<Shown> shown{{"input", x}, {"weight", weight}};
  if (bias) shown.emplace_back("bias", *bias);
  check_operands(shown);
  const Tensor& input = x.tensor();
  const Tensor& w = weight.tensor();
  if (input.rank() == 0 || w.rank() != 2 || input.shape().back() != w.shape()[1]) {
    fail<ShapeError>("the input's last size must equal the weight's in-features (weight is [out, in])", shown);
  }
  if (bias && bias->shape() != Shape{w.shape()[0]}) {
    fail<ShapeError>(fmt::format("bias must have shape [{}]", w.shape()[0]), shown);
  }
  const bool vector = input.rank() == 1;
  Tensor y = batched_matmul(vector ? input.unsqueeze(0) : input, w.transpose(0, 1));
  if (vector) y = y.squeeze(0);
  if (bias) y = add(y, cast(*bias, y.dtype()));
  return cast(y, returned(input.dtype()));
}

namespace {

// matmul of operands that must have exactly these ranks, under the op's own name.
Tensor ranked_product(const Operand& left, int rank_a, const Operand& right, int rank_b) {
  const std::vector<Shown> shown{{"a", left}, {"b", right}};
  check_operands(shown);
  const Tensor& a = left.tensor();
  const Tensor& b = right.tensor();
  if (a.rank() != rank_a || b.rank() != rank_b) {
    fail<ShapeError>(fmt::format("operands must have {} and {} dimensions", rank_a, rank_b), shown,
                     "matmul takes operands of any rank and broadcasts batches");
  }
  const std::int64_t k = a.shape().back();
  const std::int64_t rows_b = b.shape()[rank_b == 1 ? 0 : rank_b - 2];
  if (k != rows_b) fail<ShapeError>(fmt::format("inner sizes differ: {} and {}", k, rows_b), shown);
  if (rank_a == 3 && a.shape()[0] != b.shape()[0]) {
    fail<ShapeError>(fmt::format("batch sizes differ: {} and {}", a.shape()[0], b.shape()[0]), shown,
                     "matmul broadcasts batches of size 1");
  }
  return matmul(a, b);
}

}  // namespace

Tensor mm(const Operand& a, const Operand& b) {
  const CallScope call("mm", a);
  if (is_autocasting()) return with_autocast(autocast_dtype(), mm, a, b);
  return ranked_product(a, 2, b, 2);
}
Tensor bmm(const Operand& a, const Operand& b) {
  const CallScope call("bmm", a);
  if (is_autocasting()) return with_autocast(autocast_dtype(), bmm, a, b);
  return ranked_product(a, 3, b, 3);
}
Tensor mv(const Operand& a, const Operand& b) {
  const CallScope call("mv", a);
  if (is_autocasting()) return with_autocast(autocast_dtype(), mv, a, b);
  return ranked_product(a, 2, b, 1);
}
Tensor dot(const Operand& a, const Operand& b) {
  const CallScope call("dot", a);
  if (is_autocasting()) return with_autocast(autocast_dtype(), dot, a, b);
  return ranked_product(a, 1, b, 1);
}
Tensor vdot(const Operand& a, const Operand& b) {
  const CallScope call("vdot", a);
  if (is_autocasting()) return with_autocast(autocast_dtype(), vdot, a, b);
  return ranked_product(a, 1, b, 1);
}

Tensor inner(const Operand& left, const Operand& right) {
  const CallScope call("inner", left);
  if (is_autocasting()) return with_autocast(autocast_dtype(), inner, left, right);
  const std::vector<Shown> shown{{"a", left}, {"b", right}};
  check_operands(shown);
  const Tensor& a = left.tensor();
  const Tensor& b = right.tensor();
  if (a.rank() == 0 || b.rank() == 0) return mul(left, right);
  if (a.shape().back() != b.shape().back()) {
    fail<ShapeError>(fmt::format("last sizes differ: {} and {}", a.shape().back(), b.shape().back()), shown);
  }
  return tensordot(left, right, {-1}, {-1});
}

Tensor outer(const Operand& left, const Operand& right) {
  const CallScope call("outer", left);
  const std::vector<Shown> shown{{"a", left}, {"b", right}};
  check_operands(shown);
  if (left.tensor().rank() != 1 || right.tensor().rank() != 1) {
    fail<ShapeError>("operands must be vectors", shown, "flatten() them");
  }
  return mul(left.tensor().unsqueeze(1), right);
}

namespace {

// beta * c + alpha * product, each step rounded: the product times alpha, c times beta, their sum. Factors of 1 are not
// multiplied by; with beta 0 nothing of c is read, as in PyTorch.
Tensor blend(const Operand& c, const Tensor& product, DType result, const Scales& scales) {
  const Tensor& addend = c.tensor();
  const DType working = product.dtype();
  Shape shape = product.shape();
  Tensor y = product;
  encode_scalar(scales.alpha, working);
  encode_scalar(scales.beta, working);
  if (scales.alpha != 1) y = mul(y, scales.alpha);
  const std::vector<Shown> shown{{"input", addend}, {"product", y}};
  if (broadcast_shape(shown) != shape) {
    fail<ShapeError>(fmt::format("input does not broadcast to the product's shape {}", shape.to_string()), shown);
  }
  if (scales.beta != 0) {
    Tensor scaled = cast(addend, working);
    if (scales.beta != 1) scaled = mul(scaled, scales.beta);
    y = add(y, scaled);
  }
  return cast(y, result);
}

// Ranks, inner sizes and dtypes of input, a and b. Integer products are wider than their factors, and so is input.
void check_added(const Operand& c, const Operand& left, int rank_a, const Operand& right, int rank_b) {
  const std::vector<Shown> shown{{"input", c}, {"a", left}, {"b", right}};
  check_operands({{"a", left}, {"b", right}});
  if (c.is_scalar()) {
    fail<ValueError>("input must be a tensor", shown, "make the scalar a tensor, or add it afterwards");
  }
  check_same_device(shown);
  const Tensor& a = left.tensor();
  const Tensor& b = right.tensor();
  if (c.tensor().dtype() != returned(a.dtype())) {
    fail<DTypeError>(
        fmt::format("a product of {} is {}, and so must be input", name_of(a.dtype()), name_of(returned(a.dtype()))),
        shown, fmt::format("cast input with .to(DType::{})", name_of(returned(a.dtype()))));
  }
  if (a.rank() != rank_a || b.rank() != rank_b) {
    fail<ShapeError>(fmt::format("a and b must have {} and {} dimensions", rank_a, rank_b), shown);
  }
  const std::int64_t k = a.shape().back();
  const std::int64_t rows_b = b.shape()[rank_b == 1 ? 0 : rank_b - 2];
  if (k != rows_b) fail<ShapeError>(fmt::format("inner sizes differ: {} and {}", k, rows_b), shown);
  if (rank_a == 3 && a.shape()[0] != b.shape()[0]) {
    fail<ShapeError>(fmt::format("batch sizes differ: {} and {}", a.shape()[0], b.shape()[0]), shown);
  }
}

}  // namespace

Tensor addmm(const Operand& input, const Operand& a, const Operand& b, Scales scales) {
  const CallScope call("addmm", input);
  if (is_autocasting()) return with_autocast(autocast_dtype(), addmm, input, a, b, scales);
  check_added(input, a, 2, b, 2);
  return blend(input, batched_matmul(a.tensor(), b.tensor()), returned(a.tensor().dtype()), scales);
}

Tensor addmv(const Operand& input, const Operand& a, const Operand& b, Scales scales) {
  const CallScope call("addmv", input);
  if (is_autocasting()) return with_autocast(autocast_dtype(), addmv, input, a, b, scales);
  check_added(input, a, 2, b, 1);
  const Tensor product = batched_matmul(a.tensor(), b.tensor().unsqueeze(1)).squeeze(1);
  return blend(input, product, returned(a.tensor().dtype()), scales);
}

Tensor baddbmm(const Operand& input, const Operand& a, const Operand& b, Scales scales) {
  const CallScope call("baddbmm", input);
  if (is_autocasting()) return with_autocast(autocast_dtype(), baddbmm, input, a, b, scales);
  check_added(input, a, 3, b, 3);
  return blend(input, batched_matmul(a.tensor(), b.tensor()), returned(a.tensor().dtype()), scales);
}

Tensor addbmm(const Operand& input, const Operand& a, const Operand& b, Scales scales) {
  const CallScope call("addbmm", input);
  if (is_autocasting()) return with_autocast(autocast_dtype(), addbmm, input, a, b, scales);
  check_added(input, a, 3, b, 3);
  // The batch is part of k, outermost.
  const Tensor product = contract_dims(
      a.tensor(), b.tensor(), {.batch_a = {}, .batch_b = {}, .m = {1}, .n = {2}, .k_a = {0, 2}, .k_b = {0, 1}});
  return blend(input, product, returned(a.tensor().dtype()), scales);
}

Tensor addr(const Operand& input, const Operand& a, const Operand& b, Scales scales) {
  const CallScope call("addr", input);
  if (is_autocasting()) return with_autocast(autocast_dtype(), addr, input, a, b, scales);
  check_operands({{"input", input}, {"a", a}, {"b", b}});
  const Tensor product = outer(a, b);
  return blend(input, cast(product, wide(product.dtype())), product.dtype(), scales);
}

Tensor tensordot(const Operand& left, const Operand& right, const Dims& dims_a, const Dims& dims_b) {
  const CallScope call("tensordot", left);
  if (is_autocasting()) {
    return with_autocast(
        autocast_dtype(), [](const auto&... with) { return tensordot(with...); }, left, right, dims_a, dims_b);
  }
  const std::vector<Shown> shown{{"a", left}, {"b", right}};
  check_operands(shown);
  const Tensor& a = left.tensor();
  const Tensor& b = right.tensor();
  if (dims_a.size() != dims_b.size()) {
    fail<ValueError>(fmt::format("dims {} and {} are not of one length", dims_a.to_string(), dims_b.to_string()), shown,
                     "name as many dimensions of a as of b");
  }
  ContractionDims dims;
  const auto split = [&](const Tensor& tensor, const Dims& summed, Shape& k, Shape& rest) {
    std::uint32_t mask = 0;
    for (const std::int64_t given : summed) {
      const int d = check_dim(tensor, given);
      if ((mask >> d & 1u) != 0) fail<ValueError>(fmt::format("dimension {} is listed twice", d), shown);
      mask |= 1u << d;
      k.push_back(d);
    }
    for (int d = 0; d < tensor.rank(); ++d) {
      if ((mask >> d & 1u) == 0) rest.push_back(d);
    }
  };
  split(a, dims_a, dims.k_a, dims.m);
  split(b, dims_b, dims.k_b, dims.n);
  for (int i = 0; i < dims_a.size(); ++i) {
    const std::int64_t size_a = a.shape()[static_cast<int>(dims.k_a[i])];
    const std::int64_t size_b = b.shape()[static_cast<int>(dims.k_b[i])];
    if (size_a != size_b) {
      fail<ShapeError>(
          fmt::format("sizes {} and {} of dimensions {} and {} differ", size_a, size_b, dims.k_a[i], dims.k_b[i]),
          shown);
    }
  }
  if (dims.m.rank() + dims.n.rank() > kMaxRank) {
    fail<ShapeError>(fmt::format("the result would have {} dimensions, tensors have at most {}",
                                 dims.m.rank() + dims.n.rank(), kMaxRank),
                     shown, "sum over more dimensions, or merge some with reshape");
  }
  return cast(contract_dims(a, b, dims), returned(a.dtype()));
}

Tensor tensordot(const Operand& a, const Operand& b, int dims) {
  const CallScope call("tensordot", a);
  if (is_autocasting()) {
    return with_autocast(
        autocast_dtype(), [](const auto&... with) { return tensordot(with...); }, a, b, dims);
  }
  check_operands({{"a", a}, {"b", b}});
  if (dims < 0 || dims > a.tensor().rank() || dims > b.tensor().rank()) {
    fail<ValueError>(fmt::format("cannot sum over {} dimensions", dims), {{"a", a}, {"b", b}},
                     "use at most the operands' ranks");
  }
  Shape dims_a;
  Shape dims_b;
  for (int d = 0; d < dims; ++d) {
    dims_a.push_back(a.tensor().rank() - dims + d);
    dims_b.push_back(d);
  }
  return tensordot(a, b, Dims(dims_a), Dims(dims_b));
}

Tensor kron(const Operand& left, const Operand& right) {
  const CallScope call("kron", left);
  const std::vector<Shown> shown{{"a", left}, {"b", right}};
  check_operands(shown);
  const int rank = std::max(left.tensor().rank(), right.tensor().rank());
  if (2 * rank > kMaxRank) {
    fail<ShapeError>(fmt::format("operands have more than {} dimensions", kMaxRank / 2), shown,
                     "merge neighbouring dimensions with reshape");
  }
  // [a0, 1, a1, 1, ...] * [1, b0, 1, b1, ...]
  Shape shape_a;
  Shape shape_b;
  Shape result;
  for (int d = 0; d < rank; ++d) {
    const auto size = [&](const Tensor& tensor) {
      const int at = d - (rank - tensor.rank());
      return at < 0 ? 1 : tensor.shape()[at];
    };
    const std::int64_t size_a = size(left.tensor());
    const std::int64_t size_b = size(right.tensor());
    shape_a.push_back(size_a);
    shape_a.push_back(1);
    shape_b.push_back(1);
    shape_b.push_back(size_b);
    result.push_back(size_a * size_b);
  }
  check_shape(result, left.tensor().dtype());
  return mul(left.tensor().reshape(shape_a), right.tensor().reshape(shape_b)).reshape(result);
}

Tensor multi_dot(const std::vector<Tensor>& tensors, CallSite site) {
  const CallScope call("multi_dot", site);
  if (is_autocasting()) return with_autocast(autocast_dtype(), multi_dot, tensors, site);
  if (tensors.size() < 2) {
    fail<ValueError>(fmt::format("needs at least two tensors, got {}", tensors.size()));
  }
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < tensors.size(); ++i) shown.emplace_back(fmt::format("tensors[{}]", i), tensors[i]);
  check_operands(shown);
  const InnerNumerics inner(tensors[0].dtype());
  const std::size_t count = tensors.size();
  std::vector<Tensor> factors = tensors;
  const bool vector_first = factors.front().rank() == 1;
  const bool vector_last = factors.back().rank() == 1;
  if (vector_first) factors.front() = factors.front().unsqueeze(0);
  if (vector_last) factors.back() = factors.back().unsqueeze(1);
  for (std::size_t i = 0; i < count; ++i) {
    if (factors[i].rank() != 2) {
      fail<ShapeError>("all tensors must be matrices (the first and last may be vectors)", shown);
    }
    if (i > 0 && factors[i - 1].shape()[1] != factors[i].shape()[0]) {
      fail<ShapeError>(fmt::format("inner sizes of tensors {} and {} differ", i - 1, i), shown);
    }
  }
  // The cheapest order, as every textbook finds it; the first of equally cheap ones.
  std::vector<std::vector<double>> cost(count, std::vector<double>(count, 0));
  std::vector<std::vector<std::size_t>> cut(count, std::vector<std::size_t>(count, 0));
  const auto rows = [&](std::size_t i) { return static_cast<double>(factors[i].shape()[0]); };
  const auto columns = [&](std::size_t i) { return static_cast<double>(factors[i].shape()[1]); };
  for (std::size_t length = 1; length < count; ++length) {
    for (std::size_t first = 0; first + length < count; ++first) {
      const std::size_t last = first + length;
      cost[first][last] = std::numeric_limits<double>::infinity();
      for (std::size_t at = first; at < last; ++at) {
        const double price = cost[first][at] + cost[at + 1][last] + rows(first) * columns(at) * columns(last);
        if (price < cost[first][last]) {
          cost[first][last] = price;
          cut[first][last] = at;
        }
      }
    }
  }
  const auto product = [&](auto&& self, std::size_t first, std::size_t last) -> Tensor {
    if (first == last) return factors[first];
    const std::size_t at = cut[first][last];
    const Tensor a = self(self, first, at);
    const Tensor b = self(self, at + 1, last);
    // Integer products are wider than their factors.
    return batched_matmul(cast(a, accumulated(a.dtype())), cast(b, accumulated(b.dtype())));
  };
  Tensor y = cast(product(product, 0, count - 1), returned(tensors[0].dtype()));
  if (vector_first) y = y.squeeze(0);
  if (vector_last) y = y.squeeze(-1);
  return y;
}

Tensor bilinear(const Operand& left, const Operand& right, const Operand& w, const std::optional<Tensor>& bias) {
  const CallScope call("bilinear", left);
  if (is_autocasting()) return with_autocast(autocast_dtype(), bilinear, left, right, w, bias);
  std::vector<Shown> shown{{"a", left}, {"b", right}, {"weight", w}};
  if (bias) shown.emplace_back("bias", *bias);
  check_operands(shown);
  const Tensor& a = left.tensor();
  const Tensor& b = right.tensor();
  const Tensor& weight = w.tensor();
  const bool ranks = weight.rank() == 3 && a.rank() >= 1 && a.rank() == b.rank();
  if (!ranks || a.shape().slice(0, a.rank() - 1) != b.shape().slice(0, b.rank() - 1) ||
      a.shape().back() != weight.shape()[1] || b.shape().back() != weight.shape()[2]) {
    fail<ShapeError>("a [..., in1], b [..., in2] and weight [out, in1, in2] do not fit", shown);
  }
  const std::int64_t out = weight.shape()[0];
  if (bias && bias->shape() != Shape{out}) {
    fail<ShapeError>(fmt::format("bias must have shape [{}]", out), shown);
  }
  Shape result = a.shape();
  result[result.rank() - 1] = out;
  const InnerNumerics inner(a.dtype());
  const Tensor rows_a = cast(a, accumulated(a.dtype())).reshape({-1, a.shape().back()});
  const Tensor rows_b = cast(b, accumulated(b.dtype())).reshape({-1, b.shape().back()});
  const Tensor first = contract_dims(rows_a, cast(weight, rows_a.dtype()),
                                     {.batch_a = {}, .batch_b = {}, .m = {0}, .n = {0, 2}, .k_a = {1}, .k_b = {1}});
  Tensor y = contract_dims(first, rows_b, {.batch_a = {0}, .batch_b = {0}, .m = {1}, .n = {}, .k_a = {2}, .k_b = {1}});
  if (bias) y = add(y, cast(*bias, y.dtype()));
  return cast(y, returned(a.dtype())).reshape(result);
}

}  // namespace v0
}  // namespace lockstep
