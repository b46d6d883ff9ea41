// Assigning to cells and to parts of their values.
#include <lockstep/nn/cell.h>

#include <utility>

#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/nn/module.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace {

void set_operand(Cell& cell, const Operand& value) {
  const CallScope call("assignment to a cell", value);
  if (value.is_scalar()) {
    fail<ValueError>("a number has no shape", {{"value", value}},
                     "write cell.set(full_like(cell, value)) to fill it, or cell[{}] = value");
  }
  cell.set(value.tensor());
}

// What `change` makes of the cell's value, computed without a history.
template <typename Change> void set_changed(const char* op, Cell& cell, const Operand& other, Change change) {
  const CallScope call(op, other);
  const NoGrad scope;
  cell.set(change(cell.tensor(), other));
}

TensorPart part_of(Cell& cell, std::vector<Index> entries) {
  const auto write = [](void* object, const Tensor& value) { static_cast<Cell*>(object)->set(value); };
  return TensorPart(cell.tensor(), {&cell, write}, std::move(entries));
}

}  // namespace

Cell& Cell::operator=(const Operand& value) {
  set_operand(*this, value);
  return *this;
}
nn::Parameter& nn::Parameter::operator=(const Operand& value) {
  set_operand(*this, value);
  return *this;
}
nn::Buffer& nn::Buffer::operator=(const Operand& value) {
  set_operand(*this, value);
  return *this;
}

Cell& Cell::operator+=(const Operand& other) {
  set_changed("add", *this, other, [](const Operand& a, const Operand& b) { return add(a, b); });
  return *this;
}
Cell& Cell::operator-=(const Operand& other) {
  set_changed("sub", *this, other, [](const Operand& a, const Operand& b) { return sub(a, b); });
  return *this;
}
Cell& Cell::operator*=(const Operand& other) {
  set_changed("mul", *this, other, [](const Operand& a, const Operand& b) { return mul(a, b); });
  return *this;
}
Cell& Cell::operator/=(const Operand& other) {
  set_changed("div", *this, other, [](const Operand& a, const Operand& b) { return div(a, b); });
  return *this;
}

TensorPart Cell::operator[](const Index& entry) {
  return part_of(*this, {entry});
}
TensorPart Cell::operator[](std::initializer_list<Index> entries) {
  return part_of(*this, entries);
}

}  // namespace v0
}  // namespace lockstep
