#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/models/columns.h>
#include <lockstep/ops.h>

#include "models/language/parameters.h"

namespace lockstep {
inline namespace v0 {
namespace models {

void divide_columns(LanguageModel& model, const dist::Group& group, Device device) {
  const CallScope call("divide_columns", CallSite());
  auto* own = dynamic_cast<HasProjections*>(&model);
  check<ValueError>(own != nullptr, fmt::format("models of {} cannot be divided among ranks yet", model.family()), {},
                    "use one process");
  if (group.size() == 1) return;
  own->divide_others(group, device);
  for (const auto& [path, slot] : own->projections()) {
    if (slot->is_one_ranks || slot->out < group.size()) continue;
    const Tensor& weight = slot->weight;
    const Tensor matrix = detach(slot->transposed ? weight.transpose(0, 1) : weight);
    slot->part = std::make_shared<const ColumnPart>(group, matrix, device);
    take_away(slot->weight, device);
  }
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
