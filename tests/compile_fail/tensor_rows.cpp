// A tensor is no range of rows.
// fails with: write for \(const Tensor& row : x\.unbind\(\)\)
#include <lockstep/tensor.h>

namespace lockstep {

std::int64_t count(const Tensor& x) {
  std::int64_t rows = 0;
#ifdef LOCKSTEP_MUST_FAIL
  for (const Tensor& row : x) rows += row.numel();
#else
  for (const Tensor& row : x.unbind()) rows += row.numel();
#endif
  return rows;
}

}  // namespace lockstep
