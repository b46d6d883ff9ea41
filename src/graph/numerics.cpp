#include "graph/numerics.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include <lockstep/check.h>

#include "backends/backend.h"
#include "graph/primitive.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace {

// What a thread's contractions follow: exact; others where operands have 16 bits (fast also where weights have 8);
// those in f32, too; q8 where one is packed.
enum State : std::uint8_t { kExact, kBlocked, kBlockedInside, kFast, kFastInside, kQ8 };

thread_local constinit std::uint8_t numerics_now = kExact;

std::uint8_t state_inside(Numerics numerics) {
  return numerics == Numerics::blocked ? kBlockedInside : numerics == Numerics::fast ? kFastInside : kExact;
}

}  // namespace

const char* name_of(Numerics numerics) {
  switch (numerics) {
    case Numerics::exact: return "exact";
    case Numerics::blocked: return "blocked";
    case Numerics::fast: return "fast";
    case Numerics::q8: break;
  }
  return "q8";
}

Numerics numerics_from_name(std::string_view name) {
  if (name == "exact") return Numerics::exact;
  if (name == "blocked") return Numerics::blocked;
  if (name == "fast") return Numerics::fast;
  if (name == "q8") return Numerics::q8;
  throw ValueError(
      fmt::format("there are no numerics \"{}\"\n  fix: \"exact\", \"blocked\", \"fast\" or \"q8\"", name));
}

NumericsScope::NumericsScope(Numerics numerics, CallSite site) : before_(numerics_now) {
  const CallScope call("NumericsScope", site);
  switch (numerics) {
    case Numerics::exact: numerics_now = kExact; return;
    case Numerics::blocked: numerics_now = kBlocked; return;
    case Numerics::fast: numerics_now = kFast; return;
    case Numerics::q8: numerics_now = kQ8; return;
  }
  fail<ValueError>(fmt::format("there are no numerics of number {}", static_cast<int>(numerics)), {},
                   "use Numerics::exact, Numerics::blocked, Numerics::fast or Numerics::q8");
}

NumericsScope::NumericsScope(Numerics numerics, Device device, CallSite site) : NumericsScope(numerics, site) {
  const CallScope call("NumericsScope", site);
  graph::check_numerics(numerics, device);
}

NumericsScope::~NumericsScope() {
  numerics_now = before_;
}

Numerics current_numerics() {
  switch (numerics_now) {
    case kBlocked:
    case kBlockedInside: return Numerics::blocked;
    case kFast:
    case kFastInside: return Numerics::fast;
    case kQ8: return Numerics::q8;
    default: return Numerics::exact;
  }
}

namespace graph {

std::string missing_for(Numerics numerics, Device device) {
  if (numerics != Numerics::fast) return "";
  const Backend& backend = backend_of(device);
  std::string missing = backend.missing_for_fast();
  return missing.empty() ? backend.missing_for_fast_convolutions() : missing;
}

void check_numerics(Numerics numerics, Device device) {
  const std::string missing = missing_for(numerics, device);
  check<DeviceError>(missing.empty(), fmt::format("fast numerics on {}: {}", device.to_string(), missing), {},
                     "Numerics::blocked or exact, which every device has");
}

Numerics numerics_of(DType dtype) {
  const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
  const bool inside = numerics_now == kBlockedInside || numerics_now == kFastInside;
  const bool by_dtype = numerics_now != kQ8 && (narrow || (dtype == DType::f32 && inside));
  return by_dtype ? current_numerics() : Numerics::exact;
}

Numerics numerics_of(DType dtype, const Contract& product, Encoding right) {
  const int b = product.b.rank();
  const int k = product.k.rank();
  if (numerics_now == kQ8)
    return dtype == DType::f32 && has_q8_form(right, product.b_view, b, k) ? Numerics::q8 : Numerics::exact;
  const bool is_fast = numerics_now == kFast || numerics_now == kFastInside;
  return is_fast && has_fast_form(right, product.b_view, b, k) ? Numerics::fast : numerics_of(dtype);
}

NumericsExchange::NumericsExchange(std::uint8_t state) : before_(std::exchange(numerics_now, state)) {}
NumericsExchange::~NumericsExchange() {
  numerics_now = before_;
}

std::uint8_t numerics_state() {
  return numerics_now;
}

InnerNumerics::InnerNumerics(Numerics numerics) : NumericsExchange(state_inside(numerics)) {}
InnerNumerics::InnerNumerics(DType operands)
    : NumericsExchange(numerics_now == kQ8 ? std::uint8_t{kQ8} : state_inside(numerics_of(operands))) {}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
