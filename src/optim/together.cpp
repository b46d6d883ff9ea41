#include "optim/together.h"

#include <map>
#include <utility>

#include <lockstep/autograd.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

std::vector<std::vector<std::size_t>> same_kinds(const std::vector<Tensor>& tensors) {
  std::map<std::pair<DType, Device>, std::size_t> position;
  std::vector<std::vector<std::size_t>> lists;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto [found, fresh] = position.try_emplace({tensors[i].dtype(), tensors[i].device()}, lists.size());
    if (fresh) lists.emplace_back();
    lists[found->second].push_back(i);
  }
  return lists;
}

std::vector<Pack> pack_kinds(const std::vector<Tensor>& tensors, Layout::Gaps gaps) {
  std::vector<Pack> packs;
  for (std::vector<std::size_t>& members : same_kinds(tensors)) {
    std::vector<Shape> shapes;
    std::vector<Tensor> parts;
    for (const std::size_t i : members) {
      shapes.push_back(tensors[i].shape());
      parts.push_back(tensors[i]);
    }
    Layout layout(std::move(shapes));
    Tensor flat = layout.pack(parts, gaps);
    packs.push_back({std::move(members), std::move(layout), std::move(flat)});
  }
  return packs;
}

std::vector<nn::Parameter> with_gradients(const std::vector<nn::Parameter>& parameters) {
  std::vector<nn::Parameter> result;
  for (const nn::Parameter& parameter : parameters) {
    if (parameter.grad().defined()) result.push_back(parameter);
  }
  return result;
}

std::vector<Tensor> gradients_of(const std::vector<nn::Parameter>& parameters) {
  std::vector<Tensor> result;
  for (const nn::Parameter& parameter : parameters) result.push_back(detach(parameter.grad()));
  return result;
}

void set_gradients(std::vector<nn::Parameter>& parameters, const Pack& pack, const Tensor& flat) {
  for (std::size_t m = 0; m < pack.members.size(); ++m) {
    parameters[pack.members[m]].set_grad(pack.layout.part(flat, m));
  }
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
