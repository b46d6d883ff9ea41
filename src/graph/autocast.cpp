#include "graph/autocast.h"

#include <fmt/format.h>

#include <lockstep/check.h>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace {

thread_local constinit DType autocast_now = DType::f32;

}  // namespace

Autocast::Autocast(DType dtype, CallSite site) : before_(autocast_now) {
  const CallScope call("Autocast", site);
  if (dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f32) {
    fail<DTypeError>(fmt::format("does not cast to {}", name_of(dtype)), {}, "use DType::bf16 or DType::f16");
  }
  autocast_now = dtype;
}

Autocast::~Autocast() {
  autocast_now = before_;
}

namespace graph {

DType autocast_dtype() {
  return autocast_now;
}

AutocastExchange::AutocastExchange(DType dtype) : before_(std::exchange(autocast_now, dtype)) {}
AutocastExchange::~AutocastExchange() {
  autocast_now = before_;
}

bool is_autocast(const Tensor& tensor) {
  if (!tensor.defined() || tensor.encoding() != Encoding::dense) return false;
  return tensor.dtype() == DType::f32 || tensor.dtype() == DType::f16 || tensor.dtype() == DType::bf16;
}

CastOperand::CastOperand(const Operand& operand, DType dtype) : site_(operand.site()) {
  if (operand.is_scalar()) {
    scalar_ = operand.scalar();
  } else {
    tensor_ = autocast(operand.tensor(), dtype);
  }
}

Tensor autocast(const Tensor& tensor, DType dtype) {
  return is_autocast(tensor) ? cast(tensor, dtype) : tensor;
}

std::optional<Tensor> autocast(const std::optional<Tensor>& tensor, DType dtype) {
  return tensor ? std::optional<Tensor>(autocast(*tensor, dtype)) : std::nullopt;
}

std::vector<Tensor> autocast(const std::vector<Tensor>& tensors, DType dtype) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(autocast(tensor, dtype));
  return result;
}

RecurrentWeights autocast(const RecurrentWeights& weights, DType dtype) {
  return {autocast(weights.input, dtype), autocast(weights.hidden, dtype), autocast(weights.input_bias, dtype),
          autocast(weights.hidden_bias, dtype)};
}

std::vector<RecurrentWeights> autocast(const std::vector<RecurrentWeights>& layers, DType dtype) {
  std::vector<RecurrentWeights> result;
  for (const RecurrentWeights& weights : layers) result.push_back(autocast(weights, dtype));
  return result;
}

LstmState autocast(const LstmState& state, DType dtype) {
  return {autocast(state.hidden, dtype), autocast(state.cell, dtype)};
}

std::optional<LstmState> autocast(const std::optional<LstmState>& state, DType dtype) {
  return state ? std::optional<LstmState>(autocast(*state, dtype)) : std::nullopt;
}

AttentionOptions autocast(const AttentionOptions& options, DType dtype) {
  AttentionOptions result = options;
  result.mask = autocast(options.mask, dtype);
  return result;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
