// The norm of gradients that lie with several stages, in the order of one process: squares are added in chunks of the
// flat tensor of all, which do not end where stages do.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/autograd.h>
#include <lockstep/ops.h>

#include "graph/make.h"
#include "optim/clip_factor.h"
#include "parallel/flat_sum.h"
#include "parallel/pipeline_impl.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

// The squares of all chunks, on every rank, of a flat tensor of which this rank has `part`. A chunk is added by the
// rank that has its beginning, which gets the rest from those behind it.
Tensor squares_of_stages(const Group& group, Tensor part, const Cuts& cuts) {
  if (group.size() == 1) return squares_of_chunks(part);
  const auto own = static_cast<std::size_t>(group.rank());
  std::vector<std::int64_t> heads;  // the elements of each rank before its first chunk
  std::vector<Shape> shapes;
  for (std::size_t r = 0; r + 1 < cuts.size(); ++r) {
    heads.push_back(std::min(ceil_chunk(cuts[r]), cuts[r + 1]) - cuts[r]);
    shapes.push_back({heads.back()});
  }
  const std::vector<Tensor> all = group.all_gather(part.narrow(0, 0, heads[own]), shapes);
  std::vector<Tensor> pieces{part.narrow(0, heads[own], part.numel() - heads[own])};
  if (pieces.front().numel() > 0) {
    const std::int64_t end = ceil_chunk(cuts[own + 1]);
    for (std::size_t r = own + 1; r < all.size() && cuts[r] < end; ++r) pieces.push_back(all[r].to(part.device()));
  }
  Cuts chunks;
  for (const std::int64_t cut : cuts) chunks.push_back(ceil_chunk(cut) / kChunk);
  return gathered(group, squares_of_chunks(cat(pieces, 0)), chunks);
}

}  // namespace

Tensor Pipeline::Impl::norm() const {
  // A parameter is marked by the rank that has it.
  std::vector<std::uint8_t> mine;
  for (const Placed& one : parameters) {
    mine.push_back(one.rank == group.rank() && one.parameter.grad().defined() ? 1 : 0);
  }
  std::vector<bool> present(parameters.size());
  for (const Tensor& marks : group.all_gather(Tensor::from(mine, {static_cast<std::int64_t>(mine.size())}, Device{}))) {
    const std::vector<std::uint8_t> theirs = marks.to_vector<std::uint8_t>();
    for (std::size_t p = 0; p < present.size(); ++p) present[p] = present[p] || theirs[p] != 0;
  }
  std::vector<DType> dtypes;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const DType dtype = parameters[p].parameter.dtype();
    if (present[p] && std::ranges::find(dtypes, dtype) == dtypes.end()) dtypes.push_back(dtype);
  }
  std::vector<Tensor> norms;
  for (const DType dtype : dtypes) {
    std::vector<Shape> shapes;
    std::vector<Tensor> here;
    std::vector<std::size_t> members;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (!present[p] || parameters[p].parameter.dtype() != dtype) continue;
      members.push_back(p);
      shapes.push_back(parameters[p].parameter.shape());
      if (parameters[p].rank == group.rank()) here.push_back(detach(parameters[p].parameter.grad()));
    }
    const optim::Layout layout(shapes);
    Cuts cuts(static_cast<std::size_t>(group.size()) + 1, layout.size());
    for (std::size_t m = members.size(); m-- > 0;) {
      for (int rank = 0; rank <= parameters[members[m]].rank; ++rank) {
        cuts[static_cast<std::size_t>(rank)] = layout.offset(m);
      }
    }
    const auto own_rank = static_cast<std::size_t>(group.rank());
    const std::int64_t size = cuts[own_rank + 1] - cuts[own_rank];
    Tensor part = zeros({size}, {.dtype = dtype, .device = own.front().device()});
    if (!here.empty()) {
      std::vector<Shape> own_shapes;
      for (const Tensor& one : here) own_shapes.push_back(one.shape());
      const Tensor packed = optim::Layout(own_shapes).pack(here, optim::Layout::Gaps::zero);
      // Up to where the next rank's begin.
      part = cat({packed, part.narrow(0, 0, size - packed.numel())}, 0);
    }
    const Tensor squares = squares_of_stages(group, std::move(part), cuts);
    norms.push_back(sqrt(graph::reduce(ReduceOp::sum, squares, 1u).reshape({})));
  }
  if (norms.empty()) return zeros({}, {.device = own.front().device()});
  return optim::norm_of_norms(norms, 2);
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
