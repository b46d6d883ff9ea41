// Operators whose result is stated in the node itself, or is their input.
#include "io/onnx/operators.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

std::vector<Value> identity(const Call& call) {
  return {call.value(0)};
}

constexpr Operator kConstantOperators[] = {
    {.name = "Identity", .run_values = identity},
};

}  // namespace

std::span<const Operator> constant_operators() {
  return kConstantOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
