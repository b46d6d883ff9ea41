// Tensor's methods: those of tensor_methods.def, which are the free functions, what is short for a few of them, and the
// changes of a handle.
#include <lockstep/ops.h>

#include <lockstep/autograd.h>

#include "graph/make.h"
#include "graph/rebind.h"
#include "graph/tape.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

#define LOCKSTEP_PARAMETERS(...) __VA_ARGS__ __VA_OPT__(, )
#define LOCKSTEP_ARGUMENTS(...) __VA_OPT__(, ) __VA_ARGS__
#define LOCKSTEP_OR(...)
#define LOCKSTEP_METHOD(result, name, parameters, arguments)                  \
  result Tensor::name(LOCKSTEP_PARAMETERS parameters CallSite site) const {   \
    return lockstep::name(Operand(*this, site) LOCKSTEP_ARGUMENTS arguments); \
  }
#include <lockstep/tensor_methods.def>
#undef LOCKSTEP_METHOD
#undef LOCKSTEP_OR
#undef LOCKSTEP_ARGUMENTS
#undef LOCKSTEP_PARAMETERS

// --- numbers --------------------------------------------------------------------------------------------------------

Tensor Tensor::of_float(double number, CallSite site) {
  return full({}, number, {}, site);
}
Tensor Tensor::of_bool(bool number, CallSite site) {
  return full({}, number ? 1 : 0, {.dtype = DType::boolean}, site);
}
Tensor Tensor::of_integer(std::int64_t number, CallSite site) {
  return from_bytes(&number, sizeof number, {}, DType::i64, default_device(), site);
}

double Tensor::item(CallSite site) const {
  const DType type = dtype();
  if (is_float(type) || size_of(type) < 8 || type == DType::complex64) return item<double>(site);
  const double value = item<double>(site);
  // The number once more, as the integer it is.
  const bool exact = type == DType::u64
                         ? value < 0x1p64 && static_cast<std::uint64_t>(value) == item<std::uint64_t>(site)
                         : value < 0x1p63 && static_cast<std::int64_t>(value) == item<std::int64_t>(site);
  if (!exact) {
    fail<ValueError>("item", "the integer is no double", {{"input", *this}}, "read it as item<std::int64_t>()", site);
  }
  return value;
}

// --- short for others -----------------------------------------------------------------------------------------------

Tensor Tensor::to(Device device, DType dtype, CallSite site) const {
  return to(device, site).to(dtype, site);
}

Tensor Tensor::clone(CallSite site) const {
  check_defined("clone", {{"input", *this}}, site);
  return stored(*this, site);
}

Tensor Tensor::T(CallSite site) const {
  check_defined("T", {{"input", *this}}, site);
  Dims order;
  for (int d = rank(); d-- > 0;) order.push_back(d);
  return permute(order, site);
}

Tensor Tensor::t(CallSite site) const {
  check_defined("t", {{"input", *this}}, site);
  if (rank() > 2) {
    fail<ShapeError>("t", "takes at most two dimensions", {{"input", *this}}, "use mT() for a batch of matrices", site);
  }
  return T(site);
}

Tensor Tensor::mT(CallSite site) const {
  return transpose(-2, -1, site);
}
Tensor Tensor::cpu(CallSite site) const {
  return to(Device{}, site);
}
Tensor Tensor::cuda(int index, CallSite site) const {
  return to(Device{DeviceKind::cuda, index}, site);
}
Tensor Tensor::view_as(const Tensor& other, CallSite site) const {
  return view(other.shape(), site);
}
Tensor Tensor::reshape_as(const Tensor& other, CallSite site) const {
  return reshape(other.shape(), site);
}
Tensor Tensor::expand_as(const Tensor& other, CallSite site) const {
  return expand(other.shape(), site);
}
Tensor Tensor::type_as(const Tensor& other, CallSite site) const {
  return to(other.dtype(), site);
}

// --- gradients ------------------------------------------------------------------------------------------------------

void Tensor::backward(CallSite site) const {
  lockstep::backward(*this, {}, site);
}
void Tensor::backward(const Tensor& seed, CallSite site) const {
  lockstep::backward(*this, {.seed = seed}, site);
}
void Tensor::backward(const GradientOptions& options, CallSite site) const {
  lockstep::backward(*this, options, site);
}
Tensor Tensor::detach(CallSite site) const {
  return lockstep::detach(*this, site);
}
Tensor Tensor::grad(CallSite site) const {
  return lockstep::grad(*this, site);
}
void Tensor::zero_grad(CallSite site) const {
  lockstep::zero_grad(*this, site);
}
bool Tensor::requires_grad() const {
  return is_tracked(*this);
}

bool Tensor::is_leaf() const {
  check_defined("is_leaf", {{"input", *this}}, {});
  return handle_->record == nullptr || handle_->record->is_leaf;
}

Tensor& Tensor::requires_grad_(bool on, CallSite site) {
  check_defined("requires_grad_", {{"input", *this}}, site);
  if (on == is_tracked(*this)) return *this;
  return *this = on ? lockstep::requires_grad(*this, site) : lockstep::detach(*this, site);
}

// --- changes of the handle ------------------------------------------------------------------------------------------

void graph::rebind(Tensor& tensor, const Tensor& value, CallSite site) {
  const std::shared_ptr<Record> old = Access::handle(tensor)->record;
  if (old == nullptr || !old->is_leaf || is_tracked(value)) {
    tensor = value;
    return;
  }
  if (value.shape() != tensor.shape()) {
    fail<ShapeError>("change of a leaf", "the new value has another shape", {{"leaf", tensor}, {"value", value}},
                     "its gradient has the old one; make a new leaf with requires_grad", site);
  }
  Tensor same = leaf(tensor.name().empty() ? value : value.named(tensor.name()), old->sink, site);
  Access::handle(same)->record->hooks = old->hooks;
  tensor = std::move(same);
}

Tensor& Tensor::operator+=(const Operand& other) {
  rebind(*this, lockstep::add(Operand(*this, other.site()), other), other.site());
  return *this;
}
Tensor& Tensor::operator-=(const Operand& other) {
  rebind(*this, lockstep::sub(Operand(*this, other.site()), other), other.site());
  return *this;
}
Tensor& Tensor::operator*=(const Operand& other) {
  rebind(*this, lockstep::mul(Operand(*this, other.site()), other), other.site());
  return *this;
}
Tensor& Tensor::operator/=(const Operand& other) {
  rebind(*this, lockstep::div(Operand(*this, other.site()), other), other.site());
  return *this;
}

}  // namespace v0
}  // namespace lockstep
