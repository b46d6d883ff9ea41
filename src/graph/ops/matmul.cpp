// Matrix products, and what is added to them (docs/numerics.md section 6).
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "graph/ops/contraction.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor matmul(const Operand& left, const Operand& right) {
  const CallSite site = left.site();
  const std::vector<Shown> shown{{"a", left}, {"b", right}};
  check_operands("matmul", shown, site);
  Tensor a = left.tensor();
  Tensor b = right.tensor();
  if (a.rank() == 0 || b.rank() == 0) {
    fail<ShapeError>("matmul", "operands need at least one dimension", shown, "multiply by a scalar with *", site);
  }
  const bool vector_a = a.rank() == 1;
  const bool vector_b = b.rank() == 1;
  if (vector_a) a = a.unsqueeze(0, site);
  if (vector_b) b = b.unsqueeze(1, site);
  const std::int64_t k = a.shape().back();
  const std::int64_t rows_b = b.shape()[b.rank() - 2];
  if (k != rows_b) {
    const bool transposed = !vector_b && b.shape().back() == k;
    fail<ShapeError>("matmul", fmt::format("inner sizes differ: {} and {}", k, rows_b), shown,
                     transposed ? "did you mean b.transpose(-2, -1)?" : "the last size of a must equal the rows of b",
                     site);
  }
  for (int i = 3; i <= std::min(a.rank(), b.rank()); ++i) {
    const std::int64_t size_a = a.shape()[a.rank() - i];
    const std::int64_t size_b = b.shape()[b.rank() - i];
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      fail<ShapeError>("matmul", fmt::format("batch sizes {} and {} do not broadcast", size_a, size_b), shown, "",
                       site);
    }
  }
  Tensor product = cast(batched_matmul(a, b, site), returned(a.dtype()), site);
  if (vector_a) product = product.squeeze(-2, site);
  if (vector_b) product = product.squeeze(-1, site);
  return product;
}

Tensor linear(const Operand& x, const Operand& weight, const std::optional<Tensor>& bias) {
  const CallSite site = x.site();
  std::vector<Shown> shown{{"input", x}, {"weight", weight}};
  if (bias) shown.emplace_back("bias", *bias);
  check_operands("linear", shown, site);
  const Tensor& input = x.tensor();
  const Tensor& w = weight.tensor();
  if (input.rank() == 0 || w.rank() != 2 || input.shape().back() != w.shape()[1]) {
    fail<ShapeError>("linear", "the input's last size must equal the weight's in-features (weight is [out, in])", shown,
                     "", site);
  }
  if (bias && bias->shape() != Shape{w.shape()[0]}) {
    fail<ShapeError>("linear", fmt::format("bias must have shape [{}]", w.shape()[0]), shown, "", site);
  }
  const bool vector = input.rank() == 1;
  Tensor y = batched_matmul(vector ? input.unsqueeze(0, site) : input, w.transpose(0, 1, site), site);
  if (vector) y = y.squeeze(0, site);
  if (bias) y = add(Operand(y, site), Operand(cast(*bias, y.dtype(), site), site));
  return cast(y, returned(input.dtype()), site);
}

namespace {

// matmul of operands that must have exactly these ranks, under the op's own name.
Tensor ranked_product(const char* op, const Operand& left, int rank_a, const Operand& right, int rank_b) {
  const CallSite site = left.site();
  const std::vector<Shown> shown{{"a", left}, {"b", right}};
  check_operands(op, shown, site);
  const Tensor& a = left.tensor();
  const Tensor& b = right.tensor();
  if (a.rank() != rank_a || b.rank() != rank_b) {
    fail<ShapeError>(op, fmt::format("operands must have {} and {} dimensions", rank_a, rank_b), shown,
                     "matmul takes operands of any rank and broadcasts batches", site);
  }
  const std::int64_t k = a.shape().back();
  const std::int64_t rows_b = b.shape()[rank_b == 1 ? 0 : rank_b - 2];
  if (k != rows_b) fail<ShapeError>(op, fmt::format("inner sizes differ: {} and {}", k, rows_b), shown, "", site);
  if (rank_a == 3 && a.shape()[0] != b.shape()[0]) {
    fail<ShapeError>(op, fmt::format("batch sizes differ: {} and {}", a.shape()[0], b.shape()[0]), shown,
                     "matmul broadcasts batches of size 1", site);
  }
  return matmul(Operand(a, site), Operand(b, site));
}

}  // namespace

Tensor mm(const Operand& a, const Operand& b) {
  return ranked_product("mm", a, 2, b, 2);
}
Tensor bmm(const Operand& a, const Operand& b) {
  return ranked_product("bmm", a, 3, b, 3);
}
Tensor mv(const Operand& a, const Operand& b) {
  return ranked_product("mv", a, 2, b, 1);
}
Tensor dot(const Operand& a, const Operand& b) {
  return ranked_product("dot", a, 1, b, 1);
}
Tensor vdot(const Operand& a, const Operand& b) {
  return ranked_product("vdot", a, 1, b, 1);
}

Tensor inner(const Operand& left, const Operand& right) {
  const CallSite site = left.site();
  const std::vector<Shown> shown{{"a", left}, {"b", right}};
  check_operands("inner", shown, site);
  const Tensor& a = left.tensor();
  const Tensor& b = right.tensor();
  if (a.rank() == 0 || b.rank() == 0) return mul(left, right);
  if (a.shape().back() != b.shape().back()) {
    fail<ShapeError>("inner", fmt::format("last sizes differ: {} and {}", a.shape().back(), b.shape().back()), shown,
                     "", site);
  }
  return tensordot(left, right, {-1}, {-1});
}

Tensor outer(const Operand& left, const Operand& right) {
  const CallSite site = left.site();
  const std::vector<Shown> shown{{"a", left}, {"b", right}};
  check_operands("outer", shown, site);
  if (left.tensor().rank() != 1 || right.tensor().rank() != 1) {
    fail<ShapeError>("outer", "operands must be vectors", shown, "flatten() them", site);
  }
  return mul(Operand(left.tensor().unsqueeze(1, site), site), right);
}

namespace {

// beta * c + alpha * product, each step rounded: the product times alpha, c times beta, their sum. Factors of 1 are not
// multiplied by; with beta 0 nothing of c is read, as in PyTorch.
Tensor blend(const char* op, const Operand& c, const Tensor& product, DType result, const Scales& scales,
             CallSite site) {
  const Tensor& addend = c.tensor();
  const DType working = product.dtype();
  Shape shape = product.shape();
  Tensor y = product;
  encode_scalar(op, scales.alpha, working, site);
  encode_scalar(op, scales.beta, working, site);
  if (scales.alpha != 1) y = mul(Operand(y, site), Operand(scales.alpha, site));
  const std::vector<Shown> shown{{"input", addend}, {"product", y}};
  if (broadcast_shape(op, shown, site) != shape) {
    fail<ShapeError>(op, fmt::format("input does not broadcast to the product's shape {}", shape.to_string()), shown,
                     "", site);
  }
  if (scales.beta != 0) {
    Tensor scaled = cast(addend, working, site);
    if (scales.beta != 1) scaled = mul(Operand(scaled, site), Operand(scales.beta, site));
    y = add(Operand(y, site), Operand(scaled, site));
  }
  return cast(y, result, site);
}

// Ranks, inner sizes and dtypes of input, a and b. Integer products are wider than their factors, and so is input.
void check_added(const char* op, const Operand& c, const Operand& left, int rank_a, const Operand& right, int rank_b) {
  const CallSite site = c.site();
  const std::vector<Shown> shown{{"input", c}, {"a", left}, {"b", right}};
  check_operands(op, {{"a", left}, {"b", right}}, site);
  if (c.is_scalar()) {
    fail<ValueError>(op, "input must be a tensor", shown, "make the scalar a tensor, or add it afterwards", site);
  }
  check_same_device(op, shown, site);
  const Tensor& a = left.tensor();
  const Tensor& b = right.tensor();
  if (c.tensor().dtype() != returned(a.dtype())) {
    fail<DTypeError>(
        op,
        fmt::format("a product of {} is {}, and so must be input", name_of(a.dtype()), name_of(returned(a.dtype()))),
        shown, fmt::format("cast input with .to(DType::{})", name_of(returned(a.dtype()))), site);
  }
  if (a.rank() != rank_a || b.rank() != rank_b) {
    fail<ShapeError>(op, fmt::format("a and b must have {} and {} dimensions", rank_a, rank_b), shown, "", site);
  }
  const std::int64_t k = a.shape().back();
  const std::int64_t rows_b = b.shape()[rank_b == 1 ? 0 : rank_b - 2];
  if (k != rows_b) fail<ShapeError>(op, fmt::format("inner sizes differ: {} and {}", k, rows_b), shown, "", site);
  if (rank_a == 3 && a.shape()[0] != b.shape()[0]) {
    fail<ShapeError>(op, fmt::format("batch sizes differ: {} and {}", a.shape()[0], b.shape()[0]), shown, "", site);
  }
}

}  // namespace

Tensor addmm(const Operand& input, const Operand& a, const Operand& b, Scales scales) {
  check_added("addmm", input, a, 2, b, 2);
  const CallSite site = input.site();
  return blend("addmm", input, batched_matmul(a.tensor(), b.tensor(), site), returned(a.tensor().dtype()), scales,
               site);
}

Tensor addmv(const Operand& input, const Operand& a, const Operand& b, Scales scales) {
  check_added("addmv", input, a, 2, b, 1);
  const CallSite site = input.site();
  const Tensor product = batched_matmul(a.tensor(), b.tensor().unsqueeze(1, site), site).squeeze(1, site);
  return blend("addmv", input, product, returned(a.tensor().dtype()), scales, site);
}

Tensor baddbmm(const Operand& input, const Operand& a, const Operand& b, Scales scales) {
  check_added("baddbmm", input, a, 3, b, 3);
  const CallSite site = input.site();
  return blend("baddbmm", input, batched_matmul(a.tensor(), b.tensor(), site), returned(a.tensor().dtype()), scales,
               site);
}

Tensor addbmm(const Operand& input, const Operand& a, const Operand& b, Scales scales) {
  check_added("addbmm", input, a, 3, b, 3);
  const CallSite site = input.site();
  // The batch is part of k, outermost.
  const Tensor product = contract_dims(
      a.tensor(), b.tensor(), {.batch_a = {}, .batch_b = {}, .m = {1}, .n = {2}, .k_a = {0, 2}, .k_b = {0, 1}}, site);
  return blend("addbmm", input, product, returned(a.tensor().dtype()), scales, site);
}

Tensor addr(const Operand& input, const Operand& a, const Operand& b, Scales scales) {
  const CallSite site = input.site();
  check_operands("addr", {{"input", input}, {"a", a}, {"b", b}}, site);
  const Tensor product = outer(a, b);
  return blend("addr", input, cast(product, wide(product.dtype()), site), product.dtype(), scales, site);
}

Tensor tensordot(const Operand& left, const Operand& right, const Dims& dims_a, const Dims& dims_b) {
  const CallSite site = left.site();
  const std::vector<Shown> shown{{"a", left}, {"b", right}};
  check_operands("tensordot", shown, site);
  const Tensor& a = left.tensor();
  const Tensor& b = right.tensor();
  if (dims_a.size() != dims_b.size()) {
    fail<ValueError>("tensordot",
                     fmt::format("dims {} and {} are not of one length", dims_a.to_string(), dims_b.to_string()), shown,
                     "name as many dimensions of a as of b", site);
  }
  ContractionDims dims;
  const auto split = [&](const Tensor& tensor, const Dims& summed, Shape& k, Shape& rest) {
    std::uint32_t mask = 0;
    for (const std::int64_t given : summed) {
      const int d = check_dim("tensordot", tensor, given, site);
      if ((mask >> d & 1u) != 0)
        fail<ValueError>("tensordot", fmt::format("dimension {} is listed twice", d), shown, "", site);
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
          "tensordot",
          fmt::format("sizes {} and {} of dimensions {} and {} differ", size_a, size_b, dims.k_a[i], dims.k_b[i]),
          shown, "", site);
    }
  }
  if (dims.m.rank() + dims.n.rank() > kMaxRank) {
    fail<ShapeError>("tensordot",
                     fmt::format("the result would have {} dimensions, tensors have at most {}",
                                 dims.m.rank() + dims.n.rank(), kMaxRank),
                     shown, "sum over more dimensions, or merge some with reshape", site);
  }
  return cast(contract_dims(a, b, dims, site), returned(a.dtype()), site);
}

Tensor tensordot(const Operand& a, const Operand& b, int dims) {
  const CallSite site = a.site();
  check_operands("tensordot", {{"a", a}, {"b", b}}, site);
  if (dims < 0 || dims > a.tensor().rank() || dims > b.tensor().rank()) {
    fail<ValueError>("tensordot", fmt::format("cannot sum over {} dimensions", dims), {{"a", a}, {"b", b}},
                     "use at most the operands' ranks", site);
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
  const CallSite site = left.site();
  const std::vector<Shown> shown{{"a", left}, {"b", right}};
  check_operands("kron", shown, site);
  const int rank = std::max(left.tensor().rank(), right.tensor().rank());
  if (2 * rank > kMaxRank) {
    fail<ShapeError>("kron", fmt::format("operands have more than {} dimensions", kMaxRank / 2), shown,
                     "merge neighbouring dimensions with reshape", site);
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
  check_shape("kron", result, left.tensor().dtype(), site);
  return mul(Operand(left.tensor().reshape(shape_a, site), site), Operand(right.tensor().reshape(shape_b, site), site))
      .reshape(result, site);
}

Tensor multi_dot(const std::vector<Tensor>& tensors, CallSite site) {
  if (tensors.size() < 2) {
    fail<ValueError>("multi_dot", fmt::format("needs at least two tensors, got {}", tensors.size()), {}, "", site);
  }
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < tensors.size(); ++i) shown.emplace_back(fmt::format("tensors[{}]", i), tensors[i]);
  check_operands("multi_dot", shown, site);
  const std::size_t count = tensors.size();
  std::vector<Tensor> factors = tensors;
  const bool vector_first = factors.front().rank() == 1;
  const bool vector_last = factors.back().rank() == 1;
  if (vector_first) factors.front() = factors.front().unsqueeze(0, site);
  if (vector_last) factors.back() = factors.back().unsqueeze(1, site);
  for (std::size_t i = 0; i < count; ++i) {
    if (factors[i].rank() != 2) {
      fail<ShapeError>("multi_dot", "all tensors must be matrices (the first and last may be vectors)", shown, "",
                       site);
    }
    if (i > 0 && factors[i - 1].shape()[1] != factors[i].shape()[0]) {
      fail<ShapeError>("multi_dot", fmt::format("inner sizes of tensors {} and {} differ", i - 1, i), shown, "", site);
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
    return batched_matmul(cast(a, accumulated(a.dtype()), site), cast(b, accumulated(b.dtype()), site), site);
  };
  Tensor y = cast(product(product, 0, count - 1), returned(tensors[0].dtype()), site);
  if (vector_first) y = y.squeeze(0, site);
  if (vector_last) y = y.squeeze(-1, site);
  return y;
}

Tensor bilinear(const Operand& left, const Operand& right, const Operand& w, const std::optional<Tensor>& bias) {
  const CallSite site = left.site();
  std::vector<Shown> shown{{"a", left}, {"b", right}, {"weight", w}};
  if (bias) shown.emplace_back("bias", *bias);
  check_operands("bilinear", shown, site);
  const Tensor& a = left.tensor();
  const Tensor& b = right.tensor();
  const Tensor& weight = w.tensor();
  const bool ranks = weight.rank() == 3 && a.rank() >= 1 && a.rank() == b.rank();
  if (!ranks || a.shape().slice(0, a.rank() - 1) != b.shape().slice(0, b.rank() - 1) ||
      a.shape().back() != weight.shape()[1] || b.shape().back() != weight.shape()[2]) {
    fail<ShapeError>("bilinear", "a [..., in1], b [..., in2] and weight [out, in1, in2] do not fit", shown, "", site);
  }
  const std::int64_t out = weight.shape()[0];
  if (bias && bias->shape() != Shape{out}) {
    fail<ShapeError>("bilinear", fmt::format("bias must have shape [{}]", out), shown, "", site);
  }
  Shape result = a.shape();
  result[result.rank() - 1] = out;
  const Tensor rows_a = cast(a, accumulated(a.dtype()), site).reshape({-1, a.shape().back()}, site);
  const Tensor rows_b = cast(b, accumulated(b.dtype()), site).reshape({-1, b.shape().back()}, site);
  const Tensor first =
      contract_dims(rows_a, cast(weight, rows_a.dtype(), site),
                    {.batch_a = {}, .batch_b = {}, .m = {0}, .n = {0, 2}, .k_a = {1}, .k_b = {1}}, site);
  Tensor y =
      contract_dims(first, rows_b, {.batch_a = {0}, .batch_b = {0}, .m = {1}, .n = {}, .k_a = {2}, .k_b = {1}}, site);
  if (bias) y = add(Operand(y, site), Operand(cast(*bias, y.dtype(), site), site));
  return cast(y, returned(a.dtype()), site).reshape(result, site);
}

}  // namespace v0
}  // namespace lockstep
