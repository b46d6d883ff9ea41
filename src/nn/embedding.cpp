#include <lockstep/nn/embedding.h>

#include <limits>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/nn/init.h>
#include <lockstep/ops.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {
namespace nn {
namespace {

constexpr const char* kBagOp = "EmbeddingBag";

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
  const Tensor& places = graph::tensor_operand("Embedding", ids);
  const Tensor rows = embedding(Operand(weight.tensor(), ids.site()), places);
  if (!padding || !is_tracked(rows)) return rows;
  const Tensor is_padding = eq(Operand(places, ids.site()), *padding).unsqueeze(-1, ids.site());
  return where(Operand(is_padding, ids.site()), detach(rows, ids.site()), rows);
}

}  // namespace

Embedding::Embedding(Module& parent, std::string name, std::int64_t rows, std::int64_t features,
                     EmbeddingOptions options)
    : Layer(parent, std::move(name)), padding_idx_(padding_row(path(), rows, options.padding_idx)) {
  weight = Parameter(*this, "weight", table(rows, features, padding_idx_));
}

Tensor Embedding::forward(const Operand& ids) const {
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
EmbeddingBag::Rows EmbeddingBag::rows_of_bags(const Tensor& ids, const std::optional<Tensor>& factors,
                                              CallSite site) const {
  Rows result{rows_of(weight, Operand(ids, site), padding_idx_), {}};
  if (factors) {
    const std::vector<graph::Shown> shown{{"ids", ids}, {"per_sample_weights", *factors}};
    graph::check_defined(kBagOp, shown, site);
    if (mode_ != BagMode::sum) graph::fail<ValueError>(kBagOp, "per_sample_weights need the mode sum", shown, "", site);
    if (factors->shape() != ids.shape()) {
      graph::fail<ShapeError>(kBagOp, "per_sample_weights must have the shape of ids", shown, "", site);
    }
    result.values = mul(Operand(result.values, site), factors->unsqueeze(-1, site));
  }
  const TensorOptions like{result.values.dtype(), result.values.device()};
  Shape column = ids.shape();
  column.push_back(1);
  result.counts = ones(column, like, site);
  if (padding_idx_) {
    const Tensor is_padding = eq(Operand(ids, site), *padding_idx_).unsqueeze(-1, site);
    result.values = where(Operand(is_padding, site), nothing(), result.values);
    result.counts = where(Operand(is_padding, site), 0.0, result.counts);
  }
  return result;
}

// What leaves a sum or maximum as it is.
double EmbeddingBag::nothing() const {
  return mode_ == BagMode::max ? -std::numeric_limits<double>::infinity() : 0.0;
}

Tensor EmbeddingBag::finished(const Tensor& reduced, const Tensor& counts, CallSite site) const {
  if (mode_ == BagMode::sum) return reduced;
  if (mode_ == BagMode::mean) return div(Operand(reduced, site), maximum(Operand(counts, site), 1.0));
  return where(Operand(gt(Operand(counts, site), 0.0), site), reduced, 0.0);
}

Tensor EmbeddingBag::forward(const Operand& ids) const {
  return forward(ids, std::nullopt);
}

Tensor EmbeddingBag::forward(const Operand& ids, const std::optional<Tensor>& per_sample_weights) const {
  const CallSite site = ids.site();
  const Tensor& places = graph::tensor_operand(kBagOp, ids);
  if (places.rank() != 2) {
    graph::fail<ShapeError>(kBagOp, "ids must be [bags, size]", {{"ids", ids}},
                            "bags of different sizes: bags(ids, offsets)", site);
  }
  if (places.shape()[1] == 0) {
    return zeros({places.shape()[0], weight.shape()[1]}, {weight.dtype(), weight.device()}, site);
  }
  const Rows rows = rows_of_bags(places, per_sample_weights, site);
  const Operand values(rows.values, site);
  return finished(mode_ == BagMode::max ? max(values, 1).values : sum(values, {1}),
                  sum(Operand(rows.counts, site), {1}), site);
}

Tensor EmbeddingBag::bags(const Operand& ids, const Tensor& offsets,
                          const std::optional<Tensor>& per_sample_weights) const {
  const CallSite site = ids.site();
  const Tensor& places = graph::tensor_operand(kBagOp, ids);
  const std::vector<graph::Shown> shown{{"ids", ids}, {"offsets", offsets}};
  graph::check_defined(kBagOp, shown, site);
  graph::check_same_device(kBagOp, shown, site);
  if (places.rank() != 1 || offsets.rank() != 1 || offsets.numel() == 0) {
    graph::fail<ShapeError>(kBagOp, "ids must be [n] and offsets [bags], at least one", shown, "", site);
  }
  // An element belongs to the last bag that starts at it or before: as many starts as there are, but one.
  const Tensor positions = arange(0, static_cast<double>(places.numel()), 1, {DType::i64, places.device()}, site);
  const Tensor started =
      le(Operand(offsets.to(DType::i64, site).unsqueeze(0, site), site), positions.unsqueeze(1, site));
  const Tensor bag = sub(Operand(sum(Operand(started, site), {1}), site), 1);
  const Rows rows = rows_of_bags(places, per_sample_weights, site);
  const std::int64_t count = offsets.numel();
  const Tensor to = bag.unsqueeze(-1, site);
  const TensorOptions like{rows.values.dtype(), rows.values.device()};
  const Tensor counts = scatter_add(Operand(zeros({count, 1}, like, site), site), 0, to, rows.counts);
  const Tensor none = full({count, weight.shape()[1]}, nothing(), like, site);
  const Tensor wide = to.expand(rows.values.shape(), site);
  const ReduceMode mode = mode_ == BagMode::max ? ReduceMode::amax : ReduceMode::sum;
  return finished(scatter_reduce(Operand(none, site), 0, wide, rows.values, mode), counts, site);
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
