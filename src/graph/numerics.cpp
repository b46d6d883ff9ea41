#include "graph/numerics.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include <lockstep/check.h>

namespace lockstep {
inline namespace v0 {
namespace {

// What a thread's contractions follow: exact; others where operands have 16 bits; those in f32, too.
enum State : std::uint8_t { kExact, kBlocked, kBlockedInside, kFast, kFastInside };

thread_local constinit std::uint8_t numerics_now = kExact;

}  // namespace

const char* name_of(Numerics numerics) {
  switch (numerics) {
    case Numerics::exact: return "exact";
    case Numerics::blocked: return "blocked";
    case Numerics::fast: break;
  }
  return "fast";
}

Numerics numerics_from_name(std::string_view name) {
  if (name == "exact") return Numerics::exact;
  if (name == "blocked") return Numerics::blocked;
  if (name == "fast") return Numerics::fast;
  throw ValueError(fmt::format("there are no numerics \"{}\"\n  fix: \"exact\", \"blocked\" or \"fast\"", name));
}

NumericsScope::NumericsScope(Numerics numerics, CallSite site) : before_(numerics_now) {
  const CallScope call("NumericsScope", site);
  switch (numerics) {
    case Numerics::exact: numerics_now = kExact; return;
    case Numerics::blocked: numerics_now = kBlocked; return;
    case Numerics::fast: numerics_now = kFast; return;
  }
  fail<ValueError>(fmt::format("there are no numerics of number {}", static_cast<int>(numerics)), {},
                   "use Numerics::exact, Numerics::blocked or Numerics::fast");
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
    default: return Numerics::exact;
  }
}

namespace graph {

Numerics numerics_of(DType dtype) {
  const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
  const bool inside = numerics_now == kBlockedInside || numerics_now == kFastInside;
  return narrow || (dtype == DType::f32 && inside) ? current_numerics() : Numerics::exact;
}

NumericsExchange::NumericsExchange(std::uint8_t state) : before_(std::exchange(numerics_now, state)) {}
NumericsExchange::~NumericsExchange() {
  numerics_now = before_;
}

std::uint8_t numerics_state() {
  return numerics_now;
}

InnerNumerics::InnerNumerics(Numerics numerics)
    : NumericsExchange(numerics == Numerics::blocked ? kBlockedInside
                       : numerics == Numerics::fast  ? kFastInside
                                                     : kExact) {}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
