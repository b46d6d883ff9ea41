// The wire format of protocol buffers, as far as ONNX files are written in it: the counterpart of io/onnx/wire.h.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// One message, field by field.
class MessageWriter {
 public:
  void integer(std::uint32_t field, std::int64_t value) {
    tag(field, 0);
    varint(static_cast<std::uint64_t>(value));
  }
  void number(std::uint32_t field, float value) {
    tag(field, 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(bits >> shift & 0xffu);
  }
  /// A text, bytes, or a message that is complete.
  void text(std::uint32_t field, std::string_view value) {
    header(field, value.size());
    bytes_ += value;
  }
  void message(std::uint32_t field, const MessageWriter& value) { text(field, value.bytes()); }
  void integers(std::uint32_t field, std::span<const std::int64_t> values) {
    MessageWriter packed;
    for (const std::int64_t value : values) packed.varint(static_cast<std::uint64_t>(value));
    message(field, packed);
  }
  /// The beginning of a field of `size` bytes, which follow elsewhere.
  void header(std::uint32_t field, std::uint64_t size) {
    tag(field, 2);
    varint(size);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(std::uint32_t field, std::uint32_t wire) { varint(std::uint64_t{field} << 3 | wire); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7fu) | 0x80u);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
