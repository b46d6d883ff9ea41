// Parts of tensors that can be assigned to: x[0] = 5, x[{kEllipsis, Slice{1, 3}}] += y, x[x < 0] = 0. Included by
// lockstep/tensor.h.
#pragma once

#include <initializer_list>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// What x[...] gives of a tensor that may change: the part's value, and where it came from. Used as a tensor it is the
/// value. Assigned to in the same expression, the whole gets a new value in which that part is replaced; a value that
/// broadcasts to the part is spread over it. Scalars take the whole's dtype; DTypeError for tensors of another,
/// ShapeError where shapes do not fit. Gradients flow to the rest of the old value and to what was assigned; of a leaf
/// under NoGrad the whole stays a leaf. Kept in a variable it is a tensor like any other and changes nothing else.
class LOCKSTEP_API TensorPart : public Tensor {
 public:
  /// Where a changed whole goes: `write(object, value)`.
  struct Target {
    void* object = nullptr;
    void (*write)(void* object, const Tensor& value) = nullptr;
  };
  TensorPart(const Tensor& whole, Target target, std::vector<Index> entries);
  TensorPart(const TensorPart& other) = default;

  // They give nothing back: of x[0] = x[1] = 5 the inner value would be the old one.
  void operator=(const Operand& value) &&;
  void operator=(const TensorPart& value) &&;
  void operator+=(const Operand& other) &&;
  void operator-=(const Operand& other) &&;
  void operator*=(const Operand& other) &&;
  void operator/=(const Operand& other) &&;

  TensorPart& operator=(const Tensor& value) & {
    Tensor::operator=(value);
    return *this;
  }
  TensorPart& operator=(const TensorPart& value) & { return *this = static_cast<const Tensor&>(value); }
  Tensor& operator+=(const Operand& other) & { return Tensor::operator+=(other); }
  Tensor& operator-=(const Operand& other) & { return Tensor::operator-=(other); }
  Tensor& operator*=(const Operand& other) & { return Tensor::operator*=(other); }
  Tensor& operator/=(const Operand& other) & { return Tensor::operator/=(other); }

  /// x[0][1] = 5 reaches x.
  TensorPart operator[](const Index& entry) &&;
  TensorPart operator[](std::initializer_list<Index> entries) &&;
  TensorPart operator[](const Index& entry) & { return Tensor::operator[](entry); }
  TensorPart operator[](std::initializer_list<Index> entries) & { return Tensor::operator[](entries); }
  Tensor operator[](const Index& entry) const& { return Tensor::operator[](entry); }
  Tensor operator[](std::initializer_list<Index> entries) const& { return Tensor::operator[](entries); }

 private:
  void assign(const Operand& value);
  CallSite site(const Operand& value) const;

  Tensor whole_;
  Target target_;
  std::vector<Index> entries_;
};

}  // namespace v0
}  // namespace lockstep
