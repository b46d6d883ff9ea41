#include <lockstep/nn/embedding.h>

#include <limits>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/nn/init.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace nn {
namespace {

// The row's number counted from the start.
std::optional<std::int64_t> padding_row(const std::string& path, std::int64_t rows, std::optional<std::int64_t> given) {
  if (!given) return std::nullopt;
  const std::int64_t row = *given < 0 ? *given + rows : *given;
  if (row < 0 || row >= rows) throw IndexError(fmt::format("{}: no row {} among {} for padding", path, *given, rows));
  return row;
}

Tensor table(std::int64_t rows, std::int64_t features, std::optional<std::int64_t> padding) {
  const Tensor values = randn({rows, features});
  return padding ? select_scatter(values, zeros({features}), 0, *padding) : values;
}

// Rows of the table; what is read from the padding's row passes no gradient.
Tensor rows_of(const Parameter& weight, const Operand& ids, std::optional<std::int64_t> padding) {
  const Tensor& places = tensor_operand(ids);
  const Tensor rows = embedding(weight.tensor(), places);
  if (!padding || !is_tracked(rows)) return rows;
  const Tensor is_padding = eq(places, *padding).unsqueeze(-1);
  return where(is_padding, detach(rows), rows);
}

}  // namespace

Embedding::Embedding(Module& parent, std::string name, std::int64_t rows, std::int64_t features,
                     EmbeddingOptions options)
    : Layer(parent, std::move(name)), padding_idx_(padding_row(path(), rows, options.padding_idx)) {
  weight = Parameter(*this, "weight", table(rows, features, padding_idx_));
}

Tensor Embedding::forward(const Operand& ids) const {
  const CallScope call("embedding", ids);
  return rows_of(weight, ids, padding_idx_);
}

EmbeddingBag::EmbeddingBag(Module& parent, std::string name, std::int64_t rows, std::int64_t features,
                           EmbeddingBagOptions options)
    : Layer(parent, std::move(name)),
      mode_(options.mode),
      padding_idx_(padding_row(path(), rows, options.padding_idx)) {
  weight = Parameter(*this, "weight", table(rows, features, padding_idx_));
}

// Rows with their factors, and which of them count: 1 or 0.
EmbeddingBag::Rows EmbeddingBag::rows_of_bags(const Tensor& ids, const std::optional<Tensor>& factors) const {
  Rows result{rows_of(weight, ids, padding_idx_), {}};
  if (factors) {
    const std::vector<Shown> shown{{"ids", ids}, {"per_sample_weights", *factors}};
    check_defined(shown);
    if (mode_ != BagMode::sum) fail<ValueError>("per_sample_weights need the mode sum", shown);
    if (factors->shape() != ids.shape()) {
      fail<ShapeError>("per_sample_weights must have the shape of ids", shown);
    }
    result.values = mul(result.values, factors->unsqueeze(-1));
  }
  const TensorOptions like{result.values.dtype(), result.values.device()};
  Shape column = ids.shape();
  column.push_back(1);
  result.counts = ones(column, like);
  if (padding_idx_) {
    const Tensor is_padding = eq(ids, *padding_idx_).unsqueeze(-1);
    result.values = where(is_padding, nothing(), result.values);
    result.counts = where(is_padding, 0.0, result.counts);
  }
  return result;
}

// What leaves a sum or maximum as it is.
double EmbeddingBag::nothing() const {
  return mode_ == BagMode::max ? -std::numeric_limits<double>::infinity() : 0.0;
}

Tensor EmbeddingBag::finished(const Tensor& reduced, const Tensor& counts) const {
  if (mode_ == BagMode::sum) return reduced;
  if (mode_ == BagMode::mean) return div(reduced, maximum(counts, 1.0));
  return where(gt(counts, 0.0), reduced, 0.0);
}

Tensor EmbeddingBag::forward(const Operand& ids) const {
  return forward(ids, std::nullopt);
}

Tensor EmbeddingBag::forward(const Operand& ids, const std::optional<Tensor>& per_sample_weights) const {
  const CallScope call("EmbeddingBag", ids);
  const Tensor& places = tensor_operand(ids);
  if (places.rank() != 2) {
    fail<ShapeError>("ids must be [bags, size]", {{"ids", ids}}, "bags of different sizes: bags(ids, offsets)");
  }
  if (places.shape()[1] == 0) {
    return zeros({places.shape()[0], weight.shape()[1]}, {weight.dtype(), weight.device()});
  }
  const Rows rows = rows_of_bags(places, per_sample_weights);
  const Operand values(rows.values);
  return finished(mode_ == BagMode::max ? max(values, 1).values : sum(values, {1}), sum(rows.counts, {1}));
}

Tensor EmbeddingBag::bags(const Operand& ids, const Tensor& offsets,
                          const std::optional<Tensor>& per_sample_weights) const {
  const CallScope call("EmbeddingBag", ids);
  const Tensor& places = tensor_operand(ids);
  const std::vector<Shown> shown{{"ids", ids}, {"offsets", offsets}};
  check_defined(shown);
  check_same_device(shown);
  if (places.rank() != 1 || offsets.rank() != 1 || offsets.numel() == 0) {
    fail<ShapeError>("ids must be [n] and offsets [bags], at least one", shown);
  }
  // An element belongs to the last bag that starts at it or before: as many starts as there are, but one.
  const Tensor positions = arange(0, static_cast<double>(places.numel()), 1, {DType::i64, places.device()});
  const Tensor started = le(offsets.to(DType::i64).unsqueeze(0), positions.unsqueeze(1));
  const Tensor bag = sub(sum(started, {1}), 1);
  const Rows rows = rows_of_bags(places, per_sample_weights);
  const std::int64_t count = offsets.numel();
  const Tensor to = bag.unsqueeze(-1);
  const TensorOptions like{rows.values.dtype(), rows.values.device()};
  const Tensor counts = scatter_add(zeros({count, 1}, like), 0, to, rows.counts);
  const Tensor none = full({count, weight.shape()[1]}, nothing(), like);
  const Tensor wide = to.expand(rows.values.shape());
  const ReduceMode mode = mode_ == BagMode::max ? ReduceMode::amax : ReduceMode::sum;
  return finished(scatter_reduce(none, 0, wide, rows.values, mode), counts);
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
