// How contractions follow the thread's NumericsScope. What a user's operands are decides: an op of 16-bit operands that
// multiplies in f32 inside (attention's weights, gradients) opens an InnerNumerics for it.
#pragma once

#include <cstdint>
#include <string>

#include <lockstep/device.h>
#include <lockstep/dtype.h>
#include <lockstep/encoding.h>
#include <lockstep/numerics.h>

namespace lockstep {
inline namespace v0 {
namespace graph {

struct Contract;

/// Of a contraction of dense operands of `dtype` that is made now.
Numerics numerics_of(DType dtype);
/// Of this one, whose right operand has the encoding.
Numerics numerics_of(DType dtype, const Contract& product, Encoding right);

/// What the device lacks that `numerics` need: nothing where it gives them.
std::string missing_for(Numerics numerics, Device device);
/// Throws DeviceError that names it.
void check_numerics(Numerics numerics, Device device);

/// Another state of the thread for a while.
class NumericsExchange {
 public:
  explicit NumericsExchange(std::uint8_t state);
  ~NumericsExchange();
  NumericsExchange(const NumericsExchange&) = delete;
  NumericsExchange& operator=(const NumericsExchange&) = delete;

 private:
  std::uint8_t before_;
};
/// The state, for what is computed again later.
std::uint8_t numerics_state();

/// While it lives all contractions of floats but f64 have `numerics`, whatever scopes the user opened: those inside an
/// op whose operands decided, and those of its gradient. By a dtype, a q8 scope stays: packed operands decide each.
class InnerNumerics : NumericsExchange {
 public:
  explicit InnerNumerics(Numerics numerics);
  explicit InnerNumerics(DType operands);
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
