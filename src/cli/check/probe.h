// One call of an op as the check makes it: where, on which shape, dtype, layout and values. An op's row asks the probe
// for its operands; the same questions give the same elements on every device.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/numerics.h>
#include <lockstep/tensor.h>

#include "kernels/kernel.h"

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
  Numerics numerics = Numerics::exact;
};
/// "[3, 1025] transposed special #2 blocked".
std::string to_string(const Point& point);

/// Of the message of an error: the problem, without the fix.
inline std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// Float operands for gradients: f64, all different, nowhere near a multiple of 1/2. The leaf is what lies in memory,
/// and the operand a view of it.
struct Slope {
  Domain domain = Domain::any;
  double step = 0;       ///< how far the leaves are moved along their directions
  bool tracked = false;  ///< the leaves require a gradient
  bool shared = false;   ///< operands of one shape are one leaf
};
struct Leaf {
  Tensor tensor;
  std::vector<double> direction;
  bool is_positive = false;
};

/// Generic numbers in (low, high), the same everywhere.
std::vector<double> generic_values(std::size_t count, std::uint64_t seed, double low, double high);

class Probe {
 public:
  Probe(DType dtype, const Point& point, Device device) : dtype_(dtype), point_(point), device_(device) {}
  Probe(const Slope& slope, const Point& point, Device device)
      : dtype_(DType::f64), point_(point), device_(device), slope_(slope) {}

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
  /// Weights in blocks, whose last size is as many whole ones as `shape`'s needs. DTypeError unless their values are of
  /// the probe's dtype; those of a slope have no gradient.
  Tensor packed(Shape shape, Encoding encoding);
  /// From now on the operands that x() makes are packed where their dtype and shape allow; or, to compare with, they
  /// are the same values unpacked.
  enum class Packing : std::uint8_t { none, packed, unpacked };
  void pack(Encoding encoding, Packing packing) {
    encoding_ = encoding;
    packing_ = packing;
  }

  /// From now on an operand is what this makes of the one that the probe has made, of the same shape and dtype; they
  /// are counted from 0. Packed ones stay what they are.
  using Choice = std::function<Tensor(std::size_t number, const Tensor& operand)>;
  void choose(Choice choice) { choice_ = std::move(choice); }

  /// The operands so far, dense; of packed ones the blocks.
  const Tensors& operands() const { return operands_; }
  /// Those of a slope.
  const std::vector<Leaf>& leaves() const { return leaves_; }

 private:
  enum class Range : std::uint8_t { any, positive, index };
  Tensor make(const Shape& shape, DType dtype, Range range, std::int64_t below);
  Tensor leaf(const Shape& base, bool is_positive);
  Tensor blocks(const Shape& shape, Encoding encoding);

  DType dtype_;
  Point point_;
  Device device_;
  std::optional<Slope> slope_;
  Encoding encoding_ = Encoding::dense;
  Packing packing_ = Packing::none;
  Choice choice_;
  Tensors operands_;
  std::vector<Leaf> leaves_;
};

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
