// One change of many tensors: those of one dtype and device are changed side by side, by one kernel.
#pragma once

#include <functional>
#include <vector>

#include <lockstep/nn/module.h>

#include "optim/arena.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

/// Positions of the tensors that have one dtype and device, in lists.
std::vector<std::vector<std::size_t>> same_kinds(const std::vector<Tensor>& tensors);

/// The tensors of one of these lists as one flat tensor.
struct Pack {
  std::vector<std::size_t> members;
  Layout layout;
  Tensor flat;
};
std::vector<Pack> pack_kinds(const std::vector<Tensor>& tensors, Layout::Gaps gaps);

/// Those that have a gradient.
std::vector<nn::Parameter> with_gradients(const std::vector<nn::Parameter>& parameters);
std::vector<Tensor> gradients_of(const std::vector<nn::Parameter>& parameters);
/// Replaces gradients by their parts of a flat tensor, in the place of the pack's.
void set_gradients(std::vector<nn::Parameter>& parameters, const Pack& pack, const Tensor& flat);

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
