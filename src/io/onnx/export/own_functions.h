// The operators of the domain "lockstep": what our ops round as one step and ONNX has no name for. An exported file has
// a function for each that it uses, whose body is of ONNX's operators, so that every runtime answers, a few roundings
// apart; we read the name, and give the same bits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/onnx/export/exported_graph.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

inline constexpr std::string_view kOwnDomain = "lockstep";

struct OwnFunction {
  std::string name;
  std::vector<std::string> inputs;
  std::vector<std::string> attributes;
  std::vector<ExportedNode> body;  ///< The last node makes the output.
};

/// The name of an elementwise op in floats; empty where it has none.
std::string_view own_name(Op op);
/// The function of a name that own_name gave, or of "SumOfProducts", which takes `axes` and keeps them.
OwnFunction own_function(std::string_view name);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
