#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// By the variant: the main one, the next above it, the second below it.
std::int64_t diagonal(const Probe& p) {
  constexpr std::int64_t kDiagonals[] = {0, 1, -2};
  return kDiagonals[p.variant()];
}

const CheckOp kCreationOps[] = {
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
    {"empty", Form::elementwise, 1, [](Probe& p) -> Tensors { return {empty(p.shape(), p.options())}; }},
    {"empty_like", Form::elementwise, 1, [](Probe& p) -> Tensors { return {empty_like(p.x())}; }},
    {"linspace", Form::elementwise, 2,
     [](Probe& p) -> Tensors {
       const std::int64_t n = p.shape().numel();
       return {p.variant() == 0 ? linspace(-3, 11, n, p.options()) : linspace(7.7, 0.1, n, p.options())};
     }},
    {"logspace", Form::elementwise, 2,
     [](Probe& p) -> Tensors {
       const std::int64_t n = p.shape().numel();
       return {p.variant() == 0 ? logspace(-2, 2, n, 10, p.options()) : logspace(6, -1, n, 2, p.options())};
     }},
    {"eye", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       return {p.variant() == 0 ? eye(p.size(0), p.size(2), p.options()) : eye(p.size(0), std::nullopt, p.options())};
     }},
    {"tril", Form::rows, 3, [](Probe& p) -> Tensors { return {tril(p.x(), diagonal(p))}; }},
    {"triu", Form::rows, 3, [](Probe& p) -> Tensors { return {triu(p.x(), diagonal(p))}; }},
    {"tril_indices", Form::matrix, 3,
     [](Probe& p) -> Tensors { return {tril_indices(p.size(0), p.size(2), diagonal(p), p.device())}; }},
    {"triu_indices", Form::matrix, 3,
     [](Probe& p) -> Tensors { return {triu_indices(p.size(0), p.size(2), diagonal(p), p.device())}; }},
    {"meshgrid", Form::matrix, 2,
     [](Probe& p) -> Tensors {
       const Tensor first = p.x({p.size(0)});
       const Tensor second = p.x({p.size(2)});
       return meshgrid({first, second, p.x({})}, p.variant() == 0 ? GridIndexing::ij : GridIndexing::xy);
     }},
    // lockstep/random.h
    {"rand", Form::elementwise, 1, [](Probe& p) -> Tensors { return {lockstep::rand(p.shape(), p.options())}; }},
    {"randn", Form::elementwise, 1, [](Probe& p) -> Tensors { return {randn(p.shape(), p.options())}; }},
};

}  // namespace

std::span<const CheckOp> check_creation_ops() {
  return kCreationOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
