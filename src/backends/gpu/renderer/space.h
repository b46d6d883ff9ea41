// The iteration space of a program as a kernel sees it: few dimensions, and for every buffer where its elements are.
#pragma once

#include <string>
#include <vector>

#include "backends/gpu/renderer/writer.h"
#include "core/view.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// A program's dimensions and views after merging: dimensions [0, rows) and [rows, shape.rank()).
struct Space {
  Shape shape;
  int rows = 0;
  std::vector<View> inputs, outputs, positions;
  std::int64_t row_count = 1;
  std::int64_t length = 1;  ///< of a row
  bool wide = false;        ///< some index or address does not fit 31 bits

  static Space of(const Program& program, bool keep_rows);
};

/// Whether an element number or coordinate of the view leaves 31 bits.
bool is_wide(const View& view);

/// q = x / size for 0 <= x < 2^31 by a multiplication: the expression; adds the words it needs.
std::string quotient(Words& words, const std::string& x, std::int64_t size, bool wide);

/// Declares index variables <name><d> for dims [first, last) of shape from the linear position `linear`.
void decompose(Lines& lines, Words& words, const Shape& shape, int first, int last, const std::string& linear,
               const std::string& name, bool wide);

/// Where a view's elements are: code in two parts, over dims [0, split) once and over the others per element.
class Access {
 public:
  Access(std::string name, const View& view, bool wide) : name_(std::move(name)), view_(view), wide_(wide) {}

  /// Declares the part that dims [first, last), named <index><d>, contribute, on top of the part `base` of earlier
  /// dims ("" for none): variables <name>_<part> and, for bounds, <name>_<part>_<b>.
  void declare(Lines& lines, Words& words, const std::string& part, const std::string& base, int first, int last,
               const std::string& index) const;
  /// What dims [first, last) contribute to the address (bound -1) or to the coordinate of a bound, the constant part
  /// included or not.
  std::string sum(Words& words, int bound, int first, int last, const std::string& index, bool with_constant) const;
  int bounds() const { return static_cast<int>(view_.bounds.size()); }
  bool bounded() const { return !view_.bounds.empty(); }
  /// The address expression of a part.
  std::string address(const std::string& part) const { return name_ + "_" + part; }
  /// Declares <name>_<part>_in, whether the element exists, and completes the address.
  void check_bounds(Lines& lines, Words& words, const std::string& part) const;
  std::string inside(const std::string& part) const { return name_ + "_" + part + "_in"; }
  const char* index_type() const { return wide_ ? "LONG" : "int"; }

 private:
  std::string term(Words& words, std::int64_t coefficient, const std::string& index) const;

  std::string name_;
  View view_;
  bool wide_;
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
