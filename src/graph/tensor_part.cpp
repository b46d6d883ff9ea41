// x[...] of a tensor, read and assigned to.
#include <lockstep/tensor_part.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/make.h"
#include "graph/rebind.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// The entries of x[...] in two steps: a view, then elements of it that tensors pick.
struct Steps {
  std::vector<Index> view;
  std::vector<std::optional<Tensor>> picks;  ///< as index_put takes them: per dimension of the view, a mask being one
  std::size_t ellipsis = 0;                  ///< where the dimensions of an ellipsis stand in `picks`
  int dims = 0;                              ///< of the view that `picks` stands for
  bool plain = true;
  bool has_ellipsis = false;
};

Steps steps_of(const std::vector<Index>& entries) {
  Steps steps;
  for (const Index& entry : entries) {
    if (const auto* picked = std::get_if<Tensor>(&entry.entry)) {
      const bool mask = picked->defined() && picked->dtype() == DType::boolean;
      const int dims = mask ? picked->rank() : 1;
      steps.view.insert(steps.view.end(), static_cast<std::size_t>(dims), Index(Slice{}, entry.site));
      steps.picks.emplace_back(*picked);
      steps.dims += dims;
      steps.plain = false;
      continue;
    }
    steps.view.push_back(entry);
    if (std::holds_alternative<std::int64_t>(entry.entry)) continue;
    if (std::holds_alternative<Ellipsis>(entry.entry)) {
      steps.ellipsis = steps.picks.size();
      steps.has_ellipsis = true;
      continue;
    }
    steps.picks.emplace_back();
    ++steps.dims;
  }
  return steps;
}

// `value` in the shape of `part`, whose whole is `whole`.
Tensor spread(const Operand& value, const Tensor& whole, const Tensor& part) {
  if (value.is_scalar()) {
    return full(part.shape(), value.scalar(), {.dtype = whole.dtype(), .device = whole.device()});
  }
  const std::vector<Shown> shown{{"x", whole}, {"value", value}};
  check_same_device(shown);
  check_same_dtype(shown);
  Tensor given = value.tensor();
  while (given.rank() > part.rank() && given.shape()[0] == 1) given = given.squeeze(0);
  if (given.shape() == part.shape()) return given;
  const bool fits = given.rank() <= part.rank() && [&] {
    for (int d = 1; d <= given.rank(); ++d) {
      const std::int64_t size = given.shape()[given.rank() - d];
      if (size != 1 && size != part.shape()[part.rank() - d]) return false;
    }
    return true;
  }();
  if (!fits) {
    fail<ShapeError>(fmt::format("the value does not broadcast to the part {}", part.shape().to_string()), shown);
  }
  return given.expand(part.shape());
}

// `whole` with the part x[entries] replaced.
Tensor put(const Tensor& whole, const std::vector<Index>& entries, const Operand& value) {
  check_defined({{"x", whole}, {"value", value}});
  Steps steps = steps_of(entries);
  // The region is found over a stand-in with the whole's dense elements, whatever the whole itself is a view of.
  const Tensor dense = Access::tensor(make_node(Iota{}, {}, whole.shape(), DType::i64, whole.device()));
  const Tensor region = steps.view.empty() ? dense : dense.index(steps.view);
  Tensor part;
  if (steps.plain) {
    part = spread(value, whole, region);
  } else {
    // Passed by an ellipsis; dimensions at the end need no entry. (GCC 12 warns of n equal values that are inserted.)
    const int passed = steps.has_ellipsis ? region.rank() - steps.dims : 0;
    const std::vector<std::optional<Tensor>> all(static_cast<std::size_t>(passed));
    steps.picks.insert(steps.picks.begin() + static_cast<std::ptrdiff_t>(steps.ellipsis), all.begin(), all.end());
    part = index_put(whole.index(steps.view), steps.picks, value);
  }
  return region.numel() == 0 ? whole : update(whole, read(region).view, part);
}

void write_tensor(void* object, const Tensor& value) {
  rebind(*static_cast<Tensor*>(object), value);
}

}  // namespace

TensorPart::TensorPart(const Tensor& whole, Target target, std::vector<Index> entries)
    : Tensor(whole.index(entries, entries.empty() ? CallSite() : entries.front().site)),
      whole_(whole),
      target_(target),
      entries_(std::move(entries)) {}

// The line of the part; x[{}] has none.
CallSite TensorPart::site(const Operand& value) const {
  return entries_.empty() ? value.site() : entries_.front().site;
}

void TensorPart::assign(const Operand& value) {
  const CallScope call("x[...] = value", site(value));
  target_.write(target_.object, put(whole_, entries_, value));
}

void TensorPart::operator=(const Operand& value) && {
  assign(value);
}
void TensorPart::operator=(const TensorPart& value) && {
  assign(static_cast<const Tensor&>(value));
}
void TensorPart::operator+=(const Operand& other) && {
  const CallScope call("add", site(other));
  assign(lockstep::add(*this, other));
}
void TensorPart::operator-=(const Operand& other) && {
  const CallScope call("sub", site(other));
  assign(lockstep::sub(*this, other));
}
void TensorPart::operator*=(const Operand& other) && {
  const CallScope call("mul", site(other));
  assign(lockstep::mul(*this, other));
}
void TensorPart::operator/=(const Operand& other) && {
  const CallScope call("div", site(other));
  assign(lockstep::div(*this, other));
}

// The outer part lives until the end of the expression, which is as long as the inner one can be assigned to.
TensorPart TensorPart::operator[](const Index& entry) && {
  return std::move(*this)[{entry}];
}
TensorPart TensorPart::operator[](std::initializer_list<Index> entries) && {
  const auto write = [](void* object, const Tensor& value) {
    static_cast<TensorPart*>(object)->assign(value);
  };
  return TensorPart(*this, {this, write}, entries);
}

Tensor Tensor::operator[](const Index& entry) const& {
  return index({entry}, entry.site);
}
Tensor Tensor::operator[](std::initializer_list<Index> entries) const& {
  return index(entries, entries.size() == 0 ? CallSite() : entries.begin()->site);
}
TensorPart Tensor::operator[](const Index& entry) & {
  return TensorPart(*this, {this, write_tensor}, {entry});
}
TensorPart Tensor::operator[](std::initializer_list<Index> entries) & {
  return TensorPart(*this, {this, write_tensor}, entries);
}

}  // namespace v0
}  // namespace lockstep
