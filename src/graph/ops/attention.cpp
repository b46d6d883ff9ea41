// scaled_dot_product_attention in blocks of rows: the composition of docs/numerics.md section 6, whose scores exist for
// one block at a time; or as one kernel, where the device has it. Masks of causality and windows are comparisons of
// positions inside the kernels.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/ops/attention.h>

#include "backends/backend.h"
#include "graph/autocast.h"
#include "graph/kernel_watch.h"
#include "graph/make.h"
#include "graph/numerics.h"
#include "graph/ops/contraction.h"
#include "graph/recording.h"
#include "graph/window.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();
// Rows that agree about which keys are read.
constexpr std::int64_t kTileRows = 128;
// Rows of a step that is one of many alike. With more, hidden keys would cost more than a plan.
constexpr std::int64_t kFewRows = 16;
// Scores of one block, in bytes. On the CPU: within the caches, and enough work for all threads; on a GPU: enough for
// all of its units, but a small part of its memory.
constexpr std::int64_t kBlockBytes = std::int64_t{4} << 20;
constexpr std::int64_t kGpuBlockBytes = std::int64_t{256} << 20;
constexpr std::int64_t kBlocksInWindow = 16;

std::int64_t block_bytes_on(Device device) {
  if (is_host(device)) return kBlockBytes;
  const auto window = static_cast<std::int64_t>(backend_of(device).window_bytes());
  return std::clamp(window / kBlocksInWindow, kBlockBytes, kGpuBlockBytes);
}
// Of heads that fused kernels take: multiples, and the most.
constexpr std::int64_t kFusedWidths = 8;
constexpr std::int64_t kFusedBlockedWidths = 32;
constexpr std::int64_t kMostFusedWidth = 128;
// Of results, whose places are 32-bit numbers.
constexpr std::int64_t kMostFusedElements = std::int64_t{1} << 31;
// Of keys, whose sums of exponentials have as many chunks as lanes.
constexpr std::int64_t kMostFusedKeys = std::int64_t{order::kLanes} * order::kChunk;
// On the CPU, where the scores of a vector of queries stay in a core's cache.
constexpr std::int64_t kLeastExactKeys = 8;
constexpr std::int64_t kMostExactKeys = 8192;
// On a GPU, of one row with a mask or of causal ones, as a step or a prompt of a language model has it: all sums of
// exponentials are one chunk. What reads a step's values has 32 columns or more, for so many heads that share keys.
constexpr std::int64_t kMostMaskedKeys = order::kChunk;
constexpr std::int64_t kMaskedWidths = 32;
constexpr std::int64_t kMostMaskedHeads = 8;
// Of scales, so that none is subnormal in f32.
constexpr double kLeastExactScale = 0x1p-100;

struct Range {
  std::int64_t first = 0;
  std::int64_t last = 0;  ///< exclusive
  std::int64_t size() const { return last - first; }
};

class Attention {
 public:
  Attention(const Operand& query, const Operand& key, const Operand& value, const AttentionOptions& options)
      : options_(options) {
    shown_ = {{"query", query}, {"key", key}, {"value", value}};
    check_operands(shown_);
    check_float(shown_[0]);
    if (options_.mask) {
      shown_.emplace_back("mask", *options_.mask);
      check_same_device(shown_);
    }
    query_ = query.tensor();
    key_ = key.tensor();
    value_ = value.tensor();
    check_shapes();
    check_options();
    const std::int64_t features = query_.shape().back();
    block_bytes_ = block_bytes_on(query_.device());
    scale_ = options_.scale.value_or(features == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(features)));
  }

  /// Whether the device has all of it as one kernel: enough rows for one, and no masks but by the last key that a row
  /// sees.
  bool is_fused() const {
    const std::int64_t width = query_.shape().back();
    const bool plain = !options_.mask && !(options_.softcap > 0) && !before_;
    const bool fits = width <= kMostFusedWidth && value_.shape().back() == width && rows_ > kFewRows;
    if (!plain || !fits || result_shape().numel() == 0 || keys_ == 0) return false;
    const Backend& backend = backend_of(query_.device());
    const Numerics numerics = numerics_of(query_.dtype());
    if (numerics == Numerics::exact) return is_fused_exact(backend) || is_fused_causal(backend);
    const bool seen = !behind_ || *behind_ == 0 || (*behind_ > 0 && *behind_ == keys_ - rows_);
    if (!seen || options_.first_query || size_of(query_.dtype()) != 2) return false;
    if (numerics == Numerics::fast) return width % kFusedWidths == 0 && backend.has_fast_attention();
    return width % kFusedBlockedWidths == 0 && std::abs(scale_) <= 1 && keys_ <= kMostFusedKeys &&
           result_shape().numel() <= kMostFusedElements && !is_broadcast() && backend.has_blocked_attention();
  }

  /// Whether a GPU should begin with it: as one kernel of a long prompt it and what belongs to a layer are few values,
  /// and all layers would be one window, which the device waits for while the host records it.
  bool is_much() const {
    constexpr std::int64_t kMuch = std::int64_t{1} << 30;  // multiplications
    return numerics_of(query_.dtype()) == Numerics::exact && !is_host(query_.device()) &&
           lead_.numel() * repeats_ * rows_ * keys_ * query_.shape().back() >= kMuch;
  }

  /// By that kernel; also what its gradients read again, where it has gradients.
  std::pair<Tensor, Tensor> run_fused() const {
    const Numerics numerics = numerics_of(query_.dtype());
    const Tensor made = attend(numerics, joined_query(), joined(key_), joined(value_), behind_, scale_);
    const Tensor result = part_of_fused(made, 0, heads() * repeats_, rows_).reshape(result_shape());
    return {result, numerics == Numerics::exact ? Tensor() : made};
  }

  /// Whether the device has all of a step as one kernel: one row, and a mask that hides keys.
  bool is_fused_step() const {
    const std::int64_t width = query_.shape().back();
    const bool fits = rows_ == 1 && keys_ > 0 && keys_ % order::kBlock == 0 && keys_ <= kMostMaskedKeys &&
                      repeats_ <= kMostMaskedHeads && width > 0 && width % kMaskedWidths == 0 &&
                      width <= kMostFusedWidth && value_.shape().back() == width && result_shape().numel() > 0;
    const bool hides = mask_.defined() && mask_.dtype() == DType::boolean && read(mask_).view.bounds.empty() &&
                       read(query_).view.bounds.empty();
    const DType dtype = query_.dtype();
    const bool has_dtype = (dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16) &&
                           key_.dtype() == dtype && value_.dtype() == dtype;
    return fits && hides && has_dtype && !by_position() && !(options_.softcap > 0) && is_plain_exact() &&
           numerics_of(query_.dtype()) == Numerics::exact && backend_of(query_.device()).has_masked_attention();
  }

  /// By that kernel.
  Tensor run_fused_step() const {
    const std::int64_t all = heads() * repeats_;
    const Tensor made = attend_masked(joined_query(), joined(key_), joined(value_),
                                      mask_.reshape({batches(), all, rows_, keys_}), scale_);
    return part_of_fused(made, 0, all, rows_).reshape(result_shape());
  }

  /// Whether gradients are, too. Blocks of rows of several heads of the query are those of one kernel if none is
  /// shared.
  bool has_fused_gradients(const Tensor& upstream) const {
    const bool whole = repeats_ == 1 || rows_ % order::kSharedBlock == 0;
    return numerics_of(query_.dtype()) == Numerics::fast || (whole && upstream.dtype() == query_.dtype());
  }

  /// As gradients(), of query, key and value; `made` is from run_fused(). All three are computed in any case.
  std::vector<Tensor> fused_gradients(const Tensor& upstream, const Tensor& made) const {
    const Numerics numerics = numerics_of(query_.dtype());
    const Tensor query = joined_query();
    const Tensor key = joined(key_);
    const Tensor given = cast(upstream, query_.dtype()).reshape(query.shape());
    const Tensor all = attend_gradients(numerics, query, key, joined(value_), made, given, behind_, scale_);
    const AttentionSizes sizes = attention_sizes(query.shape(), key.shape(), numerics);
    return {part_of_fused(all, 0, sizes.heads, rows_).reshape(joined_heads(query_.shape().back())),
            part_of_fused(all, sizes.queries(), heads(), keys_).reshape(key_.shape()),
            part_of_fused(all, sizes.queries() + sizes.each_keys(), heads(), keys_).reshape(value_.shape())};
  }

  Tensor run() {
    if (result_shape().numel() == 0) return zeros(result_shape(), {query_.dtype(), query_.device()});
    std::vector<Range> ranges = all_indices();
    const std::int64_t row_bytes = std::max<std::int64_t>(keys_, 1) * 4;
    // Without a mask by position all tiles see all keys, and blocks may be as long as they like.
    const std::int64_t of_one = block_bytes_ / (repeats_ * row_bytes);
    const std::int64_t most_rows = by_position() ? kTileRows : std::max(kTileRows, of_one);
    const Walk walk = walk_of(std::min(most_rows, rows_));
    block_rows_ = std::clamp<std::int64_t>(block_bytes_ / (walk.count * row_bytes), 1, most_rows);
    while (block_rows_ < kTileRows && kTileRows % block_rows_ != 0) --block_rows_;
    if (walk.dims == 0 && rows_ <= block_rows_) return block(ranges, {0, rows_}).reshape(result_shape());
    output_ = zeros(result_shape(), {query_.dtype(), query_.device()});
    each_part(ranges, 0, walk, [&] { each_tile(ranges); });
    return output_;
  }

  /// Of query, key, value and mask, from that of the result; each of its operand's shape or one that broadcasts from
  /// it. The weights are computed again, for as many leading indices at a time as make a block.
  std::vector<Tensor> gradients(const Tensor& upstream, const Tensor& result, const std::vector<bool>& wanted) {
    const int lead = lead_.rank();
    const DType type = wide(query_.dtype());
    const auto split = [&](const Tensor& tensor) {
      return cast(tensor, type).reshape(with_rows(value_.shape().back()));
    };
    upstream_ = split(upstream);
    // What softmax subtracts from the gradients of its results, weighted: sum_j w_j dw_j = sum_v out_v dout_v.
    shares_ = reduce(ReduceOp::sum, mul(upstream_, split(result)), 1u << (lead + 2));
    const Shape shapes[] = {with_rows(query_.shape().back()), key_.shape(), value_.shape(), with_rows(keys_)};
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) gradients_[i] = zeros(shapes[i], {type, query_.device()});
    }
    if (result_shape().numel() != 0 && keys_ != 0) {
      std::vector<Range> ranges = all_indices();
      each_part(ranges, 0, walk_of(rows_), [&] { gradients_of(ranges, wanted); });
    }
    std::vector<Tensor> found(gradients_, gradients_ + wanted.size());
    if (wanted[0]) found[0] = found[0].reshape(joined_heads(query_.shape().back()));
    if (wanted.size() > 3 && wanted[3]) found[3] = found[3].reshape(joined_heads(keys_));
    return found;
  }

 private:
  // Who watches kernels, or writes them to a file, sees the composition, which every device has.
  bool is_plain_exact() const {
    const auto dense = [](const Tensor& tensor) { return read(tensor).base->encoding == Encoding::dense; };
    return dense(query_) && dense(key_) && dense(value_) && std::abs(scale_) <= 1 &&
           std::abs(scale_) >= kLeastExactScale && !is_watched() && !is_recording();
  }
  // On a GPU that has a step as one kernel, where the composition would have rows of several tiles one after the other.
  bool is_fused_causal(const Backend& backend) const {
    const DType dtype = query_.dtype();
    const bool has_dtype = (dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16) &&
                           key_.dtype() == dtype && value_.dtype() == dtype;
    const auto lies = [](const Tensor& tensor) { return read(tensor).view.bounds.empty(); };
    return has_dtype && is_plain_exact() && backend.has_masked_attention() && rows_ > kTileRows &&
           keys_ <= kMostMaskedKeys && behind_ && *behind_ >= 0 && query_.shape().back() % kFusedWidths == 0 &&
           result_shape().numel() <= kMostFusedElements && lies(query_) && lies(key_) && lies(value_);
  }
  bool is_fused_exact(const Backend& backend) const {
    return is_plain_exact() && query_.dtype() == DType::f32 && backend.has_exact_attention() &&
           query_.shape().back() % kFusedWidths == 0 && keys_ >= kLeastExactKeys && keys_ <= kMostExactKeys &&
           behind_.value_or(0) >= 0;
  }

  void check_shapes() {
    const Shape& q = query_.shape();
    const Shape& k = key_.shape();
    const Shape& v = value_.shape();
    if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2) {
      fail<ShapeError>("query, key and value need at least two dimensions", shown_, "they are [..., H, L, E]");
    }
    if (q.back() != k.back()) {
      fail<ShapeError>(fmt::format("query has {} features, key {}", q.back(), k.back()), shown_);
    }
    rows_ = q[q.rank() - 2];
    keys_ = k[k.rank() - 2];
    if (v[v.rank() - 2] != keys_) {
      fail<ShapeError>(fmt::format("key has {} positions, value {}", keys_, v[v.rank() - 2]), shown_);
    }
    Shape lead_q = q.slice(0, q.rank() - 2);
    Shape lead_k = k.slice(0, k.rank() - 2);
    Shape lead_v = v.slice(0, v.rank() - 2);
    if (options_.enable_gqa) {
      const bool heads = !lead_q.empty() && !lead_k.empty() && !lead_v.empty() && lead_k.back() == lead_v.back() &&
                         lead_k.back() > 0 && lead_q.back() % lead_k.back() == 0;
      if (!heads) {
        fail<ShapeError>("the heads of key and value (dimension -3) must be equal and divide the query's", shown_);
      }
      repeats_ = lead_q.back() / lead_k.back();
      lead_q[lead_q.rank() - 1] = lead_k.back();
    }
    lead_ = broadcast(broadcast(lead_q, lead_k), lead_v);
    if (lead_.rank() > 4) {
      fail<ShapeError>(fmt::format("{} dimensions before the positions are too many", lead_.rank()), shown_,
                       "merge batch dimensions with reshape");
    }
    // [lead..., repeats, L, E], [lead..., S, E], [lead..., S, V]
    Shape split = lead_q;
    split.push_back(repeats_);
    split.push_back(rows_);
    split.push_back(q.back());
    Shape full = lead_;
    for (int d = split.rank() - 3; d < split.rank(); ++d) full.push_back(split[d]);
    query_ = change_view(query_, [&](const View& view) -> std::optional<View> {
      std::optional<View> result = view.reshaped(split);
      if (result) *result = result->expanded(full);
      return result;
    });
    const auto expanded = [&](const Tensor& tensor) {
      Shape shape = lead_;
      shape.push_back(tensor.shape()[tensor.rank() - 2]);
      shape.push_back(tensor.shape().back());
      return tensor.expand(shape);
    };
    key_ = expanded(key_);
    value_ = expanded(value_);
  }

  Shape broadcast(const Shape& a, const Shape& b) const {
    Shape result = a.rank() >= b.rank() ? a : b;
    for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
      const std::int64_t size_a = a[a.rank() - i];
      const std::int64_t size_b = b[b.rank() - i];
      if (size_a != size_b && size_a != 1 && size_b != 1) {
        fail<ShapeError>(fmt::format("sizes {} and {} before the positions do not broadcast", size_a, size_b), shown_,
                         options_.enable_gqa ? "" : "fewer heads of key and value need enable_gqa");
      }
      result[result.rank() - i] = size_a == 1 ? size_b : size_a;
    }
    return result;
  }

  void check_options() {
    if (options_.window_left.value_or(0) < 0 || options_.window_right.value_or(0) < 0) {
      fail<ValueError>("a window is negative", shown_, "leave it out to see all keys on that side");
    }
    if (!(options_.softcap >= 0)) {
      fail<ValueError>(fmt::format("softcap {} is negative", options_.softcap), shown_);
    }
    if (options_.first_query) check_first_query();
    const std::int64_t aligned = options_.alignment == CausalAlignment::bottom_right ? keys_ - rows_ : 0;
    const std::int64_t at = options_.first_query.value_or(aligned);
    if (options_.causal) behind_ = at;
    if (options_.window_right)
      behind_ = std::min(behind_.value_or(at + *options_.window_right), at + *options_.window_right);
    if (options_.window_left) before_ = at - *options_.window_left;
    if (!options_.mask) return;
    const Tensor& given = *options_.mask;
    if (given.dtype() != DType::boolean && given.dtype() != query_.dtype() && given.dtype() != wide(query_.dtype())) {
      fail<DTypeError>("mask must be bool or have the query's dtype", shown_);
    }
    // [..., H, L, S] with H split into (heads of the key, repeats)
    Shape full = result_shape();
    full[full.rank() - 1] = keys_;
    if (broadcast_shape({{"mask", given}, {"scores", zeros(full, {DType::boolean, given.device()})}}) != full) {
      fail<ShapeError>(fmt::format("mask does not broadcast to {}", full.to_string()), shown_);
    }
    Shape split = lead_;
    split.push_back(repeats_);
    split.push_back(rows_);
    split.push_back(keys_);
    mask_ = change_view(given.expand(full), [&](const View& view) { return view.reshaped(split); });
  }

  void check_first_query() {
    const std::int64_t first = *options_.first_query;
    if (!options_.causal && !options_.window_right) {
      fail<ValueError>("first_query says which keys are behind a query, but nothing hides them", shown_,
                       "set causal, or window_right");
    }
    if (first < 0 || first > keys_ || rows_ > keys_ - first) {
      fail<ValueError>(fmt::format("{} queries from position {} on do not fit {} keys", rows_, first, keys_), shown_);
    }
  }

  // Gradients of what was broadcast are added in f32, before they are rounded.
  bool is_broadcast() const {
    const auto differs = [&](const Tensor& given, std::int64_t heads) {
      return given.shape().numel() != lead_.numel() * heads * given.shape()[given.rank() - 2] * given.shape().back();
    };
    return differs(*shown_[0].tensor, repeats_) || differs(*shown_[1].tensor, 1) || differs(*shown_[2].tensor, 1);
  }

  // Fused kernels know [batches, heads, positions, width].
  std::int64_t heads() const { return lead_.empty() ? 1 : lead_.back(); }
  std::int64_t batches() const { return lead_.numel() / heads(); }
  Tensor joined_query() const { return query_.reshape({batches(), heads() * repeats_, rows_, query_.shape().back()}); }
  Tensor joined(const Tensor& tensor) const {
    return tensor.reshape({batches(), heads(), keys_, tensor.shape().back()});
  }
  // The elements from `first` on of what a fused kernel made, which lie as [batches, positions, heads, width].
  Tensor part_of_fused(const Tensor& made, std::int64_t first, std::int64_t head_count, std::int64_t positions) const {
    const std::int64_t width = query_.shape().back();
    return view_tensor(node_of(made),
                       View{.shape = {batches(), head_count, positions, width},
                            .strides = {positions * head_count * width, width, head_count * width, 1},
                            .offset = first},
                       made.dtype());
  }

  Shape result_shape() const { return joined_heads(value_.shape().back()); }
  // [..., H, L, last]
  Shape joined_heads(std::int64_t last) const {
    Shape shape = lead_;
    if (repeats_ != 1) shape[shape.rank() - 1] *= repeats_;
    shape.push_back(rows_);
    shape.push_back(last);
    return shape;
  }
  // [lead..., repeats, L, last]
  Shape with_rows(std::int64_t last) const {
    Shape shape = lead_;
    shape.push_back(repeats_);
    shape.push_back(rows_);
    shape.push_back(last);
    return shape;
  }

  std::vector<Range> all_indices() const {
    std::vector<Range> ranges;
    for (const std::int64_t size : lead_) ranges.push_back({0, size});
    return ranges;
  }
  // How the leading dimensions are cut, so that `rows` rows of each are no larger than a block, and not much smaller:
  // the first `dims` are walked, all but the last of them index by index and that one `step` indices at a time.
  struct Walk {
    int dims = 0;
    std::int64_t step = 1;
    std::int64_t count = 0;  ///< leading indices, of repeats too, of one part
  };
  Walk walk_of(std::int64_t rows) const {
    const std::int64_t bytes = std::max<std::int64_t>(keys_, 1) * 4 * rows;
    Walk walk{.count = lead_.numel() * repeats_};
    while (walk.dims < lead_.rank() && walk.count * bytes > block_bytes_) walk.count /= lead_[walk.dims++];
    if (walk.dims == 0) return walk;
    const std::int64_t size = lead_[walk.dims - 1];
    const std::int64_t most = std::max<std::int64_t>(block_bytes_ / (walk.count * bytes), 1);
    const std::int64_t parts = (size + most - 1) / most;
    walk.step = (size + parts - 1) / parts;  // parts of about the same size
    walk.count *= walk.step;
    return walk;
  }

  bool by_position() const { return behind_ || before_; }

  template <typename Visit> void each_part(std::vector<Range>& ranges, int dim, const Walk& walk, const Visit& visit) {
    if (dim == walk.dims) return visit();
    const std::int64_t step = dim == walk.dims - 1 ? walk.step : 1;
    const Range all = ranges[static_cast<std::size_t>(dim)];
    for (std::int64_t i = all.first; i < all.last; i += step) {
      ranges[static_cast<std::size_t>(dim)] = {i, std::min(i + step, all.last)};
      each_part(ranges, dim + 1, walk, visit);
    }
    ranges[static_cast<std::size_t>(dim)] = all;
  }

  void each_tile(const std::vector<Range>& ranges) {
    for (std::int64_t row = 0; row < rows_; row += block_rows_) {
      const Range rows{row, std::min(rows_, row + block_rows_)};
      const Tensor part = block(ranges, rows);
      // The rows' place in the output, seen as [lead..., repeats, L, V].
      View region = place_of(with_rows(value_.shape().back()), ranges);
      region = region.sliced(lead_.rank() + 1, rows.first, 1, rows.size());
      output_ = update(output_, region, part);
    }
  }

  // The elements of a dense [lead..., ...] at these leading indices.
  static View place_of(const Shape& shape, const std::vector<Range>& ranges) {
    View region = View::contiguous(shape);
    for (std::size_t d = 0; d < ranges.size(); ++d) {
      region = region.sliced(static_cast<int>(d), ranges[d].first, 1, ranges[d].size());
    }
    return region;
  }

  // The keys that the tile of these rows reads: without hidden blocks in front, which would add +0.
  Range keys_of(Range rows) const {
    if (!by_position()) return {0, keys_};
    const std::int64_t first = rows.first / kTileRows * kTileRows;
    const std::int64_t last = std::min(first + kTileRows, rows_);
    Range range{0, keys_};
    if (before_) range.first = std::clamp<std::int64_t>(first + *before_, 0, keys_) / order::kBlock * order::kBlock;
    if (behind_) range.last = std::clamp<std::int64_t>(last + *behind_, range.first, keys_);
    // Hidden keys at the end of a block add nothing; so the kernels of a step are those of the step before. Blocked
    // numerics: they have a part in the block's exponent, which must not depend on the other queries.
    const bool blocked = numerics_of(wide(query_.dtype())) == Numerics::blocked;
    if ((options_.first_query && rows_ <= kFewRows) || blocked) {
      range.last = std::min((range.last + order::kBlock - 1) / order::kBlock * order::kBlock, keys_);
    }
    return range;
  }

  Tensor part_of(Tensor tensor, const std::vector<Range>& ranges) const {
    for (std::size_t d = 0; d < ranges.size(); ++d) {
      tensor = tensor.narrow(static_cast<int>(d), ranges[d].first, ranges[d].size());
    }
    return tensor;
  }

  // The rows [lead..., repeats, rows, V] of the output, in its dtype.
  Tensor block(const std::vector<Range>& ranges, Range rows) const {
    const int lead = lead_.rank();
    const Range keys = keys_of(rows);
    if (keys.size() == 0) {
      Shape shape;
      for (const Range& range : ranges) shape.push_back(range.size());
      for (const std::int64_t size : {repeats_, rows.size(), value_.shape().back()}) shape.push_back(size);
      return zeros(shape, {query_.dtype(), query_.device()});
    }
    // value joins in the dtype of the weights; in fast numerics they in its.
    Tensor weights = weights_of(ranges, rows, keys).weights;
    if (numerics_of(weights.dtype()) == Numerics::fast) weights = cast(weights, value_.dtype());
    const Tensor v = part_of(value_, ranges).narrow(lead, keys.first, keys.size());
    const Tensor product =
        contract_dims(weights, cast(v, weights.dtype()), dims_of({lead, lead + 1}, {lead + 1}, {lead + 2}, {lead}));
    // A block of hidden keys turns -0 to +0; where none was read, this does.
    return cast(product + 0.0, query_.dtype());
  }

  // With zeros in front where R would else cut other chunks. The order of two chunks does not matter, of more it does.
  static Tensor at_their_chunks(const Tensor& exponentials, Range keys) {
    const std::int64_t first_chunk = keys.first / order::kChunk;
    const std::int64_t chunks = (keys.last - 1) / order::kChunk - first_chunk + 1;
    const std::int64_t before = chunks == 1 ? 0 : chunks == 2 ? keys.first % order::kChunk : keys.first;
    return before == 0 ? exponentials : pad(exponentials, {before, 0}, 0.0);
  }

  // [lead..., m..., n...] = sum over k; the dimensions of either operand after its leading ones.
  ContractionDims dims_of(const Shape& m, const Shape& n, const Shape& k_a, const Shape& k_b) const {
    ContractionDims dims;
    for (int d = 0; d < lead_.rank(); ++d) {
      dims.batch_a.push_back(d);
      dims.batch_b.push_back(d);
    }
    dims.m = m;
    dims.n = n;
    dims.k_a = k_a;
    dims.k_b = k_b;
    return dims;
  }

  struct Weights {
    Tensor weights;  ///< [lead..., repeats, rows, keys]
    Tensor capped;   ///< tanh(score / softcap), or undefined
  };
  Weights weights_of(const std::vector<Range>& ranges, Range rows, Range keys) const {
    const int lead = lead_.rank();
    const Tensor q = part_of(query_, ranges).narrow(lead + 1, rows.first, rows.size());
    const Tensor k = part_of(key_, ranges).narrow(lead, keys.first, keys.size());
    Weights result;
    Tensor scores = mul(contract_dims(q, k, dims_of({lead, lead + 1}, {lead}, {lead + 2}, {lead + 1})), scale_);
    const Tensor of_rows =
        mask_.defined() ? part_of(mask_, ranges).narrow(lead + 1, rows.first, rows.size()) : Tensor();
    const Tensor mask = of_rows.defined() ? of_rows.narrow(lead + 2, keys.first, keys.size()) : Tensor();
    const bool is_bias = mask.defined() && mask.dtype() != DType::boolean;
    if (is_bias) scores = scores + cast(mask, scores.dtype());
    if (options_.softcap > 0) {
      result.capped = tanh(scores / options_.softcap);
      scores = result.capped * options_.softcap;
    }
    if (mask.defined() && !is_bias) scores = where(mask, scores, kHidden);
    scores = hidden_by_position(scores, rows, keys);

    // softmax, but a row of nothing but -inf gives zeros.
    const std::uint32_t last = 1u << (lead + 2);
    const Tensor largest = detach(reduce(ReduceOp::max, scores, last));
    const Tensor exponentials = exp(scores - where(isfinite(largest), largest, 0.0));
    const Tensor total = reduce(ReduceOp::sum, at_their_chunks(exponentials, keys), last);
    result.weights = exponentials / where(total == 0, 1.0, total);
    return result;
  }

  // Adds what the leading indices `ranges` contribute; every row at once.
  void gradients_of(const std::vector<Range>& ranges, const std::vector<bool>& wanted) {
    const int lead = lead_.rank();
    const Range rows{0, rows_};
    const Range keys{keys_of({0, 1}).first, keys_of({rows_ - 1, rows_}).last};
    if (keys.size() <= 0) return;
    const auto [weights, capped] = weights_of(ranges, rows, keys);
    const DType type = weights.dtype();
    const Tensor g = part_of(upstream_, ranges);
    const Tensor k = cast(part_of(key_, ranges).narrow(lead, keys.first, keys.size()), type);
    const Tensor v = cast(part_of(value_, ranges).narrow(lead, keys.first, keys.size()), type);
    const auto put = [&](std::size_t i, const Tensor& part, int keys_dim) {
      View region = place_of(gradients_[i].shape(), ranges);
      if (keys_dim >= 0) region = region.sliced(keys_dim, keys.first, 1, keys.size());
      const bool whole = region.shape == gradients_[i].shape();
      gradients_[i] = whole ? part : update(gradients_[i], region, part);
    };
    if (wanted[2]) {
      put(2, contract_dims(weights, g, dims_of({lead + 2}, {lead + 2}, {lead, lead + 1}, {lead, lead + 1})), lead);
    }
    if (!wanted[0] && !wanted[1] && !(wanted.size() > 3 && wanted[3])) return;
    const Tensor of_weights = contract_dims(g, v, dims_of({lead, lead + 1}, {lead}, {lead + 2}, {lead + 1}));
    Tensor of_scores = weights * (of_weights - part_of(shares_, ranges));
    if (capped.defined()) of_scores = of_scores * (1.0 - capped * capped);
    if (wanted.size() > 3 && wanted[3]) put(3, of_scores, lead + 2);
    const Tensor scaled = of_scores * scale_;
    if (wanted[0]) {
      put(0, contract_dims(scaled, k, dims_of({lead, lead + 1}, {lead + 1}, {lead + 2}, {lead})), -1);
    }
    if (wanted[1]) {
      const Tensor q = cast(part_of(query_, ranges), type);
      put(1, contract_dims(scaled, q, dims_of({lead + 2}, {lead + 2}, {lead, lead + 1}, {lead, lead + 1})), lead);
    }
  }

  // -inf where key - row is outside [before_, behind_].
  Tensor hidden_by_position(Tensor scores, Range rows, Range keys) const {
    const bool upper = behind_ && keys.last - 1 - rows.first > *behind_;
    const bool lower = before_ && keys.first - (rows.last - 1) < *before_;
    if (!upper && !lower) return scores;
    // Position p of a line of integers, read with stride 1 along keys and -1 along rows, is key - row + shift.
    const std::int64_t shift = rows.last - 1 - keys.first;
    const View view{.shape = {rows.size(), keys.size()}, .strides = {-1, 1}, .offset = rows.size() - 1};
    const Tensor line = Access::tensor(make_node(Iota{}, {}, {rows.size() + keys.size()}, DType::i64, scores.device()));
    const Tensor position = view_tensor(node_of(line), view, DType::i64);
    if (upper) scores = where(position <= *behind_ + shift, scores, kHidden);
    if (lower) scores = where(position >= *before_ + shift, scores, kHidden);
    return scores;
  }

  AttentionOptions options_;
  std::vector<Shown> shown_;
  Tensor query_;  ///< [lead..., repeats, L, E]
  Tensor key_;    ///< [lead..., S, E]
  Tensor value_;  ///< [lead..., S, V]
  Tensor mask_;   ///< [lead..., repeats, L, S], or undefined
  Shape lead_;
  std::int64_t repeats_ = 1;
  std::int64_t rows_ = 0;
  std::int64_t keys_ = 0;
  std::int64_t block_rows_ = kTileRows;
  std::int64_t block_bytes_ = kBlockBytes;
  double scale_ = 1;
  std::optional<std::int64_t> before_;  ///< the least key - row that is visible
  std::optional<std::int64_t> behind_;  ///< the largest
  Tensor output_;

  // While gradients are computed, in the working dtype.
  Tensor upstream_;      ///< [lead..., repeats, L, V]
  Tensor shares_;        ///< [lead..., repeats, L, 1]
  Tensor gradients_[4];  ///< of query, key, value, mask
};

}  // namespace

Tensor scaled_dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                                    const AttentionOptions& options) {
  const CallScope call("scaled_dot_product_attention", query);
  const DType to = autocast_dtype();
  if (is_autocasting()) return with_autocast(to, scaled_dot_product_attention, query, key, value, options);
  const Numerics numerics = query.is_scalar() ? Numerics::exact : numerics_of(query.tensor().dtype());
  bool is_much = false;
  const std::pair<Tensor, Tensor> both = [&]() -> std::pair<Tensor, Tensor> {
    const NoGrad no_grad;
    const InnerNumerics inner(numerics);
    Attention attention(query, key, value, options);
    if (attention.is_fused()) {
      is_much = attention.is_much();
      return attention.run_fused();
    }
    if (attention.is_fused_step()) return {attention.run_fused_step(), Tensor()};
    return {attention.run(), Tensor()};
  }();
  const Tensor& result = both.first;
  const Tensor& made = both.second;  // by a fused kernel, for its gradients
  const std::int64_t rows = query.tensor().shape()[query.tensor().rank() - 2];
  const std::int64_t keys = key.tensor().shape()[key.tensor().rank() - 2];
  const bool aligned = options.alignment == CausalAlignment::top_left || rows == keys;
  if (numerics == Numerics::exact && !options.first_query && !options.window_left && !options.window_right &&
      !(options.softcap > 0) && (!options.causal || aligned)) {
    const double features = static_cast<double>(query.tensor().shape().back());
    recorded(result, "attention", {&query.tensor(), &key.tensor(), &value.tensor(), pointer_to(options.mask)},
             {{options.causal ? 1 : 0, options.enable_gqa ? 1 : 0}},
             {options.scale.value_or(features == 0 ? 1.0 : 1.0 / std::sqrt(features))});
  }
  std::vector<const Tensor*> operands{&query.tensor(), &key.tensor(), &value.tensor()};
  if (options.mask && is_float(options.mask->dtype())) operands.push_back(&*options.mask);
  if (!is_tracing(operands)) {
    if (is_much) flush_if_large(result.device(), true);
    return result;
  }
  return traced(
      result, operands,
      [q = query.tensor(), k = key.tensor(), v = value.tensor(), made, options, numerics](
          const Tensor& g, const std::vector<bool>& wanted, const Tensor& out) {
        const InnerNumerics inner(numerics);
        Attention attention({q}, {k}, {v}, options);
        // Gradients of gradients are those of the composition.
        const bool is_last = !is_tracing({&q, &k, &v, &g, &out});
        return made.defined() && is_last && attention.has_fused_gradients(g) ? attention.fused_gradients(g, made)
                                                                             : attention.gradients(g, out, wanted);
      },
      true);
}

}  // namespace v0
}  // namespace lockstep
