// Roots of unity as tensors. Angles are reduced in integers and made with the library's own f64 functions, so that
// every machine has the same tables; they are rounded once. Tables that were used lately are kept (128 MiB per
// process).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/tensor.h>

#include "kernels/fourier.h"

namespace lockstep {
inline namespace v0 {
namespace fft {

struct Root {
  double cosine;
  double sine;
};
/// e^(2 pi i k / n), each part within 1 ulp (of f64); 0 <= k < n < 2^60.
Root root_of_unity(std::int64_t k, std::int64_t n);

enum class TableKind : std::uint8_t {
  roots,       ///< of complex transforms
  real_roots,  ///< of real ones
  halves,      ///< weights of half a spectrum
  doubles
};
struct TableKey {
  TableKind kind;
  std::int64_t n = 0;
  DType dtype = DType::f32;
  Device device = {};

  friend auto operator<=>(const TableKey&, const TableKey&) = default;
};
/// The tensor of that key; `make` gives its elements where it is not kept.
Tensor table(const TableKey& key, const Shape& shape, const std::function<std::vector<double>()>& make);

/// The table of a FourierPlan.
Tensor roots_of(FourierKind kind, std::int64_t n, DType dtype, Device device);

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
