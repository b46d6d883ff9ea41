// The state of module and optimiser on its way from those who own it to a checkpoint, and back.
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "optim/optimizer_impl.h"
#include "parallel/parallel_impl.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

constexpr std::string_view kState = "state.";

bool is_state(const std::string& name) {
  return name.starts_with(kState);
}

struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

std::string list_of(const nn::StateDict& state) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [name, tensor] : state) {
    if (!is_state(name)) continue;
    const Shape& shape = tensor.shape();
    list.push_back({{"name", name},
                    {"dtype", name_of(tensor.dtype())},
                    {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())}});
  }
  return list.dump();
}

std::vector<Entry> parse_list(const std::string& text, int rank) {
  std::vector<Entry> entries;
  try {
    for (const nlohmann::json& item : nlohmann::json::parse(text)) {
      const auto sizes = item.at("shape").get<std::vector<std::int64_t>>();
      entries.push_back(
          {item.at("name").get<std::string>(), parse_dtype(item.at("dtype").get<std::string>()), Shape(sizes)});
    }
  } catch (const std::exception& error) {
    throw DistributedError(
        fmt::format("dist: rank {} sent a list of tensors that cannot be read: {}", rank, error.what()), rank);
  }
  return entries;
}

Tensor bytes_of(const std::string& text) {
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  return Tensor::from(bytes, {static_cast<std::int64_t>(bytes.size())}, Device{});
}

// By way of the host: rank 0 does not know on which device each tensor is, and both sides must use one kind of memory.
void send_state(const Group& group, const nn::StateDict& state) {
  const Tensor list = bytes_of(list_of(state));
  group.send(Tensor::from(std::vector{list.numel()}, Shape(), Device{}), 0);
  group.send(list, 0);
  for (const auto& [name, tensor] : state) {
    if (is_state(name)) group.send(tensor.to(Device{}), 0);
  }
}

void receive_state(const Group& group, int from, nn::StateDict& state) {
  constexpr std::int64_t kMostBytes = 1 << 28;
  const auto bytes =
      group.recv(Tensor::from(std::vector{std::int64_t{0}}, Shape(), Device{}), from).item<std::int64_t>();
  if (bytes < 0 || bytes > kMostBytes) {
    throw DistributedError(fmt::format("dist: rank {} announced a list of {} bytes", from, bytes), from);
  }
  const auto text =
      group.recv(zeros({bytes}, {.dtype = DType::u8, .device = Device{}}), from).to_vector<std::uint8_t>();
  for (const Entry& entry : parse_list(std::string(text.begin(), text.end()), from)) {
    state.push_back(entry.name, group.recv(zeros(entry.shape, {.dtype = entry.dtype, .device = Device{}}), from));
  }
}

}  // namespace

std::map<std::string, int> Parallel::Impl::owners_by_name() const {
  std::map<std::string, int> result;
  for (const auto& [name, parameter] : module.named_parameters()) {
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (same_slot(parameters[p], parameter)) result[name] = owners[p];
    }
  }
  return result;
}

std::map<std::string, int> Parallel::Impl::divided_by_name() const {
  std::map<std::string, int> result;
  if (keeper == nullptr || is_whole) return result;
  for (const auto& [name, parameter] : module.named_parameters()) {
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (same_slot(parameters[p], parameter) && is_divided(p)) result[name] = owners[p];
    }
  }
  return result;
}

nn::StateDict Parallel::module_state(CallSite site) const {
  const CallScope call("Parallel::module_state", site);
  const Group& group = impl_->group;
  const std::map<std::string, int> divided = impl_->divided_by_name();
  nn::StateDict state;
  for (const auto& [name, tensor] : impl_->module.state_dict()) {
    const auto found = divided.find(name);
    const int owner = found == divided.end() ? 0 : found->second;
    if (owner == group.rank() && owner != 0) group.send(tensor.to(Device{}), 0);
    if (group.rank() != 0) continue;
    const TensorOptions host{.dtype = tensor.dtype(), .device = Device{}};
    state.push_back(name, owner == 0 ? tensor : group.recv(zeros(tensor.shape(), host), owner));
  }
  return state;
}

void Parallel::load_module_state(const nn::StateDict& state, CallSite site) {
  const CallScope call("Parallel::load_module_state", site);
  nn::Module& module = impl_->module;
  const std::map<std::string, int> divided = impl_->divided_by_name();
  if (divided.empty()) return module.load_state_dict(state, {}, site);
  const nn::StateDict now = module.state_dict();
  nn::StateDict own;
  for (const auto& [name, value] : now) {
    const Tensor* saved = state.find(name);
    check<ValueError>(saved != nullptr, fmt::format("{} is missing", name));
    check<ShapeError>(saved->shape() == value.shape(), fmt::format("{} has another shape", name),
                      {{"saved", *saved}, {"module", value}});
    const auto found = divided.find(name);
    if (found == divided.end() || found->second == impl_->group.rank()) own.push_back(name, *saved);
  }
  for (const auto& [name, value] : state) {
    check<ValueError>(now.find(name) != nullptr, fmt::format("the module has no {}", name));
  }
  module.load_state_dict(own, {.strict = false}, site);
}

nn::StateDict Parallel::own_module_state(CallSite site) const {
  const CallScope call("Parallel::own_module_state", site);
  const std::map<std::string, int> owners = impl_->owners_by_name();
  nn::StateDict state;
  for (const auto& [name, tensor] : impl_->module.state_dict()) {
    const auto found = owners.find(name);
    if ((found == owners.end() ? 0 : found->second) == impl_->group.rank()) state.push_back(name, tensor);
  }
  return state;
}

nn::StateDict Parallel::own_optimizer_state(CallSite site) const {
  const CallScope call("Parallel::own_optimizer_state", site);
  const std::vector<std::string> prefixes = optim::OptimizerAccess::state_prefixes(impl_->optimizer);
  nn::StateDict state;
  for (const auto& [name, tensor] : impl_->optimizer.state_dict()) {
    int owner = 0;
    for (std::size_t p = 0; p < prefixes.size(); ++p) {
      if (name.starts_with(prefixes[p])) owner = impl_->owners[p];
    }
    if (owner == impl_->group.rank()) state.push_back(name, tensor);
  }
  return state;
}

nn::StateDict Parallel::optimizer_state(CallSite site) const {
  const CallScope call("Parallel::optimizer_state", site);
  const Group& group = impl_->group;
  if (impl_->options.zero == 0) return group.rank() == 0 ? impl_->optimizer.state_dict() : nn::StateDict();
  nn::StateDict state = impl_->optimizer.state_dict();
  if (group.rank() != 0) {
    send_state(group, state);
    return {};
  }
  for (int rank = 1; rank < group.size(); ++rank) receive_state(group, rank, state);
  return state;
}

void Parallel::load_optimizer_state(const nn::StateDict& state, CallSite site) {
  const CallScope call("Parallel::load_optimizer_state", site);
  const std::vector<std::string> prefixes = optim::OptimizerAccess::state_prefixes(impl_->optimizer);
  const auto is_others = [&](const std::string& name) {
    for (std::size_t p = 0; p < prefixes.size(); ++p) {
      if (!impl_->is_own(p) && name.starts_with(prefixes[p])) return true;
    }
    return false;
  };
  nn::StateDict own;
  for (const auto& [name, tensor] : state) {
    if (!is_others(name)) own.push_back(name, tensor);
  }
  impl_->optimizer.load_state_dict(own, site);
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
