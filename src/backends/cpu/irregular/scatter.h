// How a scatter is computed, after self has been copied to the result:
//   rows      the index is the same for whole runs of places (index_add, gradients of embeddings): the rows that go to
//             one place of the axis are combined as vectors (scatter_rows.cpp)
//   blocks    the space falls into parts whose places are apart: each by itself (scatter_places.cpp)
//   buckets   contributions are first sorted, stably, into ranges of places (scatter_places.cpp)
// Threads share no place, and each place sees its contributions in ascending order of their positions.
#pragma once

#include <memory>

#include "backends/cpu/irregular/copies.h"
#include "backends/cpu/irregular/elements.h"
#include "backends/cpu/memory_pool.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {

/// Of a kernel with at least one index.
struct ScatterPlan {
  ScatterPlan(const ScatterKernel& kernel, Isa isa);

  ScatterKernel kernel;
  Isa isa;
  Form form;         ///< words for `set`, which moves
  ComputeType type;  ///< of the values in this form
  const ReduceTable* reduce;
  const ConvertTable* convert;
  std::int64_t places;  ///< elements of out

  ReduceTable::Kind kind() const { return kernel.op == ScatterOp::prod ? ReduceTable::prod : ReduceTable::sum; }
  ReduceTable::Order order() const { return kernel.op == ScatterOp::max ? ReduceTable::max : ReduceTable::min; }
  bool is_extremum() const { return kernel.op == ScatterOp::max || kernel.op == ScatterOp::min; }
};

class Scatter {
 public:
  virtual ~Scatter() = default;
  virtual void run(const Binding& binding) const = 0;
};

/// Null where the index varies along the places' runs.
std::unique_ptr<Scatter> scatter_of_rows(const ScatterPlan& plan);
std::unique_ptr<Scatter> scatter_of_places(const ScatterPlan& plan, MemoryPool& memory);

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
