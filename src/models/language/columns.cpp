#include "models/language/columns.h"

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/encoding.h>
#include <lockstep/ops.h>

#include "graph/dense_data.h"
#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace models {

RankCuts::RankCuts(const dist::Group& of, std::int64_t all) : group(of) {
  for (int rank = 0; rank <= group.size(); ++rank) cuts.push_back(all * rank / group.size());
}

Tensor own_slices(const Tensor& whole, const RankCuts& cuts, Device device) {
  if (whole.encoding() == Encoding::dense) {
    const Tensor own = whole.narrow(0, cuts.first(), cuts.count());
    return device == own.device() ? graph::stored(own).eval() : own.to(device);
  }
  const graph::Reading reading = graph::read(whole);
  // Stacks of matrices [in, out] may lie packed as [out, in].
  if (whole.rank() == 3 && reading.view.strides[1] == 1 && reading.view.strides[2] != 1) {
    return own_slices(whole.transpose(1, 2), cuts, device).transpose(1, 2);
  }
  check<ValueError>(reading.view.is_contiguous(), "packed rows lie apart", {{"weight", whole}});
  const std::int64_t width = whole.numel() / whole.size(0);
  const auto bytes_of = [&](std::int64_t elements) { return encoded_bytes(whole.encoding(), whole.dtype(), elements); };
  const std::byte* const data = reading.base->buffer->data() + bytes_of(reading.view.offset + cuts.first() * width);
  std::vector<std::int64_t> sizes(whole.shape().begin(), whole.shape().end());
  sizes.front() = cuts.count();
  // Squares of 128 rows may be cut.
  const bool is_cut = whole.encoding() == Encoding::e4m3_squares && whole.rank() == 2 && cuts.first() % 128 != 0;
  const Encoding encoding = is_cut ? Encoding::e4m3 : whole.encoding();
  return Tensor::from_blocks(data, bytes_of(cuts.count() * width), Shape(sizes), encoding, device);
}

void take_away(nn::Parameter& parameter, Device device) {
  const Tensor& whole = parameter;
  const Shape shape = whole.shape();
  const DType dtype = whole.dtype();
  parameter.requires_grad(false);
  parameter.set(graph::away_tensor(nullptr, shape, dtype, device));
}

ColumnPart::ColumnPart(const dist::Group& of, const Tensor& matrix, Device device)
    : RankCuts(of, matrix.size(0)), weight(own_slices(matrix, *this, device)) {}

Tensor ColumnPart::all_columns(const Tensor& own) const {
  std::vector<Shape> shapes;
  for (std::size_t rank = 0; rank + 1 < cuts.size(); ++rank) {
    Shape shape = own.shape();
    shape[shape.rank() - 1] = cuts[rank + 1] - cuts[rank];
    shapes.push_back(shape);
  }
  return cat(group.all_gather(own, shapes), -1);
}

// Every rank looks all of them up in its own rows, so that the shapes do not depend on the numbers.
Tensor ColumnPart::rows(const Tensor& numbers) const {
  for (const std::int64_t number : numbers.to_vector<std::int64_t>()) {
    check<IndexError>(number >= 0 && number < cuts.back(),
                      fmt::format("index {} is out of range for {} rows", number, cuts.back()));
  }
  const std::vector<Tensor> all = group.all_gather(embedding(weight, clamp(numbers - first(), 0, count() - 1)));
  Tensor result = all.front();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    result = where((numbers >= cuts[rank]).unsqueeze(-1), all[rank], result);
  }
  return result;
}

std::vector<Tensor> parts_of_all(const RankCuts& experts, const std::vector<std::int64_t>& rows, const Tensor& like,
                                 const std::function<Tensor(std::int64_t expert)>& compute) {
  std::vector<Tensor> own{like.narrow(0, 0, 0)};
  std::vector<Shape> shapes;
  for (std::size_t rank = 0; rank + 1 < experts.cuts.size(); ++rank) {
    std::int64_t sum = 0;
    for (std::int64_t e = experts.cuts[rank]; e < experts.cuts[rank + 1]; ++e) sum += rows[static_cast<std::size_t>(e)];
    shapes.push_back({sum, like.size(1)});
  }
  for (std::int64_t e = experts.first(); e < experts.first() + experts.count(); ++e) {
    if (rows[static_cast<std::size_t>(e)] > 0) own.push_back(compute(e).eval());
  }
  const std::vector<Tensor> all = experts.group.all_gather(cat(own, 0), shapes);
  std::vector<Tensor> parts;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::int64_t at = 0;
    for (std::int64_t e = experts.cuts[rank]; e < experts.cuts[rank + 1]; ++e) {
      const std::int64_t count = rows[static_cast<std::size_t>(e)];
      parts.push_back(all[rank].narrow(0, at, count));
      at += count;
    }
  }
  return parts;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
