#include "backends/reference/irregular.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <vector>

#include "backends/reference/elements.h"
#include "backends/reference/program.h"
#include "backends/reference/reduce.h"

namespace lockstep {
inline namespace v0 {
namespace reference {
namespace {

// --- scatter
// ----------------------------------------------------------------------------------------------------------

/// "R(contributions in ascending source position)"
template <typename T> T combined(ScatterOp op, const std::vector<T>& values) {
  switch (op) {
    case ScatterOp::add: return sum(values);
    case ScatterOp::prod: return product(values);
    case ScatterOp::max: return values[index_of_max(values)];
    case ScatterOp::min: return values[index_of_min(values)];
    case ScatterOp::set: break;
  }
  return values.back();
}

/// "out = self + R(contributions)", in this order of the operands.
template <typename T> T joined(ScatterOp op, T self, T values) {
  switch (op) {
    case ScatterOp::add: return add(self, values);
    case ScatterOp::prod: return multiply(self, values);
    default: return combined<T>(op, {self, values});
  }
}

}  // namespace
}  // namespace reference

using namespace reference;

void run_kernel(const ScatterKernel& kernel, const Binding& binding) {
  const Shape& shape = kernel.self.view.shape;
  std::byte* out = slot(binding, kernel.out);
  Index index{};
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    if (slot(binding, kernel.self.slot) == out) break;
    unravel(shape, i, index.data());
    store_word(kernel.dtype, out, i, word_at(kernel.self, binding, index.data()));
  }
  std::map<std::int64_t, std::vector<std::int64_t>> sources;  // of each place, in ascending order
  for (std::int64_t p = 0; p < kernel.space.numel(); ++p) {
    unravel(kernel.space, p, index.data());
    const auto at = value_at<std::int64_t>(kernel.index, binding, index.data());
    if (at < 0 || at >= kernel.size) {
      report_fault(binding, 0);
      continue;
    }
    sources[dot_index(kernel.strides, index.data()) + kernel.stride * at].push_back(p);
  }
  for (const auto& source : sources) {
    const std::int64_t place = source.first;
    const std::vector<std::int64_t>& positions = source.second;
    if (kernel.op == ScatterOp::set) {
      unravel(kernel.space, positions.back(), index.data());
      store_word(kernel.dtype, out, place, word_at(kernel.values, binding, index.data()));
      continue;
    }
    with_compute_type(kernel.dtype, [&]<typename T>(T) {
      std::vector<T> values;
      for (const std::int64_t p : positions) {
        unravel(kernel.space, p, index.data());
        values.push_back(value_at<T>(kernel.values, binding, index.data()));
      }
      T result = combined(kernel.op, values);
      if (kernel.include_self) {
        result = joined(kernel.op, decode<T>(kernel.dtype, load_word(kernel.dtype, out, place)), result);
      }
      store_word(kernel.dtype, out, place, encode(kernel.dtype, scalar::canonical(result)));
    });
  }
}

// --- scan
// -------------------------------------------------------------------------------------------------------------

namespace reference {
namespace {

constexpr std::size_t kScanLane = 64;

/// Section 5: "chunks of 4096 = 64 lanes of 64 consecutive elements. Sequential inside a lane; lane prefixes sequential
/// over the lane totals; chunk prefixes by the same scan of chunk totals; out = op(op(chunk prefix, lane prefix),
/// local), absent prefixes skipped."
template <typename T, typename Combine> std::vector<T> scan_in_order(const std::vector<T>& x, Combine combine) {
  std::vector<T> local = x;
  std::vector<T> lane_prefix(x.size() / kScanLane + 1);  // of each lane, over the lanes of its chunk before it
  std::vector<T> chunk_totals;
  for (std::size_t chunk = 0; chunk < x.size(); chunk += kChunk) {
    const std::size_t end = std::min(x.size(), chunk + kChunk);
    for (std::size_t lane = chunk; lane < end; lane += kScanLane) {
      const std::size_t lane_end = std::min(end, lane + kScanLane);
      for (std::size_t i = lane + 1; i < lane_end; ++i) local[i] = combine(local[i - 1], x[i]);
      const T total = local[lane_end - 1];
      const std::size_t number = lane / kScanLane;
      const T upto = lane == chunk ? total : combine(lane_prefix[number], total);
      if (lane_end < end) {
        lane_prefix[number + 1] = upto;
      } else {
        chunk_totals.push_back(upto);
      }
    }
  }
  std::vector<T> chunk_prefix;
  if (chunk_totals.size() > 1) chunk_prefix = scan_in_order(chunk_totals, combine);
  std::vector<T> result;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool has_lane = i % kChunk >= kScanLane;
    const bool has_chunk = i >= kChunk;
    T value = local[i];
    if (has_lane && has_chunk) {
      value = combine(combine(chunk_prefix[i / kChunk - 1], lane_prefix[i / kScanLane]), value);
    } else if (has_lane) {
      value = combine(lane_prefix[i / kScanLane], value);
    } else if (has_chunk) {
      value = combine(chunk_prefix[i / kChunk - 1], value);
    }
    result.push_back(value);
  }
  return result;
}

/// The position of the first winner among the elements so far.
template <typename T, typename Beats> std::vector<std::int64_t> winners(const std::vector<T>& x, Beats beats) {
  std::vector<std::int64_t> result;
  std::int64_t best = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (beats(x[i], x[static_cast<std::size_t>(best)])) best = static_cast<std::int64_t>(i);
    result.push_back(best);
  }
  return result;
}

template <typename T> std::vector<std::int64_t> winners(ScanOp op, const std::vector<T>& x) {
  if (op == ScanOp::max || op == ScanOp::argmax) {
    return winners(x, [](T a, T b) { return scalar::max_key(a) > scalar::max_key(b); });
  }
  return winners(x, [](T a, T b) { return scalar::min_key(a) < scalar::min_key(b); });
}

template <typename T> std::vector<T> scanned(ScanOp op, const std::vector<T>& x) {
  switch (op) {
    case ScanOp::sum: return scan_in_order(x, [](T a, T b) { return add(a, b); });
    case ScanOp::prod: return scan_in_order(x, [](T a, T b) { return multiply(a, b); });
    default: break;
  }
  std::vector<T> result;
  for (const std::int64_t best : winners(op, x)) result.push_back(x[static_cast<std::size_t>(best)]);
  return result;
}

/// Row `row` of `input`, whose view is over (rows..., n); index is left at the row.
template <typename T>
std::vector<T> row_of(const Input& input, const Binding& binding, const Shape& rows, std::int64_t row, std::int64_t n,
                      Index& index) {
  unravel(rows, row, index.data());
  std::vector<T> x;
  for (std::int64_t i = 0; i < n; ++i) {
    index[static_cast<std::size_t>(rows.rank())] = i;
    x.push_back(value_at<T>(input, binding, index.data()));
  }
  return x;
}

}  // namespace
}  // namespace reference

void run_kernel(const ScanKernel& kernel, const Binding& binding) {
  std::byte* out = slot(binding, kernel.out);
  const bool positions = kernel.op == ScanOp::argmax || kernel.op == ScanOp::argmin;
  const std::int64_t stride = kernel.out_strides.back();
  with_compute_type(kernel.input.dtype, [&]<typename T>(T) {
    for (std::int64_t row = 0; row < kernel.rows.numel(); ++row) {
      Index index{};
      const std::vector<T> x = row_of<T>(kernel.input, binding, kernel.rows, row, kernel.n, index);
      index[static_cast<std::size_t>(kernel.rows.rank())] = 0;
      std::int64_t address = dot_index(kernel.out_strides, index.data());
      const auto put = [&](DType dtype, const auto& values) {
        for (const auto value : values) {
          store_word(dtype, out, address, encode(dtype, scalar::canonical(value)));
          address += stride;
        }
      };
      if (positions) {
        put(DType::i64, winners(kernel.op, x));
      } else {
        put(kernel.input.dtype, scanned(kernel.op, x));
      }
    }
  });
}

// --- sort
// -------------------------------------------------------------------------------------------------------------

void run_kernel(const SortKernel& kernel, const Binding& binding) {
  std::byte* out = slot(binding, kernel.out);
  with_compute_type(kernel.input.dtype, [&]<typename T>(T) {
    for (std::int64_t row = 0; row < kernel.rows.numel(); ++row) {
      Index index{};
      const std::vector<T> x = row_of<T>(kernel.input, binding, kernel.rows, row, kernel.n, index);
      index[static_cast<std::size_t>(kernel.rows.rank())] = 0;
      std::int64_t address = dot_index(kernel.out_strides, index.data());
      std::vector<std::size_t> order(x.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      // Section 4: "sort is stable, NaN last ascending and first descending".
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const auto first = scalar::max_key(x[a]);
        const auto second = scalar::max_key(x[b]);
        return kernel.descending ? first > second : first < second;
      });
      for (const std::size_t position : order) {
        store_word(DType::i64, out, address, position);
        address += kernel.out_strides.back();
      }
    }
  });
}

// --- update
// -----------------------------------------------------------------------------------------------------------

void run_kernel(const UpdateKernel& kernel, const Binding& binding) {
  std::byte* out = slot(binding, kernel.out);
  const std::byte* self = slot(binding, kernel.self);
  if (self != out) {
    for (std::int64_t i = 0; i < kernel.elements; ++i)
      store_word(kernel.dtype, out, i, load_word(kernel.dtype, self, i));
  }
  Index index{};
  const std::int64_t start = start_of(kernel, binding);
  for (std::int64_t i = 0; i < kernel.region.shape.numel(); ++i) {
    unravel(kernel.region.shape, i, index.data());
    const std::int64_t place = start + kernel.region.address(index.data());
    store_word(kernel.dtype, out, place, word_at(kernel.values, binding, index.data()));
  }
}

void run_kernel(const AttentionKernel&, const Binding&) {
  throw BackendError("ref: attention is composed here, and fast numerics have no specified bits");
}

void run_kernel(const RecurrenceKernel&, const Binding&) {
  throw BackendError("ref: a recurrence is composed of its steps here");
}

}  // namespace v0
}  // namespace lockstep
