// The mixed-radix transform of Cooley and Tukey (1965): a product with a matrix per radix, a rotation between two.
#include "fft/transform.h"

#include <lockstep/autograd.h>

#include <vector>

#include "fft/radices.h"
#include "fft/tables.h"
#include "graph/ops/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace fft {
namespace {

// The matrix [2, r, 2, r] that takes parts to parts: (part, frequency) from (part, element).
Tensor matrix_of(std::int64_t r, int sign, const Tensor& like) {
  const TableKey key{TableKind::matrix, r, 0, sign, like.dtype(), like.device()};
  return table(key, {2, r, 2, r}, [&] {
    const auto size = static_cast<std::size_t>(r);
    std::vector<double> values(4 * size * size);
    for (std::size_t j = 0; j < size; ++j) {
      for (std::size_t k = 0; k < size; ++k) {
        const Root root = root_of_unity(static_cast<std::int64_t>(j * k % size), r);
        const auto at = [&](std::size_t to, std::size_t from) -> double& {
          return values[((to * size + j) * 2 + from) * size + k];
        };
        at(0, 0) = root.cosine;
        at(1, 1) = root.cosine;
        at(0, 1) = -sign * root.sine;
        at(1, 0) = sign * root.sine;
      }
    }
    return values;
  });
}

// Up to this length a rotation's table is as long as the signal, one row for all; else it repeats within the signal.
constexpr std::int64_t kWholeTable = 1 << 16;

// e^(2 pi i j k / (r rest)) as [3, rest, r, each]: k, j, and the same `each` times.
Tensor twiddles_of(std::int64_t r, std::int64_t rest, std::int64_t each, const Tensor& like) {
  const TableKey key{TableKind::twiddles, r, rest, 1, like.dtype(), like.device(), each};
  return table(key, {3, rest, r, each}, [&] {
    const auto number = [&](std::int64_t i) { return (i / each % r) * (i / each / r); };
    return rotation(
        r * rest * each, [&](std::int64_t i) { return root_of_unity(number(i), r * rest); }, 1);
  });
}

// What a product reads and writes of a matrix [2, r, 2, r].
struct Part {
  std::int64_t radix;
  std::int64_t parts_out, outputs;
  std::int64_t parts_in, inputs;
};
Tensor part_of_matrix(const Part& part, int sign, const Tensor& like) {
  Tensor matrix = matrix_of(part.radix, sign, like);
  const std::int64_t sizes[] = {part.parts_out, part.outputs, part.parts_in, part.inputs};
  for (int d = 0; d < 4; ++d) {
    if (matrix.size(d) != sizes[d]) matrix = matrix.narrow(d, 0, sizes[d]);
  }
  return matrix;
}

// x [parts, before, inputs, rest, row] to [parts, before, rest, outputs, row].
Tensor product_of_stage(const Tensor& x, const Part& part, int sign) {
  const Tensor matrix = part_of_matrix(part, sign, x);
  const std::int64_t before = x.size(1);
  const std::int64_t rest = x.size(3);
  const std::int64_t row = x.size(4);
  if (row == 1) {
    // Signals are rows of the product, frequencies columns.
    const Tensor signals = x.unsqueeze(0).expand({part.parts_out, part.parts_in, before, part.inputs, rest, 1});
    return graph::contract_dims(
               signals, matrix,
               {.batch_a = {0}, .batch_b = {0}, .m = {2, 4, 5}, .n = {1}, .k_a = {1, 3}, .k_b = {2, 3}})
        .reshape({part.parts_out, before, rest, part.outputs, 1});
  }
  const Tensor signals = x.unsqueeze(0).expand({part.parts_out, part.parts_in, before, part.inputs, rest, row});
  const Tensor matrices =
      matrix.unsqueeze(1).unsqueeze(1).expand({part.parts_out, before, rest, part.outputs, part.parts_in, part.inputs});
  return graph::contract_dims(
      matrices, signals,
      {.batch_a = {0, 1, 2}, .batch_b = {0, 2, 4}, .m = {3}, .n = {5}, .k_a = {4, 5}, .k_b = {1, 3}});
}

}  // namespace

Tensor rotated(const Tensor& x, const Tensor& roots, int sign) {
  const Tensor sines = roots.narrow(0, 0, 2);
  return x * roots.narrow(0, 2, 1).unsqueeze(1) + x.flip({0}) * (sign > 0 ? sines : sines.flip({0})).unsqueeze(1);
}

// n = radix * rest: element i1 rest + i2, frequency j1 + radix k2. A stage puts its frequencies in front of those of
// the stages before it and behind the elements that are left; so the last stage leaves them in order.
Tensor transform_in_stages(const Tensor& x, const Transform& how, const std::vector<std::int64_t>& radices) {
  const std::int64_t before = x.size(1);
  const std::int64_t after = x.size(3);
  std::int64_t done = 1;
  std::int64_t left = how.n;
  Tensor y = x;
  for (std::size_t stage = 0; stage < radices.size(); ++stage) {
    const std::int64_t radix = radices[stage];
    const std::int64_t rest = left / radix;
    const bool is_last = stage + 1 == radices.size();
    // Elements that are zeros, and results that nobody wants, are left out of the first and the last product.
    const Part part{.radix = radix,
                    .parts_out = is_last && how.real_output ? 1 : 2,
                    .outputs = is_last ? (how.outputs + done - 1) / done : radix,
                    .parts_in = y.size(0),
                    .inputs = stage == 0 ? (x.size(2) + rest - 1) / rest : radix};
    if (stage == 0 && part.inputs * rest != x.size(2)) {
      y = lockstep::pad(y, {0, 0, 0, part.inputs * rest - x.size(2)});
    }
    const Tensor product =
        product_of_stage(y.reshape({part.parts_in, before, part.inputs, rest, done * after}), part, how.sign);
    if (is_last) {
      y = product.reshape({part.parts_out, before, part.outputs * done, after});
    } else {
      const bool whole = after == 1 && how.n <= kWholeTable;
      y = rotated(product, twiddles_of(radix, rest, whole ? done : 1, x), how.sign);
    }
    done *= radix;
    left = rest;
  }
  return y.size(2) == how.outputs ? y : y.narrow(2, 0, how.outputs);
}

namespace {

Tensor untraced_transform(const Tensor& x, const Transform& how) {
  const NoGrad scope;
  const std::vector<std::int64_t> radices = radices_of(how.n);
  return radices.empty() ? transform_by_chirp(x, how) : transform_in_stages(x, how, radices);
}

}  // namespace

Tensor transform(const Tensor& x, const Transform& how) {
  const Tensor result = untraced_transform(x, how);
  if (!graph::is_tracing({&x})) return result;
  const Transform adjoint{.n = how.n, .sign = -how.sign, .outputs = x.size(2), .real_output = x.size(0) == 1};
  return graph::traced(result, {&x}, [adjoint](const Tensor& g, const std::vector<bool>&, const Tensor&) {
    return std::vector<Tensor>{transform(g, adjoint)};
  });
}

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
