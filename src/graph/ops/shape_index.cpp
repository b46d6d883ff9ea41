// Python's x[...]: integers, slices, new dimensions and ellipses become view ops on the dimensions that they stand for;
// tensors are left to index() of index_tensors.cpp, which sees what the views have made.
#include <algorithm>

#include <fmt/format.h>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// Dimensions of the input that an entry stands for; a mask covers as many as it has.
int dims_named(const Index& index) {
  if (const auto* elements = std::get_if<Tensor>(&index.entry)) {
    return elements->defined() && elements->dtype() == DType::boolean ? elements->rank() : 1;
  }
  return std::holds_alternative<std::int64_t>(index.entry) || std::holds_alternative<Slice>(index.entry) ? 1 : 0;
}

}  // namespace

Tensor Tensor::index(const std::vector<Index>& indices, CallSite site) const {
  const CallScope call("index", site);
  check_defined({{"input", *this}});
  int named = 0;
  int ellipses = 0;
  for (const Index& index : indices) {
    if (std::holds_alternative<Ellipsis>(index.entry)) ++ellipses;
    named += dims_named(index);
  }
  if (ellipses > 1 || named > rank()) {
    fail<IndexError>(ellipses > 1 ? std::string("more than one ellipsis")
                                  : fmt::format("{} entries for {} dimensions", named, rank()),
                     {{"input", *this}}, "give at most one entry per dimension and one ellipsis");
  }
  Tensor result = *this;
  std::vector<std::optional<Tensor>> picks;  // per dimension of the result so far; a mask is one entry
  int d = 0;
  for (const Index& index : indices) {
    if (const auto* position = std::get_if<std::int64_t>(&index.entry)) {
      result = result.select(d, *position);
      continue;
    }
    if (const auto* elements = std::get_if<Tensor>(&index.entry)) {
      picks.emplace_back(*elements);
      d += dims_named(index);
      continue;
    }
    int passed = 1;
    if (const auto* range = std::get_if<Slice>(&index.entry)) {
      result = result.slice(d, *range);
    } else if (std::holds_alternative<None>(index.entry)) {
      result = result.unsqueeze(d);
    } else {
      passed = rank() - named;
    }
    picks.insert(picks.end(), static_cast<std::size_t>(passed), std::nullopt);
    d += passed;
  }
  const bool plain = std::none_of(picks.begin(), picks.end(), [](const auto& pick) { return pick.has_value(); });
  return plain ? result : lockstep::index(result, picks);
}

}  // namespace v0
}  // namespace lockstep
