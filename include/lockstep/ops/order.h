// Sorting and what is made of it. The order is docs/numerics.md section 4: NaN is the largest value, -0 equals 0, equal
// elements keep their order.
#pragma once

#include <optional>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// Elements that were chosen along a dimension, and their positions (i64) in it.
struct ValuesIndices {
  Tensor values;
  Tensor indices;
};

/// Stable.  PyTorch: sort(stable=True), argsort, msort.
LOCKSTEP_API ValuesIndices sort(const Operand& input, int dim = -1, bool descending = false);
LOCKSTEP_API Tensor argsort(const Operand& input, int dim = -1, bool descending = false);
/// The k largest (or smallest) elements along `dim`, best first; of equal ones the first.  PyTorch: topk.
LOCKSTEP_API ValuesIndices topk(const Operand& input, std::int64_t k, int dim = -1, bool largest = true);
/// The k-th smallest, k from 1.  PyTorch: kthvalue.
LOCKSTEP_API ValuesIndices kthvalue(const Operand& input, std::int64_t k, int dim = -1, bool keepdim = false);

/// The different values of a tensor.
struct Unique {
  Tensor values;   ///< 1-d
  Tensor inverse;  ///< i64, the input's shape: where each element is in `values`
  Tensor counts;   ///< i64: how often each value occurs
};
/// The different values, ascending; NaNs are all different, as in PyTorch (computes).  PyTorch: unique.
LOCKSTEP_API Unique unique(const Operand& input);
/// The values of each run of equal neighbours (computes).  PyTorch: unique_consecutive.
LOCKSTEP_API Unique unique_consecutive(const Operand& input);

/// Where each value would be inserted to keep `sorted` [..., n] sorted along its last dimension: before equal elements,
/// or after them (`right`). values [..., m] with the same leading sizes, any shape if `sorted` is 1-d. i64.
/// PyTorch: searchsorted.
LOCKSTEP_API Tensor searchsorted(const Operand& sorted, const Operand& values, bool right = false);
/// The bucket of each element between the 1-d `boundaries`.  PyTorch: bucketize.
LOCKSTEP_API Tensor bucketize(const Operand& input, const Tensor& boundaries, bool right = false);
/// How often each of 0, 1, ... occurs in the 1-d input, at least `minlength` bins, or the sum of `weights` (computes).
/// Negative numbers: IndexError.  PyTorch: bincount.
LOCKSTEP_API Tensor bincount(const Operand& input, const std::optional<Tensor>& weights = std::nullopt,
                             std::int64_t minlength = 0);
/// Counts of elements in `bins` equal intervals from min to max (both 0: of the data, computes), others left out;
/// of the input's dtype.  PyTorch: histc.
LOCKSTEP_API Tensor histc(const Operand& input, std::int64_t bins = 100, double min = 0, double max = 0);

}  // namespace v0
}  // namespace lockstep
