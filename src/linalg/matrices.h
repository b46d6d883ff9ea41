// What the functions of linalg share: operands as batches of matrices [B, m, n], exact scaling, and results that fail
// when they are read. What is computed here and in factors.h is computed from values without history.
#pragma once

#include <string_view>
#include <utility>

#include <lockstep/linalg.h>

#include "graph/autocast.h"
#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {

/// Columns that are eliminated one by one before the rest is a product of matrices.
inline constexpr std::int64_t kPanel = 32;

/// The call of a function of linalg. Its steps are computed outside of a scope of autocast: half of the digits of an
/// elimination are no elimination.
class LinalgScope {
 public:
  LinalgScope(const char* name, const Operand& first) : call_(name, first) {}

 private:
  CallScope call_;
  graph::AutocastExchange outside_{DType::f32};
};

/// The operand as a tensor of rank >= 2 (ShapeError) in f32 or f64 (DTypeError).
const Tensor& matrix_operand(const Operand& a, const char* label = "a");
/// The same, and square (ShapeError).
const Tensor& square_operand(const Operand& a, const char* label = "a");

/// The last `kept` dimensions as they are, all before them as one.
Tensor flat_batch(const Tensor& a, int kept = 2);
/// [B, ...] with B as the leading dimensions.
Tensor with_batch(const Tensor& a, const Shape& leading);
/// The dimensions but the last two.
Shape batch_of(const Tensor& a);

/// [..., m, n] to [..., n, m].
inline Tensor transposed(const Tensor& a) {
  return a.transpose(-2, -1);
}
/// The i64 numbers 0, 1, ... below `count`, on the tensor's device.
Tensor numbers(std::int64_t count, const Tensor& like);
/// Ones on the diagonal of [rows, columns], of the tensor's dtype and device.
Tensor identity(std::int64_t rows, std::int64_t columns, const Tensor& like);
/// The rows of x [B, m, n] in the order [B, k].
Tensor take_rows(const Tensor& x, const Tensor& order);
/// Number from 1 of the first element of each row [B, n] that holds, 0 if none does: i64 [B].
Tensor first_true(const Tensor& holds);

/// `x` [B, ...], which throws `failure` when it is read, if info [B] (i64) is not 0 somewhere.
Tensor guarded(const Tensor& x, const Tensor& info, graph::Failure failure);

/// Powers of two that bring the largest |element| of each matrix near 1, and back: [B, 1, 1]. 1 for zero matrices and
/// for those that are not finite.
struct Scaling {
  Tensor down;
  Tensor up;
};
Scaling scaling_of(const Tensor& a);
/// b of a x = b as [..., n, k]: whether it is a vector (PyTorch's rule), and a and b over their common batch.
struct System {
  Tensor a, b;
  Shape batch;
  bool vector = false;
};
System system_of(const Tensor& a, const Tensor& b);

}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
