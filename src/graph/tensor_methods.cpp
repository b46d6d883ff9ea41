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
  const CallScope call("item", site);
  const DType type = dtype();
  const double value = item<double>();
  if (type != DType::i64 && type != DType::u64) return value;
  // The number once more, as the integer it is.
  const bool exact = type == DType::u64
                         ? value < 0x1p64 && static_cast<std::uint64_t>(value) == item<std::uint64_t>()
                         : value < 0x1p63 && static_cast<std::int64_t>(value) == item<std::int64_t>();
  if (!exact) {
    fail<ValueError>("the integer is no double", {{"input", *this}}, "read it as item<std::int64_t>()");
  }
  return value;
}

// --- short for others -----------------------------------------------------------------------------------------------

Tensor Tensor::to(Device device, DType dtype, CallSite site) const {
  const CallScope call("to", site);
  return to(device).to(dtype);
}

Tensor Tensor::clone(CallSite site) const {
  const CallScope call("clone", site);
  check_defined({{"input", *this}});
  return stored(*this);
}

Tensor Tensor::T(CallSite site) const {
  const CallScope call("T", site);
  check_defined({{"input", *this}});
  Dims order;
  for (int d = rank(); d-- > 0;) order.push_back(d);
  return permute(order);
}

Tensor Tensor::t(CallSite site) const {
  const CallScope call("t", site);
  check_defined({{"input", *this}});
  if (rank() > 2) {
    fail<ShapeError>("takes at most two dimensions", {{"input", *this}}, "use mT() for a batch of matrices");
  }
  return T();
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
  const CallScope call("is_leaf", CallSite("", 0));
  check_defined({{"input", *this}});
  return handle_->record == nullptr || handle_->record->is_leaf;
}

Tensor& Tensor::requires_grad_(bool on, CallSite site) {
  const CallScope call("requires_grad_", site);
  check_defined({{"input", *this}});
  if (on == is_tracked(*this)) return *this;
  return *this = on ? lockstep::requires_grad(*this) : lockstep::detach(*this);
}

// --- changes of the handle ------------------------------------------------------------------------------------------

void graph::rebind(Tensor& tensor, const Tensor& value) {
  const std::shared_ptr<Record> old = Access::handle(tensor)->record;
  if (old == nullptr || !old->is_leaf || is_tracked(value)) {
    tensor = value;
    return;
  }
  if (value.shape() != tensor.shape()) {
    fail<ShapeError>("the new value of the leaf has another shape", {{"leaf", tensor}, {"value", value}},
                     "its gradient has the old one; make a new leaf with requires_grad");
  }
  Tensor same = leaf(tensor.name().empty() ? value : value.named(tensor.name()), old->sink);
  Access::handle(same)->record->hooks = old->hooks;
  tensor = std::move(same);
}

// The line is the right operand's: the left one is no argument.
Tensor& Tensor::operator+=(const Operand& other) & {
  const CallScope call("add", other);
  rebind(*this, lockstep::add(*this, other));
  return *this;
}
Tensor& Tensor::operator-=(const Operand& other) & {
  const CallScope call("sub", other);
  rebind(*this, lockstep::sub(*this, other));
  return *this;
}
Tensor& Tensor::operator*=(const Operand& other) & {
  const CallScope call("mul", other);
  rebind(*this, lockstep::mul(*this, other));
  return *this;
}
Tensor& Tensor::operator/=(const Operand& other) & {
  const CallScope call("div", other);
  rebind(*this, lockstep::div(*this, other));
  return *this;
}

}  // namespace v0
}  // namespace lockstep
