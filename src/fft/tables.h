// Roots of unity as tensors. Angles are reduced in integers and made with the library's own f64 functions, so that
// every machine has the same tables; they are rounded once. Tables that were used lately are kept (128 MiB per
// process).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace fft {

struct Root {
  double cosine;
  double sine;
};
/// e^(2 pi i k / n), each part within 1 ulp (of f64); 0 <= k < n < 2^60.
Root root_of_unity(std::int64_t k, std::int64_t n);

/// The transform in place of 2^m complex numbers, on the host. `sign` of the exponent.
void host_transform(std::vector<double>& real, std::vector<double>& imaginary, int sign);

enum class TableKind : std::uint8_t {
  matrix,    ///< of one radix
  twiddles,  ///< between two stages
  chirp,     ///< Bluestein's algorithm
  filter,
  weights,  ///< of the frequencies that determine a real signal
  reads     ///< which parts of these are read
};
struct TableKey {
  TableKind kind;
  std::int64_t n = 0;
  std::int64_t m = 0;
  int sign = 0;
  DType dtype = DType::f32;
  Device device = {};
  std::int64_t each = 1;

  friend auto operator<=>(const TableKey&, const TableKey&) = default;
};
/// The tensor of that key; `make` gives its elements where it is not kept.
Tensor table(const TableKey& key, const Shape& shape, const std::function<std::vector<double>()>& make);

/// How roots e^(i angle) are held for `rotated`: [3, roots...], minus the sines, the sines, and the cosines, where the
/// sines are times `sign`.
std::vector<double> rotation(std::int64_t count, const std::function<Root(std::int64_t)>& root, int sign);

}  // namespace fft
}  // namespace v0
}  // namespace lockstep
