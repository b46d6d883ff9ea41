// Window views over the last dimensions of a tensor.
#include "graph/ops/windows.h"

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace graph {

Shape per_axis(const char* what, const Shape& given, int rank, std::int64_t least, const Tensor& input) {
  Shape result = given.rank() == 1 ? Shape::filled(rank, given[0]) : given;
  bool valid = result.rank() == rank;
  for (const std::int64_t value : result) valid = valid && value >= least && value < (std::int64_t{1} << 31);
  if (!valid) {
    fail<ValueError>(fmt::format("{} {} must be one or {} values of at least {}", what, given.to_string(), rank, least),
                     {{"input", input}});
  }
  return result;
}

Tensor windows_of(const Tensor& x, const std::vector<Axis>& axes, std::uint64_t fill) {
  const int first = x.rank() - static_cast<int>(axes.size());
  return change_view(x, [&](const View& view) {
    std::optional<View> result = view;
    for (std::size_t i = 0; result && i < axes.size(); ++i) {
      const Axis& axis = axes[i];
      if (axis.padding > 0 || axis.after > 0) {
        result = result->padded(first + static_cast<int>(i), axis.padding, axis.after, fill);
      }
    }
    for (std::size_t i = 0; result && i < axes.size(); ++i) {
      const Axis& axis = axes[i];
      result = result->windowed(first + static_cast<int>(i), axis.kernel, axis.output, axis.stride, axis.dilation);
    }
    return result;
  });
}

std::uint32_t last_dims(const Tensor& windows, std::size_t count) {
  const int rank = windows.rank();
  return ((1u << rank) - 1u) & ~((1u << (rank - static_cast<int>(count))) - 1u);
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
