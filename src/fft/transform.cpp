#include "fft/transform.h"

#include <lockstep/autograd.h>

#include <vector>

#include "fft/tables.h"
#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace fft {
namespace {

// [n/2 + 1, 1, 1]: 1 for the frequencies of half a spectrum that stand for themselves alone, `weight` for those that
// stand for their conjugate, too.
Tensor weights_of(std::int64_t n, double weight, const Tensor& like) {
  const std::int64_t count = n / 2 + 1;
  const TableKind kind = weight < 1 ? TableKind::halves : TableKind::doubles;
  return table({kind, n, like.dtype(), like.device()}, {count, 1, 1}, [&] {
    std::vector<double> values;
    for (std::int64_t k = 0; k < count; ++k) values.push_back(k == 0 || 2 * k == n ? 1 : weight);
    return values;
  });
}

// The adjoint operator. The spectrum of a real signal has each frequency once where its inverse reads it twice.
Tensor adjoint(const Tensor& g, const Transform& how) {
  const auto with = [&](FourierKind kind) { return Transform{kind, how.n, how.scale}; };
  switch (how.kind) {
    case FourierKind::forward: return transform(g, with(FourierKind::inverse));
    case FourierKind::inverse: return transform(g, with(FourierKind::forward));
    case FourierKind::real: return transform(g * weights_of(how.n, 0.5, g), with(FourierKind::real_inverse));
    case FourierKind::real_inverse: break;
  }
  return transform(g, with(FourierKind::real)) * weights_of(how.n, 2, g);
}

}  // namespace

Tensor transform(const Tensor& x, const Transform& how) {
  const Tensor roots = roots_of(how.kind, how.n, x.dtype(), x.device());
  const Tensor result = graph::fourier(how.kind, how.n, how.scale, x, roots);
  if (!graph::is_tracing({&x})) return result;
  return graph::traced(result, {&x}, [how](const Tensor& g, const std::vector<bool>&, const Tensor&) {
    return std::vector<Tensor>{adjoint(g, how)};
  });
}

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
