// How ops follow the thread's Autocast scope: a listed op casts its operands and calls itself outside of the scope.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <lockstep/autocast.h>
#include <lockstep/ops.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace graph {

/// What contractions of this thread take; f32 outside of all scopes.
DType autocast_dtype();
inline bool is_autocasting() {
  return autocast_dtype() != DType::f32;
}

/// Another scope for a while: f32 for none, what was there for what is computed again later.
class AutocastExchange {
 public:
  explicit AutocastExchange(DType dtype);
  ~AutocastExchange();
  AutocastExchange(const AutocastExchange&) = delete;
  AutocastExchange& operator=(const AutocastExchange&) = delete;

 private:
  DType before_;
};

/// Whether a tensor is one that a scope casts: dense, in f32, f16 or bf16.
bool is_autocast(const Tensor& tensor);
/// Whether operands are all of that kind, but not all of one dtype: in a scope they are taken to f32.
template <typename List> bool is_mixed(const List& tensors) {
  const Tensor* first = nullptr;
  bool mixed = false;
  for (const Tensor* const tensor : tensors) {
    if (!is_autocast(*tensor)) return false;
    if (first == nullptr) first = tensor;
    mixed = mixed || tensor->dtype() != first->dtype();
  }
  return mixed;
}

/// An operand after its cast, which lives as long as this.
class CastOperand {
 public:
  CastOperand(const Operand& operand, DType dtype);
  operator Operand() const { return tensor_ ? Operand(*tensor_, site_) : Operand(scalar_, site_); }

 private:
  std::optional<Tensor> tensor_;
  double scalar_ = 0;
  CallSite site_;
};

Tensor autocast(const Tensor& tensor, DType dtype);
inline CastOperand autocast(const Operand& operand, DType dtype) {
  return {operand, dtype};
}
std::optional<Tensor> autocast(const std::optional<Tensor>& tensor, DType dtype);
std::vector<Tensor> autocast(const std::vector<Tensor>& tensors, DType dtype);
RecurrentWeights autocast(const RecurrentWeights& weights, DType dtype);
std::vector<RecurrentWeights> autocast(const std::vector<RecurrentWeights>& layers, DType dtype);
LstmState autocast(const LstmState& state, DType dtype);
std::optional<LstmState> autocast(const std::optional<LstmState>& state, DType dtype);
AttentionOptions autocast(const AttentionOptions& options, DType dtype);
/// Sizes, settings: as they are.
template <typename Other> const Other& autocast(const Other& other, DType) {
  return other;
}

/// op(arguments...) outside of the scope, with every tensor among the arguments cast.
template <typename Op, typename... Arguments>
auto with_autocast(DType dtype, const Op& op, const Arguments&... arguments) {
  const AutocastExchange outside(DType::f32);
  return op(autocast(arguments, dtype)...);
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
