#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

const CheckOp kOps[] = {
    {"full", Form::elementwise, 2,
     [](Probe& p) -> Tensors { return {full(p.shape(), p.variant() == 0 ? 3 : 0, p.options())}; }},
    {"zeros", Form::elementwise, 1, [](Probe& p) -> Tensors { return {zeros(p.shape(), p.options())}; }},
    {"ones", Form::elementwise, 1, [](Probe& p) -> Tensors { return {ones(p.shape(), p.options())}; }},
    {"full_like", Form::elementwise, 1, [](Probe& p) -> Tensors { return {full_like(p.x(), 1)}; }},
    {"zeros_like", Form::elementwise, 1, [](Probe& p) -> Tensors { return {zeros_like(p.x())}; }},
    {"ones_like", Form::elementwise, 1, [](Probe& p) -> Tensors { return {ones_like(p.x())}; }},
    {"arange", Form::elementwise, 2,
     [](Probe& p) -> Tensors {
       const auto n = static_cast<double>(p.shape().numel());
       return {p.variant() == 0 ? arange(0, n, 1, p.options()) : arange(n, -n, -3, p.options())};
     }},
    // lockstep/random.h
    {"rand", Form::elementwise, 1, [](Probe& p) -> Tensors { return {lockstep::rand(p.shape(), p.options())}; }},
    {"randn", Form::elementwise, 1, [](Probe& p) -> Tensors { return {randn(p.shape(), p.options())}; }},
};

}  // namespace

std::span<const CheckOp> check_creation_ops() {
  return kOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
