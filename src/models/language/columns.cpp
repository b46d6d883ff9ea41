#include "models/language/columns.h"

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace models {

Tensor ColumnPart::all_columns(const Tensor& own) const {
  std::vector<Shape> shapes;
  for (std::size_t rank = 0; rank + 1 < cuts.size(); ++rank) {
    Shape shape = own.shape();
    shape[shape.rank() - 1] = cuts[rank + 1] - cuts[rank];
    shapes.push_back(shape);
  }
  return cat(group.all_gather(own, shapes), -1);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
