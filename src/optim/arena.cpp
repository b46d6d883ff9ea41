#include "optim/arena.h"

#include <utility>

#include <lockstep/autograd.h>
#include <lockstep/ops.h>

#include "core/assert.h"
#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace optim {
namespace {

constexpr std::int64_t kAlignment = 16;

View part_view(const Shape& shape, std::int64_t offset) {
  View view = View::contiguous(shape);
  view.offset = offset;
  return view;
}

}  // namespace

Layout::Layout(std::vector<Shape> shapes) : shapes_(std::move(shapes)) {
  for (const Shape& shape : shapes_) {
    const std::int64_t offset = (size_ + kAlignment - 1) / kAlignment * kAlignment;
    has_gaps_ = has_gaps_ || offset != size_;
    offsets_.push_back(offset);
    size_ = offset + shape.numel();
  }
}

Tensor Layout::part(const Tensor& flat, std::size_t i) const {
  const graph::Reading reading = graph::read(flat);
  LOCKSTEP_ASSERT(reading.view.is_contiguous() && flat.numel() == size_);
  return graph::view_tensor(reading.base, part_view(shapes_[i], reading.view.offset + offsets_[i]), flat.dtype());
}

Tensor Layout::common_base(const std::vector<Tensor>& tensors) const {
  graph::NodeRef base;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (shapes_[i].numel() == 0) continue;
    graph::Reading reading = graph::read(tensors[i]);
    if (!reading.view.is_contiguous()) return {};
    if (base == nullptr) {
      base = std::move(reading.base);
      start = reading.view.offset - offsets_[i];
    } else if (base != reading.base || reading.view.offset - offsets_[i] != start) {
      return {};
    }
  }
  if (base == nullptr || start < 0 || start + size_ > base->shape.numel()) return {};
  return graph::view_tensor(base, part_view({size_}, start), tensors[0].dtype());
}

Tensor Layout::pack(const std::vector<Tensor>& tensors, Gaps gaps) const {
  LOCKSTEP_ASSERT(tensors.size() == count() && !tensors.empty());
  if (gaps == Gaps::any || !has_gaps_) {
    if (Tensor base = common_base(tensors); base.defined()) return base;
  }
  Tensor flat = zeros({size_}, {.dtype = tensors[0].dtype(), .device = tensors[0].device()});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Shape line{shapes_[i].numel()};
    if (line[0] == 0) continue;
    flat = graph::update(flat, part_view(line, offsets_[i]), tensors[i].reshape(line));
  }
  return flat;
}

std::vector<Shape> shapes_of(const std::vector<nn::Parameter>& parameters) {
  std::vector<Shape> shapes;
  for (const nn::Parameter& parameter : parameters) shapes.push_back(parameter.shape());
  return shapes;
}

Arena::Arena(std::vector<nn::Parameter> parameters)
    : parameters_(std::move(parameters)), layout_(shapes_of(parameters_)) {}

bool Arena::is_current() const {
  if (!flat_.defined()) return false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (graph::node_of(parameters_[i].tensor()) != bound_[i]) return false;
  }
  return true;
}

Tensor Arena::values() const {
  if (parameters_.size() == 1) return detach(parameters_[0]);
  if (is_current()) return flat_;
  std::vector<Tensor> values;
  for (const nn::Parameter& parameter : parameters_) values.push_back(detach(parameter));
  return layout_.pack(values, Layout::Gaps::any);
}

void Arena::set_values(const Tensor& flat) {
  if (parameters_.size() == 1) return parameters_[0].set(flat);
  flat_ = flat;
  bound_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].set(layout_.part(flat, i));
    bound_.push_back(graph::node_of(parameters_[i].tensor()));
  }
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
