#include "parallel/parameter_keeper.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/autocast.h>
#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "graph/make.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

std::int64_t bytes_of(const nn::Parameter& parameter) {
  return parameter.numel() * static_cast<std::int64_t>(size_of(parameter.dtype()));
}

}  // namespace

ParameterKeeper::ParameterKeeper(const Group& group, std::vector<nn::Parameter> parameters,
                                 const std::vector<int>& owners, Limits limits)
    : group_(group), parameters_(std::move(parameters)), divided_(parameters_.size()) {
  std::vector<std::vector<std::size_t>> lists;
  std::int64_t bytes = 0;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const nn::Parameter& parameter = parameters_[p];
    if (bytes_of(parameter) <= limits.whole_bytes) continue;
    divided_[p] = true;
    devices_.insert(parameter.device());
    const bool fits = !lists.empty() && bytes + bytes_of(parameter) <= limits.unit_bytes &&
                      parameters_[lists.back().back()].dtype() == parameter.dtype() &&
                      parameters_[lists.back().back()].device() == parameter.device();
    if (!fits) {
      lists.emplace_back();
      bytes = 0;
    }
    lists.back().push_back(p);
    bytes += bytes_of(parameter);
  }
  for (const std::vector<std::size_t>& list : lists) {
    const nn::Parameter& first = parameters_[list.front()];
    Unit unit{.name = first.name(), .dtype = first.dtype(), .device = first.device(), .pieces = {}};
    for (int rank = 0; rank < group_.size(); ++rank) {
      std::vector<std::size_t> members;
      std::vector<Shape> shapes;
      for (const std::size_t p : list) {
        if (owners[p] != rank) continue;
        members.push_back(p);
        shapes.push_back(parameters_[p].shape());
      }
      unit.pieces.push_back({std::move(members), optim::Layout(std::move(shapes)), {}});
    }
    units_.push_back(std::move(unit));
  }
}

void ParameterKeeper::divide() {
  unit_of_.clear();
  for (std::size_t u = 0; u < units_.size(); ++u) {
    for (int rank = 0; rank < group_.size(); ++rank) {
      Piece& piece = units_[u].pieces[static_cast<std::size_t>(rank)];
      if (rank == group_.rank() || piece.members.empty()) continue;
      piece.flat = graph::away_tensor(shared_from_this(), {piece.layout.size()}, units_[u].dtype, units_[u].device);
      unit_of_[graph::node_of(piece.flat).get()] = static_cast<int>(u);
      for (std::size_t m = 0; m < piece.members.size(); ++m) {
        parameters_[piece.members[m]].set(piece.layout.part(piece.flat, m));
      }
    }
  }
}

void ParameterKeeper::make_whole() {
  for (Unit& unit : units_) {
    const std::vector<Tensor> all = start(unit)();
    for (int rank = 0; rank < group_.size(); ++rank) {
      Piece& piece = unit.pieces[static_cast<std::size_t>(rank)];
      if (rank == group_.rank()) continue;
      for (std::size_t m = 0; m < piece.members.size(); ++m) {
        parameters_[piece.members[m]].set(piece.layout.part(all[static_cast<std::size_t>(rank)], m));
      }
      piece.flat = {};
    }
  }
  unit_of_.clear();
}

void ParameterKeeper::pass(const std::vector<bool>& here, const std::function<void()>& work) {
  const auto leader = static_cast<int>(std::ranges::find(here, true) - here.begin());
  end_pass();  // of one that failed
  is_in_pass_ = true;
  followers_.clear();
  hide_own();
  struct End {
    ParameterKeeper& keeper;
    ~End() {
      keeper.is_in_pass_ = false;
      keeper.followers_.clear();
      keeper.show_own();
    }
  } end{*this};
  if (!here[static_cast<std::size_t>(group_.rank())]) return follow(leader);
  for (int rank = 0; rank < group_.size() && leader == group_.rank(); ++rank) {
    if (!here[static_cast<std::size_t>(rank)]) followers_.push_back(rank);
  }
  work();
  for (const int rank : followers_) {
    group_.send(Tensor::from(std::vector{std::int64_t{kNone}}, Shape(), Device{}), rank);
  }
  end_pass();
}

void ParameterKeeper::follow(int leader) {
  for (;;) {
    const auto unit =
        group_.recv(Tensor::from(std::vector{std::int64_t{0}}, Shape(), Device{}), leader).item<std::int64_t>();
    if (unit == kNone) return end_pass();
    if (unit < 0 || unit >= static_cast<std::int64_t>(units_.size())) {
      throw DistributedError(fmt::format("dist: rank {} brings unit {} of {}", leader, unit, units_.size()), leader);
    }
    fetch(static_cast<int>(unit), {});
  }
}

void ParameterKeeper::bring(const std::vector<const graph::Node*>& nodes) {
  std::set<int> needed;
  for (const graph::Node* node : nodes) {
    if (const auto found = unit_of_.find(node); found != unit_of_.end()) needed.insert(found->second);
  }
  for (const int unit : needed) {
    if (std::ranges::find(present_, unit) != present_.end()) continue;
    if (!is_in_pass_) {
      const Unit& away = units_[static_cast<std::size_t>(unit)];
      const auto owner = std::ranges::find_if(away.pieces, [](const Piece& piece) { return piece.flat.defined(); }) -
                         away.pieces.begin();
      fail<ValueError>(
          fmt::format("the value of {} lies with rank {}",
                      parameters_[away.pieces[static_cast<std::size_t>(owner)].members.front()].name(), owner),
          {}, "ZeRO 3: read it inside of Parallel::step() or Parallel::together(), or after Parallel::make_whole()");
    }
    fetch(unit, needed);
  }
}

void ParameterKeeper::fetch(int unit, const std::set<int>& needed) {
  const NoGrad no_grad;
  const Autocast outside(DType::f32);
  for (const int rank : followers_) {
    group_.send(Tensor::from(std::vector{std::int64_t{unit}}, Shape(), Device{}), rank);
  }
  flush();
  const std::vector<int> candidates(present_.begin(), present_.end());
  for (const int old : candidates) {
    if (present_.size() < kStay) break;
    if (!needed.contains(old)) park(old);
  }
  const bool is_coming = expected_ == unit && under_way_ != nullptr;
  Result result = is_coming ? std::exchange(under_way_, nullptr) : start(units_[static_cast<std::size_t>(unit)]);
  if (under_way_) std::exchange(under_way_, nullptr)();  // another one was expected
  const std::vector<Tensor> all = result();
  Unit& now = units_[static_cast<std::size_t>(unit)];
  for (std::size_t rank = 0; rank < now.pieces.size(); ++rank) {
    const Tensor& flat = now.pieces[rank].flat;
    if (flat.defined()) graph::give_memory(*graph::node_of(flat), graph::node_of(all[rank])->buffer);
  }
  for (const Hidden& one : hidden_) {
    if (one.unit != unit) continue;
    graph::Node& node = *graph::node_of(one.away);
    graph::give_memory(node, one.real->buffer);
    node.canonical.store(one.real->canonical.load());  // known: nobody need look at all values again
  }
  present_.push_back(unit);
  if (last_ != kNone) next_[{before_, last_}] = unit;
  before_ = std::exchange(last_, unit);
  const auto found = next_.find({before_, last_});
  expected_ = found == next_.end() ? kNone : found->second;
  const bool is_here = std::ranges::find(present_, expected_) != present_.end();
  if (expected_ != kNone && !is_here) under_way_ = start(units_[static_cast<std::size_t>(expected_)]);
}

Result ParameterKeeper::start(const Unit& unit) const {
  const NoGrad no_grad;
  const Autocast outside(DType::f32);
  const auto own = static_cast<std::size_t>(group_.rank());
  std::vector<Shape> shapes;
  for (const Piece& piece : unit.pieces) shapes.push_back({piece.layout.size()});
  std::vector<Tensor> values;
  for (const std::size_t p : unit.pieces[own].members) {
    const auto hidden = own_.find(p);
    values.push_back(hidden == own_.end() ? detach(parameters_[p]) : hidden->second);
  }
  const Tensor mine = values.empty() ? zeros({0}, {.dtype = unit.dtype, .device = unit.device})
                                     : unit.pieces[own].layout.pack(values, optim::Layout::Gaps::any);
  return GroupAccess::start_all_gather(group_, mine, shapes, ", of " + unit.name);
}

void ParameterKeeper::park(int unit) {
  for (const Piece& piece : units_[static_cast<std::size_t>(unit)].pieces) {
    if (piece.flat.defined()) graph::take_memory(*graph::node_of(piece.flat));
  }
  for (const Hidden& one : hidden_) {
    if (one.unit == unit) graph::take_memory(*graph::node_of(one.away));
  }
  std::erase(present_, unit);
}

void ParameterKeeper::hide_own() {
  const NoGrad no_grad;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const std::size_t first = hidden_.size();
    for (const std::size_t p : units_[u].pieces[static_cast<std::size_t>(group_.rank())].members) {
      const Tensor value = detach(parameters_[p]);
      const graph::Reading reading = graph::read(value);
      graph::compute(reading.base);
      auto found = std::find_if(hidden_.begin() + static_cast<std::ptrdiff_t>(first), hidden_.end(),
                                [&](const Hidden& one) { return one.real == reading.base; });
      if (found == hidden_.end()) {
        const Tensor away =
            graph::away_tensor(shared_from_this(), reading.base->shape, reading.base->dtype, reading.base->device);
        found = hidden_.insert(hidden_.end(), {static_cast<int>(u), reading.base, away});
        unit_of_[graph::node_of(away).get()] = static_cast<int>(u);
      }
      own_[p] = value;
      parameters_[p].set(graph::view_tensor(graph::node_of(found->away), reading.view, value.dtype()));
    }
  }
}

void ParameterKeeper::show_own() {
  for (const auto& [p, value] : own_) parameters_[p].set(value);
  own_.clear();
  for (const Hidden& one : hidden_) unit_of_.erase(graph::node_of(one.away).get());
  hidden_.clear();
}

void ParameterKeeper::flush() const {
  for (const Device device : devices_) graph::flush(device);
}

void ParameterKeeper::end_pass() {
  flush();
  while (!present_.empty()) park(present_.front());
  next_.erase({before_, last_});
  before_ = last_ = expected_ = kNone;
  if (under_way_) std::exchange(under_way_, nullptr)();
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
