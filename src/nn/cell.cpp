#include <lockstep/nn/cell.h>

#include <fmt/format.h>

#include "graph/check.h"

namespace lockstep {
inline namespace v0 {

Cell::Cell(std::string name, const Tensor& value) {
  graph::check_defined(name, {{"value", value}}, {});
  slot_ = std::make_shared<Slot>(Slot{name, value.named(name)});
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

void Cell::set(const Tensor& value, CallSite site) {
  if (slot_ == nullptr) {
    graph::fail<ValueError>("set", "the cell has no slot to put a value into", {{"value", value}}, "", site);
  }
  graph::check_defined("set", {{"value", value}}, site);
  if (value.shape() != shape()) {
    graph::fail<ShapeError>("set", fmt::format("{} has another shape than the new value", slot_->name),
                            {{slot_->name, slot_->value}, {"value", value}}, "", site);
  }
  slot_->value = value.named(slot_->name);
}

}  // namespace v0
}  // namespace lockstep
