// Rules for arrays on the host (HostRule) whose elements are moved and not computed. Each says nothing where it is not
// sure, among that wherever our op would throw.
#pragma once

#include "io/onnx/execution.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

std::optional<std::vector<Value>> reshape_rule(const Call& call);
std::optional<std::vector<Value>> transpose_rule(const Call& call);
std::optional<std::vector<Value>> slice_rule(const Call& call);
std::optional<std::vector<Value>> expand_rule(const Call& call);
std::optional<std::vector<Value>> where_rule(const Call& call);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
