#include "graph/ops/attention_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <lockstep/autograd.h>

#include "backends/backend.h"
#include "graph/numerics.h"
#include "graph/ops/contraction.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();
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

struct Range {
  std::int64_t first = 0;
  std::int64_t last = 0;  ///< exclusive
  std::int64_t size() const { return last - first; }
};

class AttentionBlocks {
 public:
  explicit AttentionBlocks(const AttentionCall& call)
      : call_(call), block_bytes_(block_bytes_on(call.query.device())) {}

  /// `weights`: where to leave those of all rows, if they are made in one block.
  Tensor run(Tensor* weights = nullptr) {
    kept_ = weights;
    if (call_.result_shape().numel() == 0)
      return zeros(call_.result_shape(), {call_.query.dtype(), call_.query.device()});
    std::vector<Range> ranges = all_indices();
    const std::int64_t row_bytes = std::max<std::int64_t>(call_.keys, 1) * 4;
    // Without a mask by position all tiles see all keys, and blocks may be as long as they like.
    const std::int64_t of_one = block_bytes_ / (call_.repeats * row_bytes);
    const std::int64_t most_rows = call_.by_position() ? kTileRows : std::max(kTileRows, of_one);
    const Walk walk = walk_of(std::min(most_rows, call_.rows));
    block_rows_ = std::clamp<std::int64_t>(block_bytes_ / (walk.count * row_bytes), 1, most_rows);
    while (block_rows_ < kTileRows && kTileRows % block_rows_ != 0) --block_rows_;
    if (walk.dims == 0 && call_.rows <= block_rows_)
      return block(ranges, {0, call_.rows}).reshape(call_.result_shape());
    output_ = zeros(call_.result_shape(), {call_.query.dtype(), call_.query.device()});
    each_part(ranges, 0, walk, [&] { each_tile(ranges); });
    return output_;
  }

  /// `weights`: what run() left, or nothing.
  std::vector<Tensor> gradients(const Tensor& upstream, const Tensor& result, const std::vector<bool>& wanted,
                                const Tensor& weights) {
    made_ = weights;
    const int lead = call_.lead.rank();
    const DType type = wide(call_.query.dtype());
    const auto split = [&](const Tensor& tensor) {
      return cast(tensor, type).reshape(call_.with_rows(call_.value.shape().back()));
    };
    upstream_ = split(upstream);
    // What softmax subtracts from the gradients of its results, weighted: sum_j w_j dw_j = sum_v out_v dout_v.
    shares_ = reduce(ReduceOp::sum, mul(upstream_, split(result)), 1u << (lead + 2));
    const Shape shapes[] = {call_.with_rows(call_.query.shape().back()), call_.key.shape(), call_.value.shape(),
                            call_.with_rows(call_.keys)};
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) gradients_[i] = zeros(shapes[i], {type, call_.query.device()});
    }
    if (call_.result_shape().numel() != 0 && call_.keys != 0) {
      std::vector<Range> ranges = all_indices();
      each_part(ranges, 0, walk_of(call_.rows), [&] { gradients_of(ranges, wanted); });
    }
    std::vector<Tensor> found(gradients_, gradients_ + wanted.size());
    if (wanted[0]) found[0] = found[0].reshape(call_.joined_heads(call_.query.shape().back()));
    if (wanted.size() > 3 && wanted[3]) found[3] = found[3].reshape(call_.joined_heads(call_.keys));
    return found;
  }

 private:
  std::vector<Range> all_indices() const {
    std::vector<Range> ranges;
    for (const std::int64_t size : call_.lead) ranges.push_back({0, size});
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
    const std::int64_t bytes = std::max<std::int64_t>(call_.keys, 1) * 4 * rows;
    Walk walk{.count = call_.lead.numel() * call_.repeats};
    while (walk.dims < call_.lead.rank() && walk.count * bytes > block_bytes_) walk.count /= call_.lead[walk.dims++];
    if (walk.dims == 0) return walk;
    const std::int64_t size = call_.lead[walk.dims - 1];
    const std::int64_t most = std::max<std::int64_t>(block_bytes_ / (walk.count * bytes), 1);
    const std::int64_t parts = (size + most - 1) / most;
    walk.step = (size + parts - 1) / parts;  // parts of about the same size
    walk.count *= walk.step;
    return walk;
  }

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
    for (std::int64_t row = 0; row < call_.rows; row += block_rows_) {
      const Range rows{row, std::min(call_.rows, row + block_rows_)};
      const Tensor part = block(ranges, rows);
      // The rows' place in the output, seen as [lead..., repeats, L, V].
      View region = place_of(call_.with_rows(call_.value.shape().back()), ranges);
      region = region.sliced(call_.lead.rank() + 1, rows.first, 1, rows.size());
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
    if (!call_.by_position()) return {0, call_.keys};
    const std::int64_t first = rows.first / kTileRows * kTileRows;
    const std::int64_t last = std::min(first + kTileRows, call_.rows);
    Range range{0, call_.keys};
    if (call_.before)
      range.first = std::clamp<std::int64_t>(first + *call_.before, 0, call_.keys) / order::kBlock * order::kBlock;
    if (call_.behind) range.last = std::clamp<std::int64_t>(last + *call_.behind, range.first, call_.keys);
    // Hidden keys at the end of a block add nothing; so the kernels of a step are those of the step before. Blocked
    // numerics: they have a part in the block's exponent, which must not depend on the other queries.
    const bool blocked = numerics_of(wide(call_.query.dtype())) == Numerics::blocked;
    if ((call_.options.first_query && call_.rows <= kFewRows) || blocked) {
      range.last = std::min((range.last + order::kBlock - 1) / order::kBlock * order::kBlock, call_.keys);
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
    const int lead = call_.lead.rank();
    const Range keys = keys_of(rows);
    if (keys.size() == 0) {
      Shape shape;
      for (const Range& range : ranges) shape.push_back(range.size());
      for (const std::int64_t size : {call_.repeats, rows.size(), call_.value.shape().back()}) shape.push_back(size);
      return zeros(shape, {call_.query.dtype(), call_.query.device()});
    }
    // value joins in the dtype of the weights; in fast numerics they in its.
    Tensor weights = weights_of(ranges, rows, keys).weights;
    if (kept_ != nullptr && rows.size() == call_.rows && walk_of(call_.rows).dims == 0) *kept_ = weights;
    if (numerics_of(weights.dtype()) == Numerics::fast) weights = cast(weights, call_.value.dtype());
    const Tensor v = part_of(call_.value, ranges).narrow(lead, keys.first, keys.size());
    const Tensor product =
        contract_dims(weights, cast(v, weights.dtype()), dims_of({lead, lead + 1}, {lead + 1}, {lead + 2}, {lead}));
    // A block of hidden keys turns -0 to +0; where none was read, this does.
    return cast(product + 0.0, call_.query.dtype());
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
    for (int d = 0; d < call_.lead.rank(); ++d) {
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
    const int lead = call_.lead.rank();
    const Tensor q = part_of(call_.query, ranges).narrow(lead + 1, rows.first, rows.size());
    const Tensor k = part_of(call_.key, ranges).narrow(lead, keys.first, keys.size());
    Weights result;
    Tensor scores = mul(contract_dims(q, k, dims_of({lead, lead + 1}, {lead}, {lead + 2}, {lead + 1})), call_.scale);
    const Tensor of_rows =
        call_.mask.defined() ? part_of(call_.mask, ranges).narrow(lead + 1, rows.first, rows.size()) : Tensor();
    const Tensor mask = of_rows.defined() ? of_rows.narrow(lead + 2, keys.first, keys.size()) : Tensor();
    const bool is_bias = mask.defined() && mask.dtype() != DType::boolean;
    if (is_bias) scores = scores + cast(mask, scores.dtype());
    if (call_.options.softcap > 0) {
      result.capped = tanh(scores / call_.options.softcap);
      scores = result.capped * call_.options.softcap;
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
    const int lead = call_.lead.rank();
    const Range rows{0, call_.rows};
    const Range keys{keys_of({0, 1}).first, keys_of({call_.rows - 1, call_.rows}).last};
    if (keys.size() <= 0) return;
    const auto [weights, capped] = made_.defined() ? Weights{made_, Tensor()} : weights_of(ranges, rows, keys);
    const DType type = weights.dtype();
    const Tensor g = part_of(upstream_, ranges);
    const Tensor k = cast(part_of(call_.key, ranges).narrow(lead, keys.first, keys.size()), type);
    const Tensor v = cast(part_of(call_.value, ranges).narrow(lead, keys.first, keys.size()), type);
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
    const Tensor scaled = of_scores * call_.scale;
    if (wanted[0]) {
      put(0, contract_dims(scaled, k, dims_of({lead, lead + 1}, {lead + 1}, {lead + 2}, {lead})), -1);
    }
    if (wanted[1]) {
      const Tensor q = cast(part_of(call_.query, ranges), type);
      put(1, contract_dims(scaled, q, dims_of({lead + 2}, {lead + 2}, {lead, lead + 1}, {lead, lead + 1})), lead);
    }
  }

  // -inf where key - row is outside [call_.before, call_.behind].
  Tensor hidden_by_position(Tensor scores, Range rows, Range keys) const {
    const bool upper = call_.behind && keys.last - 1 - rows.first > *call_.behind;
    const bool lower = call_.before && keys.first - (rows.last - 1) < *call_.before;
    if (!upper && !lower) return scores;
    // Position p of a line of integers, read with stride 1 along keys and -1 along rows, is key - row + shift.
    const std::int64_t shift = rows.last - 1 - keys.first;
    const View view{.shape = {rows.size(), keys.size()}, .strides = {-1, 1}, .offset = rows.size() - 1};
    const Tensor line = Access::tensor(make_node(Iota{}, {}, {rows.size() + keys.size()}, DType::i64, scores.device()));
    const Tensor position = view_tensor(node_of(line), view, DType::i64);
    if (upper) scores = where(position <= *call_.behind + shift, scores, kHidden);
    if (lower) scores = where(position >= *call_.before + shift, scores, kHidden);
    return scores;
  }

  const AttentionCall& call_;
  const std::int64_t block_bytes_;
  std::int64_t block_rows_ = kTileRows;
  Tensor output_;
  Tensor* kept_ = nullptr;

  // While gradients are computed, in the working dtype.
  Tensor upstream_;      ///< [lead..., repeats, L, V]
  Tensor shares_;        ///< [lead..., repeats, L, 1]
  Tensor gradients_[4];  ///< of query, key, value, mask
  Tensor made_;          ///< weights that are there already
};

}  // namespace

Tensor attention_in_blocks(const AttentionCall& call) {
  return AttentionBlocks(call).run();
}

bool keeps_weights(const AttentionCall& call) {
  const std::int64_t kept = call.query.shape().back() + call.value.shape().back();
  return is_host(call.query.device()) && call.query.dtype() == DType::f32 && call.keys <= 2 * kept &&
         !(call.options.softcap > 0) && numerics_of(DType::f32) == Numerics::exact;
}

std::pair<Tensor, Tensor> attention_and_weights(const AttentionCall& call) {
  std::pair<Tensor, Tensor> both;
  both.first = AttentionBlocks(call).run(&both.second);
  return both;
}

std::vector<Tensor> attention_gradients(const AttentionCall& call, const Tensor& upstream, const Tensor& result,
                                        const std::vector<bool>& wanted, const Tensor& weights) {
  return AttentionBlocks(call).gradients(upstream, result, wanted, weights);
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
