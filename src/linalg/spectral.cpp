// Eigenvalues of symmetric matrices and singular values, which are computed on the host (host.h), and their gradients.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/fp_state.h"
#include "graph/tape.h"
#include "linalg/host.h"
#include "linalg/matrices.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {
namespace {

// The matrices of a batch on the host, in f64, each times the power of two that brings its largest |element| to [1, 2).
struct HostMatrices {
  std::int64_t count;
  std::int64_t size;  ///< elements of a matrix
  std::vector<double> elements;
  std::vector<int> exponents;  ///< what the matrices were divided by

  /// With `lower`, of square matrices, the elements above the diagonal are those below it. LinalgError: not finite.
  HostMatrices(const Tensor& a, bool lower);

  std::vector<double> matrix(std::int64_t number) const {
    return {elements.begin() + number * size, elements.begin() + (number + 1) * size};
  }
};

HostMatrices::HostMatrices(const Tensor& a, bool lower)
    : count(batch_of(a).numel()), size(a.size(-2) * a.size(-1)), exponents(static_cast<std::size_t>(count), 0) {
  const Tensor bare = graph::untraced(a);
  if (a.dtype() == DType::f64) {
    elements = bare.to_vector<double>();
  } else {
    const std::vector<float> words = bare.to_vector<float>();
    elements.assign(words.begin(), words.end());
  }
  const std::int64_t n = a.size(-1);
  for (std::int64_t number = 0; number < count; ++number) {
    double* const own = elements.data() + number * size;
    double largest = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t row = n == 0 ? 0 : i / n;
      const std::int64_t column = n == 0 ? 0 : i % n;
      if (lower && column > row) continue;
      if (lower) own[column * n + row] = own[i];
      check<LinalgError>(std::isfinite(own[i]),
                         fmt::format("matrix {} of the batch has elements that are not finite", number), {{"a", a}},
                         "look for them with isfinite");
      largest = std::max(largest, std::abs(own[i]));
    }
    if (largest == 0) continue;
    int exponent = 0;
    std::frexp(largest, &exponent);
    exponents[static_cast<std::size_t>(number)] = exponent - 1;
    for (std::int64_t i = 0; i < size; ++i) own[i] = std::ldexp(own[i], 1 - exponent);
  }
}

// Values of all matrices on their way back to a tensor of `like`'s dtype, on its device.
class Results {
 public:
  void add(const std::vector<double>& values, int exponent = 0) {
    for (const double value : values) values_.push_back(exponent == 0 ? value : std::ldexp(value, exponent));
  }
  Tensor tensor(const Shape& shape, const Tensor& like) const {
    if (like.dtype() == DType::f64) return Tensor::from(values_, shape, like.device());
    std::vector<float> words;
    for (const double value : values_) {
      const auto word = static_cast<float>(value);
      words.push_back(std::abs(word) <= 0x1p-126F ? std::copysign(0.0F, word) : word);  // canonical
    }
    return Tensor::from(words, shape, like.device());
  }

 private:
  std::vector<double> values_;
};

void check_converged(bool converged, std::int64_t number, const Tensor& a) {
  check<LinalgError>(converged, fmt::format("no end of the iteration for matrix {} of the batch", number), {{"a", a}},
                     "report it with the matrix");
}

Shape with_sizes(Shape batch, std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes) batch.push_back(size);
  return batch;
}

Eigh eigh_of(const Tensor& a, bool with_vectors) {
  const FloatingPointScope scope;
  const std::int64_t n = a.size(-1);
  const HostMatrices matrices(a, true);
  Results values;
  Results vectors;
  for (std::int64_t i = 0; i < matrices.count; ++i) {
    const host::Eigen parts = host::symmetric_eigen(matrices.matrix(i), n, with_vectors);
    check_converged(parts.converged, i, a);
    values.add(parts.values, matrices.exponents[static_cast<std::size_t>(i)]);
    if (with_vectors) vectors.add(host::transposed(parts.vectors, n, n));
  }
  const Shape batch = batch_of(a);
  Eigh result{values.tensor(with_sizes(batch, {n}), a), {}};
  if (with_vectors) result.eigenvectors = vectors.tensor(a.shape(), a);
  return result;
}

enum class Vectors : std::uint8_t { none, reduced, all };

Svd svd_of(const Tensor& a, Vectors wanted) {
  const FloatingPointScope scope;
  const std::int64_t m = a.size(-2);
  const std::int64_t n = a.size(-1);
  const std::int64_t k = std::min(m, n);
  const std::int64_t larger = std::max(m, n);
  const std::int64_t columns = wanted == Vectors::all ? larger : wanted == Vectors::reduced ? k : 0;
  const HostMatrices matrices(a, false);
  Results u, s, vh;
  for (std::int64_t i = 0; i < matrices.count; ++i) {
    // a^T = v s u^T: the factors of a wide matrix change places.
    const std::vector<double> own = matrices.matrix(i);
    const host::Singular parts = host::singular_values(m < n ? host::transposed(own, m, n) : own, larger, k, columns);
    check_converged(parts.converged, i, a);
    s.add(parts.values, matrices.exponents[static_cast<std::size_t>(i)]);
    if (wanted == Vectors::none) continue;
    u.add(m < n ? host::transposed(parts.vh, k, k) : host::transposed(parts.ut, columns, m));
    vh.add(m < n ? parts.ut : parts.vh);
  }
  const Shape batch = batch_of(a);
  Svd result{{}, s.tensor(with_sizes(batch, {k}), a), {}};
  if (wanted == Vectors::none) return result;
  const bool all = wanted == Vectors::all;
  result.u = u.tensor(with_sizes(batch, {m, all ? m : k}), a);
  result.vh = vh.tensor(with_sizes(batch, {all ? n : k, n}), a);
  return result;
}

Tensor symmetric_part(const Tensor& a) {
  return (a + transposed(a)) * 0.5;
}
Tensor antisymmetric_twice(const Tensor& a) {
  return a - transposed(a);
}
// x_j - x_i, and infinity on the diagonal: what is divided by it is 0 there.
Tensor differences(const Tensor& x) {
  const Tensor own = eq(numbers(x.size(-1), x).unsqueeze(1), numbers(x.size(-1), x));
  return where(own, std::numeric_limits<double>::infinity(), x.unsqueeze(-2) - x.unsqueeze(-1));
}

// Giles, "Collected matrix derivative results" (2008), 3.1; the part that symmetric changes do not see is left out.
Tensor eigh_gradient(const Eigh& parts, const Tensor& gl, const Tensor& gv) {
  const Tensor& v = parts.eigenvectors;
  Tensor middle;
  if (gl.defined()) middle = diag_embed(gl);
  if (gv.defined()) {
    const Tensor turn = matmul(transposed(v), gv) / differences(parts.eigenvalues);
    middle = middle.defined() ? middle + turn : turn;
  }
  return symmetric_part(matmul(v, matmul(middle, transposed(v))));
}

Eigh traced_eigh(const Eigh& bare, const Tensor& a) {
  const auto rule = [&](bool of_values) {
    return [a, bare, of_values](const Tensor& g, const std::vector<bool>&, const Tensor&) {
      const Eigh parts = graph::is_tracing({&a}) ? eigh(a) : bare;
      return std::vector<Tensor>{eigh_gradient(parts, of_values ? g : Tensor(), of_values ? Tensor() : g)};
    };
  };
  return {graph::traced(bare.eigenvalues, {&a}, rule(true)), graph::traced(bare.eigenvectors, {&a}, rule(false))};
}

// Of the reduced form.  PyTorch: svd_backward.
Tensor svd_gradient(const Svd& parts, const Tensor& gu, const Tensor& gs, const Tensor& gvh) {
  const Tensor& u = parts.u;
  const Tensor v = transposed(parts.vh);
  const Tensor row = parts.s.unsqueeze(-2);
  const Tensor column = parts.s.unsqueeze(-1);
  if (gs.defined()) return matmul(u * gs.unsqueeze(-2), parts.vh);
  const Tensor gaps = differences(parts.s * parts.s);
  const std::int64_t k = parts.s.size(-1);
  if (gu.defined()) {
    Tensor inner = matmul(u, antisymmetric_twice(matmul(transposed(u), gu)) / gaps * row);
    if (u.size(-2) > k) inner = inner + (gu - matmul(u, matmul(transposed(u), gu))) / row;
    return matmul(inner, parts.vh);
  }
  const Tensor gv = transposed(gvh);
  Tensor inner = matmul(column * (antisymmetric_twice(matmul(parts.vh, gv)) / gaps), parts.vh);
  if (v.size(-2) > k) inner = inner + (gvh - matmul(matmul(gvh, v), parts.vh)) / column;
  return matmul(u, inner);
}

Svd traced_svd(const Svd& bare, const Tensor& a) {
  enum class Part { u, s, vh };
  const auto rule = [&](Part part) {
    return [a, bare, part](const Tensor& g, const std::vector<bool>&, const Tensor&) {
      const Svd parts = graph::is_tracing({&a}) ? svd(a, {.full_matrices = false}) : bare;
      const auto of = [&](Part which) { return which == part ? g : Tensor(); };
      return std::vector<Tensor>{svd_gradient(parts, of(Part::u), of(Part::s), of(Part::vh))};
    };
  };
  return {graph::traced(bare.u, {&a}, rule(Part::u)), graph::traced(bare.s, {&a}, rule(Part::s)),
          graph::traced(bare.vh, {&a}, rule(Part::vh))};
}

// The first `k` along `dim` from `traced`, the others as they are.
Tensor with_rest(const Tensor& traced, const Tensor& whole, int dim) {
  const std::int64_t k = traced.size(dim);
  if (whole.size(dim) == k) return traced;
  return cat({traced, whole.narrow(dim, k, whole.size(dim) - k)}, dim);
}

}  // namespace

Eigh eigh(const Operand& operand) {
  const LinalgScope call("linalg.eigh", operand);
  const Tensor& a = square_operand(operand);
  const Eigh result = eigh_of(a, true);
  return graph::is_tracing({&a}) ? traced_eigh(result, a) : result;
}

Tensor eigvalsh(const Operand& operand) {
  const LinalgScope call("linalg.eigvalsh", operand);
  const Tensor& a = square_operand(operand);
  return graph::is_tracing({&a}) ? eigh(operand).eigenvalues : eigh_of(a, false).eigenvalues;
}

Svd svd(const Operand& operand, const SvdOptions& options) {
  const LinalgScope call("linalg.svd", operand);
  const Tensor& a = matrix_operand(operand);
  const std::int64_t k = std::min(a.size(-2), a.size(-1));
  const Svd result = svd_of(a, options.full_matrices ? Vectors::all : Vectors::reduced);
  if (!graph::is_tracing({&a})) return result;
  const Svd reduced = traced_svd({result.u.narrow(-1, 0, k), result.s, result.vh.narrow(-2, 0, k)}, a);
  return {with_rest(reduced.u, result.u, -1), reduced.s, with_rest(reduced.vh, result.vh, -2)};
}

Tensor svdvals(const Operand& operand) {
  const LinalgScope call("linalg.svdvals", operand);
  const Tensor& a = matrix_operand(operand);
  if (graph::is_tracing({&a})) return svd(operand, {.full_matrices = false}).s;
  return svd_of(a, Vectors::none).s;
}

}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
