// Protocol buffers, as far as recognising files takes: ONNX models and TensorFlow's graphs have no magic, but their
// outermost message has few kinds of fields, and ends where the file ends.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace io {

enum class WireType : std::uint8_t { varint = 0, bytes = 2 };

struct ProtobufField {
  std::uint32_t number;
  WireType type;
  bool required = false;
};

/// Whether the bytes are one message of these fields, each required one among them. Looks at the outermost level only,
/// and at no more than 65,536 fields.
bool is_protobuf(std::string_view bytes, std::span<const ProtobufField> fields);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
