// The table of ONNX operators: all families' rows, found by domain, name and version.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "io/onnx/operator.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// The row for a node; null if there is none. A version above kNewestVersion of the default domain has no rows.
const Operator* find_operator(std::string_view domain, std::string_view name, int version);
/// Whether any version of the operator has a row.
bool knows_operator(std::string_view domain, std::string_view name);
/// All rows, in the order of the families.
std::vector<const Operator*> all_operators();

// The families, one file of ops/ each.
std::span<const Operator> attention_operators();
std::span<const Operator> cast_operators();
std::span<const Operator> constant_operators();
std::span<const Operator> contrib_operators();
std::span<const Operator> contrib_attention_operators();
std::span<const Operator> contrib_quantized_operators();
std::span<const Operator> control_flow_operators();
std::span<const Operator> convolution_operators();
std::span<const Operator> elementwise_operators();
std::span<const Operator> host_operators();
std::span<const Operator> indexing_operators();
std::span<const Operator> loss_operators();
std::span<const Operator> normalization_operators();
std::span<const Operator> own_operators();
std::span<const Operator> pooling_operators();
std::span<const Operator> quantization_operators();
std::span<const Operator> random_operators();
std::span<const Operator> recurrent_operators();
std::span<const Operator> reduction_operators();
std::span<const Operator> resize_operators();
std::span<const Operator> sequence_operators();
std::span<const Operator> shape_arithmetic_operators();
std::span<const Operator> signal_operators();
std::span<const Operator> streaming_operators();
std::span<const Operator> detection_operators();
std::span<const Operator> view_operators();

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
