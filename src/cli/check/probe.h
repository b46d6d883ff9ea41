// One call of an op as the check makes it: where, on which shape, dtype, layout and values. An op's row asks the probe
// for its operands; the same questions give the same elements on every device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

using Tensors = std::vector<Tensor>;

/// How the elements of an operand lie in memory.
enum class Layout : std::uint8_t { dense, transposed, sliced, expanded, flipped };
inline constexpr int kLayouts = 5;
const char* name_of(Layout layout);

/// Ordinary: numbers of both signs, many of them equal, halves and zeros of both signs. Special: also NaN, infinities,
/// subnormals, the largest and smallest of the type.
enum class Values : std::uint8_t { ordinary, special };
const char* name_of(Values values);

struct Point {
  Shape shape;
  Layout layout = Layout::dense;
  Values values = Values::ordinary;
  int variant = 0;  ///< which of the op's attributes
};
/// "[3, 1025] transposed special #2".
std::string to_string(const Point& point);

class Probe {
 public:
  Probe(DType dtype, const Point& point, Device device) : dtype_(dtype), point_(point), device_(device) {}

  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const Shape& shape() const { return point_.shape; }
  std::int64_t size(int dim) const { return point_.shape[dim]; }
  int rank() const { return point_.shape.rank(); }
  int variant() const { return point_.variant; }
  TensorOptions options() const { return {.dtype = dtype_, .device = device_}; }
  /// A dimension that exists, by the variant: the last, the first, then the others. A scalar has dimension 0.
  int dim() const;

  /// An operand of the probe's shape and dtype, each time another.
  Tensor x() { return x(shape()); }
  Tensor x(const Shape& shape) { return x(shape, dtype_); }
  Tensor x(const Shape& shape, DType dtype);
  /// The same with values in (0, 4).
  Tensor positive(const Shape& shape);
  Tensor mask(const Shape& shape) { return x(shape, DType::boolean); }
  /// i64 positions in [0, below); none if `below` is 0.
  Tensor index(const Shape& shape, std::int64_t below);

  /// The operands so far, dense.
  const Tensors& operands() const { return operands_; }

 private:
  enum class Range : std::uint8_t { any, positive, index };
  Tensor make(const Shape& shape, DType dtype, Range range, std::int64_t below);

  DType dtype_;
  Point point_;
  Device device_;
  Tensors operands_;
};

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
