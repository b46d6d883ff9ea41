// A shared slot that holds a tensor. Tensors are immutable, models are not: what changes in a model stands in cells,
// and every copy of a cell sees the change. nn::Parameter and nn::Buffer are cells that belong to a module.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// Copies share the slot. Usable wherever an op takes a tensor; the op then sees the value of that moment.
class LOCKSTEP_API Cell {
 public:
  /// No slot: an absent bias, for example. Its tensor is undefined.
  Cell() = default;
  /// `name` is what error messages call the value.
  Cell(std::string name, const Tensor& value);

  bool defined() const { return slot_ != nullptr; }
  /// The current value.
  const Tensor& tensor() const;
  /// The current value, or nothing if there is no slot: for optional operands.
  std::optional<Tensor> optional() const;
  operator const Tensor&() const { return tensor(); }

  const std::string& name() const;
  const Shape& shape() const { return tensor().shape(); }
  std::int64_t numel() const { return tensor().numel(); }
  DType dtype() const { return tensor().dtype(); }
  Device device() const { return tensor().device(); }

  /// Puts another value, without its history, into the slot, for all copies. Throws ValueError if there is no slot or
  /// `value` is undefined, ShapeError if the shape differs. Dtype and device may differ; a gradient follows them.
  void set(const Tensor& value, CallSite site = {});
  /// As set. (Assigning a cell makes this one share the other's slot.) ValueError for a number, which has no shape.
  Cell& operator=(const Operand& value);
  // Sets what is computed without a history: a step of training by hand, weight -= 0.1 * weight.grad().
  Cell& operator+=(const Operand& other);
  Cell& operator-=(const Operand& other);
  Cell& operator*=(const Operand& other);
  Cell& operator/=(const Operand& other);

  /// As for tensors (lockstep/tensor_part.h): a part of the value, which can be assigned to, without a history as in
  /// set.
  TensorPart operator[](const Index& entry);
  TensorPart operator[](std::initializer_list<Index> entries);
  Tensor operator[](const Index& entry) const { return tensor()[entry]; }
  Tensor operator[](std::initializer_list<Index> entries) const { return tensor()[entries]; }

  /// Whether two cells share one slot.
  friend bool same_slot(const Cell& a, const Cell& b) { return a.slot_ == b.slot_; }

 protected:
  /// What the handles of one parameter or buffer share.
  struct Slot {
    std::string name;
    Tensor value;
    /// Where backward() adds the gradient; null: the value is not trained.
    std::shared_ptr<Tensor> gradient;
  };
  /// Throws ValueError if there is none.
  Slot& slot() const;
  /// `value` as this slot holds it: named, and a leaf if it is trained.
  static void put(Slot& slot, const Tensor& value);

 private:
  std::shared_ptr<Slot> slot_;
};

}  // namespace v0
}  // namespace lockstep
