#include <lockstep/nn/cell.h>

#include <fmt/format.h>

#include <lockstep/check.h>

#include "graph/tape.h"

namespace lockstep {
inline namespace v0 {

Cell::Cell(std::string name, const Tensor& value) {
  check_defined({{name, value}});
  slot_ = std::make_shared<Slot>(Slot{name, {}, nullptr});
  put(*slot_, value);
}

const Tensor& Cell::tensor() const {
  static const Tensor& undefined = *new Tensor;
  return slot_ == nullptr ? undefined : slot_->value;
}

std::optional<Tensor> Cell::optional() const {
  return slot_ == nullptr ? std::nullopt : std::optional<Tensor>(slot_->value);
}

const std::string& Cell::name() const {
  static const std::string& none = *new std::string;
  return slot_ == nullptr ? none : slot_->name;
}

Cell::Slot& Cell::slot() const {
  if (slot_ == nullptr) fail<ValueError>("the cell has no slot");
  return *slot_;
}

void Cell::put(Slot& slot, const Tensor& value) {
  if (slot.gradient == nullptr) {
    slot.value = graph::untraced(value, slot.name);
    return;
  }
  slot.value = graph::leaf(value, slot.gradient, slot.name);
  Tensor& gradient = *slot.gradient;
  if (gradient.defined()) gradient = graph::untraced(gradient).to(value.dtype()).to(value.device());
}

void Cell::set(const Tensor& value, CallSite site) {
  const CallScope call("set", site);
  Slot& slot = this->slot();
  check_defined({{"value", value}});
  if (value.shape() != shape()) {
    fail<ShapeError>(fmt::format("{} has another shape than the new value", slot.name),
                     {{slot.name, slot.value}, {"value", value}});
  }
  put(slot, value);
}

}  // namespace v0
}  // namespace lockstep
