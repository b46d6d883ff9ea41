// The wire format of protocol buffers, as ONNX files are written in it: a message is a list of numbered fields, each a
// number or a run of bytes. Fields are handed out one by one, checked against the bytes that are there; groups, which
// ONNX does not use, are refused.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/checked.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// The wire types that ONNX's fields have.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// A part of a file, with its place in it.
struct Bytes {
  std::span<const std::byte> bytes;
  std::uint64_t offset = 0;

  std::string_view text() const { return text_of(bytes); }
  bool empty() const { return bytes.empty(); }
};

struct Field {
  std::uint32_t number = 0;
  Wire wire = Wire::varint;
  std::uint64_t value = 0;  ///< Of a varint or a fixed number.
  Bytes content;            ///< Of a field of bytes.
};

/// A number of 1 to 10 bytes. FormatError if it is longer, or more than 64 bits.
std::uint64_t read_varint(ByteReader& reader);

/// The fields of one message, in the file's order.
class MessageReader {
 public:
  /// `file` and `what`, which name file and message in errors, must live as long.
  MessageReader(std::string_view file, Bytes message, std::string_view what)
      : reader_(file, message.bytes, message.offset), what_(what) {}

  /// False behind the last field.
  bool next(Field& field);

  // A field as what it has to be; FormatError if it is of another wire type. The singular ones also refuse a second
  // field of the same number: readers differ in which one they take.
  std::int64_t integer(const Field& field);
  float number(const Field& field);
  std::string_view text(const Field& field);
  Bytes message(const Field& field);
  // Fields that may repeat.
  std::string_view repeated_text(const Field& field) const;
  Bytes repeated_message(const Field& field) const;

  [[noreturn]] void fail(std::string_view message) const;

 private:
  void only_once(const Field& field);
  void expect(const Field& field, Wire wire) const;

  ByteReader reader_;
  std::string_view what_;
  std::uint64_t seen_ = 0;
};

/// Calls visit(bits) for every number of a repeated field, packed or not. `wire` is that of one number.
template <typename Visit>
void for_each_number(std::string_view file, const Field& field, Wire wire, const Visit& visit) {
  if (field.wire == wire) {
    visit(field.value);
    return;
  }
  ByteReader reader(file, field.content.bytes, field.content.offset);
  if (field.wire != Wire::bytes) reader.fail("a list of numbers is of a wrong wire type");
  while (!reader.at_end()) {
    if (wire == Wire::varint) {
      visit(read_varint(reader));
    } else if (wire == Wire::fixed32) {
      visit(std::uint64_t{reader.u32("a number of 4 bytes")});
    } else {
      visit(reader.u64("a number of 8 bytes"));
    }
  }
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
