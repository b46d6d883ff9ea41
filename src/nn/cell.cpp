#include <lockstep/nn/cell.h>

#include <fmt/format.h>

#include "graph/check.h"
#include "graph/tape.h"

namespace lockstep {
inline namespace v0 {

Cell::Cell(std::string name, const Tensor& value) {
  graph::check_defined(name, {{"value", value}}, {});
  slot_ = std::make_shared<Slot>(Slot{name, {}, nullptr});
  put(*slot_, value, {});
}

const Tensor& Cell::tensor() const {
  static const Tensor undefined;
  return slot_ == nullptr ? undefined : slot_->value;
}

std::optional<Tensor> Cell::optional() const {
  return slot_ == nullptr ? std::nullopt : std::optional<Tensor>(slot_->value);
}

const std::string& Cell::name() const {
  static const std::string none;
  return slot_ == nullptr ? none : slot_->name;
}

Cell::Slot& Cell::slot(const char* op, CallSite site) const {
  if (slot_ == nullptr) graph::fail<ValueError>(op, "the cell has no slot", {}, "", site);
  return *slot_;
}

void Cell::put(Slot& slot, const Tensor& value, CallSite site) {
  const Tensor bare = graph::untraced(value).named(slot.name);
  if (slot.gradient == nullptr) {
    slot.value = bare;
    return;
  }
  slot.value = graph::leaf(bare, slot.gradient, site);
  Tensor& gradient = *slot.gradient;
  if (gradient.defined()) gradient = graph::untraced(gradient).to(bare.dtype(), site).to(bare.device(), site);
}

void Cell::set(const Tensor& value, CallSite site) {
  Slot& slot = this->slot("set", site);
  graph::check_defined("set", {{"value", value}}, site);
  if (value.shape() != shape()) {
    graph::fail<ShapeError>("set", fmt::format("{} has another shape than the new value", slot.name),
                            {{slot.name, slot.value}, {"value", value}}, "", site);
  }
  put(slot, value, site);
}

}  // namespace v0
}  // namespace lockstep
