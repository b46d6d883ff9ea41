#include <utility>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/encoding.h>
#include <lockstep/models/columns.h>
#include <lockstep/ops.h>

#include "graph/dense_data.h"
#include "graph/make.h"
#include "models/language/columns.h"
#include "models/language/parameters.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// In memory of their own, so that what they are a part of can go.
Tensor own_rows(const Tensor& matrix, std::int64_t first, std::int64_t count, Device device) {
  if (matrix.encoding() == Encoding::dense) {
    const Tensor rows = matrix.narrow(0, first, count);
    return device == rows.device() ? graph::stored(rows).eval() : rows.to(device);
  }
  const graph::Reading reading = graph::read(matrix);
  check<ValueError>(reading.view.is_contiguous(), "packed rows lie apart", {{"weight", matrix}});
  const std::int64_t width = matrix.size(1);
  const auto bytes_of = [&](std::int64_t elements) {
    return encoded_bytes(matrix.encoding(), matrix.dtype(), elements);
  };
  const std::byte* const data = reading.base->buffer->data() + bytes_of(reading.view.offset + first * width);
  return Tensor::from_blocks(data, bytes_of(count * width), {count, width}, matrix.encoding(), device);
}

}  // namespace

void divide_columns(LanguageModel& model, const dist::Group& group, Device device) {
  const CallScope call("divide_columns", CallSite());
  auto* own = dynamic_cast<HasProjections*>(&model);
  check<ValueError>(own != nullptr, fmt::format("models of {} cannot be divided among ranks yet", model.family()), {},
                    "use one process");
  if (group.size() == 1) return;
  for (const auto& [path, slot] : own->projections()) {
    if (slot->out < group.size()) continue;
    const Tensor& weight = slot->weight;
    std::vector<std::int64_t> cuts;
    for (int rank = 0; rank <= group.size(); ++rank) cuts.push_back(slot->out * rank / group.size());
    const std::int64_t first = cuts[static_cast<std::size_t>(group.rank())];
    const std::int64_t count = cuts[static_cast<std::size_t>(group.rank()) + 1] - first;
    const Tensor matrix = detach(slot->transposed ? weight.transpose(0, 1) : weight);
    slot->part = std::make_shared<const ColumnPart>(
        ColumnPart{.group = group, .cuts = std::move(cuts), .weight = own_rows(matrix, first, count, device)});
    slot->weight.requires_grad(false);
    slot->weight.set(graph::away_tensor(nullptr, weight.shape(), weight.dtype(), device));
  }
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
