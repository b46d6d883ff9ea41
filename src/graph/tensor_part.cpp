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

constexpr const char* kAssign = "x[...] = value";

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
Tensor spread(const Operand& value, const Tensor& whole, const Tensor& part, CallSite site) {
  if (value.is_scalar()) {
    return full(part.shape(), value.scalar(), {.dtype = whole.dtype(), .device = whole.device()}, site);
  }
  const std::vector<Shown> shown{{"x", whole}, {"value", value}};
  check_same_device(kAssign, shown, site);
  check_same_dtype(kAssign, shown, site);
  Tensor given = value.tensor();
  while (given.rank() > part.rank() && given.shape()[0] == 1) given = given.squeeze(0, site);
  if (given.shape() == part.shape()) return given;
  const bool fits = given.rank() <= part.rank() && [&] {
    for (int d = 1; d <= given.rank(); ++d) {
      const std::int64_t size = given.shape()[given.rank() - d];
      if (size != 1 && size != part.shape()[part.rank() - d]) return false;
    }
    return true;
  }();
  if (!fits) {
    fail<ShapeError>(kAssign, fmt::format("the value does not broadcast to the part {}", part.shape().to_string()),
                     shown, "", site);
  }
  return given.expand(part.shape(), site);
}

// `whole` with the part x[entries] replaced.
Tensor put(const Tensor& whole, const std::vector<Index>& entries, const Operand& value, CallSite site) {
  check_defined(kAssign, {{"x", whole}, {"value", value}}, site);
  Steps steps = steps_of(entries);
  // The region is found over a stand-in with the whole's dense elements, whatever the whole itself is a view of.
  const Tensor dense = Access::tensor(make_node(Iota{}, {}, whole.shape(), DType::i64, whole.device(), site));
  const Tensor region = steps.view.empty() ? dense : dense.index(steps.view, site);
  Tensor part;
  if (steps.plain) {
    part = spread(value, whole, region, site);
  } else {
    const int passed = region.rank() - steps.dims;  // by an ellipsis; dimensions at the end need no entry
    steps.picks.insert(steps.picks.begin() + static_cast<std::ptrdiff_t>(steps.ellipsis),
                       static_cast<std::size_t>(steps.has_ellipsis ? passed : 0), std::nullopt);
    part = index_put(Operand(whole.index(steps.view, site), site), steps.picks, value);
  }
  return region.numel() == 0 ? whole : update(whole, read(region).view, part, site);
}

void write_tensor(void* object, const Tensor& value, CallSite site) {
  rebind(*static_cast<Tensor*>(object), value, site);
}

}  // namespace

TensorPart::TensorPart(const Tensor& whole, Target target, std::vector<Index> entries)
    : Tensor(whole.index(entries, entries.empty() ? CallSite() : entries.front().site)),
      whole_(whole),
      target_(target),
      entries_(std::move(entries)) {}

void TensorPart::assign(const Operand& value) {
  target_.write(target_.object, put(whole_, entries_, value, site()), site());
}

void TensorPart::operator=(const Operand& value) && {
  assign(value);
}
void TensorPart::operator=(const TensorPart& value) && {
  assign(Operand(value, site()));
}
void TensorPart::operator+=(const Operand& other) && {
  assign(lockstep::add(Operand(*this, site()), other));
}
void TensorPart::operator-=(const Operand& other) && {
  assign(lockstep::sub(Operand(*this, site()), other));
}
void TensorPart::operator*=(const Operand& other) && {
  assign(lockstep::mul(Operand(*this, site()), other));
}
void TensorPart::operator/=(const Operand& other) && {
  assign(lockstep::div(Operand(*this, site()), other));
}

// The outer part lives until the end of the expression, which is as long as the inner one can be assigned to.
TensorPart TensorPart::operator[](const Index& entry) && {
  return std::move(*this)[{entry}];
}
TensorPart TensorPart::operator[](std::initializer_list<Index> entries) && {
  const auto write = [](void* object, const Tensor& value, CallSite site) {
    static_cast<TensorPart*>(object)->assign(Operand(value, site));
  };
  return TensorPart(*this, {this, write}, entries);
}

Tensor Tensor::operator[](const Index& entry) const {
  return index({entry}, entry.site);
}
Tensor Tensor::operator[](std::initializer_list<Index> entries) const {
  return index(entries, entries.size() == 0 ? CallSite() : entries.begin()->site);
}
TensorPart Tensor::operator[](const Index& entry) {
  return TensorPart(*this, {this, write_tensor}, {entry});
}
TensorPart Tensor::operator[](std::initializer_list<Index> entries) {
  return TensorPart(*this, {this, write_tensor}, entries);
}

}  // namespace v0
}  // namespace lockstep
