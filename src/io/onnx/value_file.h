// Files that hold one value: TensorProto, SequenceProto and OptionalProto, as ONNX's test data are stored.
#pragma once

#include "io/onnx/model.h"
#include "io/onnx/value.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// The value of a file of this kind. The messages do not say which they are, so the caller does. FormatError for what
/// is malformed; UnsupportedError for sequences of sequences, maps, and element types that tensors do not have.
Value parse_value(const os::FileBytes& file, ValueKind kind);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
