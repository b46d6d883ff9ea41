#include "io/onnx/wire.h"

#include <bit>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

std::uint64_t read_varint(ByteReader& reader) {
  std::uint64_t value = 0;
  for (int i = 0; i < 10; ++i) {
    const std::uint8_t byte = reader.u8("a number");
    if (i == 9 && byte > 1) break;
    value |= std::uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) return value;
  }
  reader.fail("a number of more than 64 bits");
}

bool MessageReader::next(Field& field) {
  if (reader_.at_end()) return false;
  const std::uint64_t tag = read_varint(reader_);
  const std::uint64_t number = tag >> 3;
  if (number == 0 || number > 0x1fffffff) fail(fmt::format("has a field of number {}", number));
  field = {.number = static_cast<std::uint32_t>(number)};
  switch (tag & 7) {
    case 0:
      field.wire = Wire::varint;
      field.value = read_varint(reader_);
      return true;
    case 1:
      field.wire = Wire::fixed64;
      field.value = reader_.u64("a number of 8 bytes");
      return true;
    case 2: {
      field.wire = Wire::bytes;
      const std::uint64_t size = read_varint(reader_);
      field.content.offset = reader_.offset();
      field.content.bytes = reader_.take(size, what_);
      return true;
    }
    case 5:
      field.wire = Wire::fixed32;
      field.value = reader_.u32("a number of 4 bytes");
      return true;
    default: fail(fmt::format("has a field of wire type {}, which ONNX does not use", tag & 7));
  }
}

std::int64_t MessageReader::integer(const Field& field) {
  only_once(field);
  expect(field, Wire::varint);
  return static_cast<std::int64_t>(field.value);
}
float MessageReader::number(const Field& field) {
  only_once(field);
  expect(field, Wire::fixed32);
  return std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
}
std::string_view MessageReader::text(const Field& field) {
  only_once(field);
  return repeated_text(field);
}
Bytes MessageReader::message(const Field& field) {
  only_once(field);
  return repeated_message(field);
}
std::string_view MessageReader::repeated_text(const Field& field) const {
  expect(field, Wire::bytes);
  return field.content.text();
}
Bytes MessageReader::repeated_message(const Field& field) const {
  expect(field, Wire::bytes);
  return field.content;
}

void MessageReader::fail(std::string_view message) const {
  reader_.fail(fmt::format("{} {}", what_, message));
}

void MessageReader::only_once(const Field& field) {
  const std::uint64_t bit = std::uint64_t{1} << (field.number & 63);
  if ((seen_ & bit) != 0) fail(fmt::format("has field {} twice", field.number));
  seen_ |= bit;
}

void MessageReader::expect(const Field& field, Wire wire) const {
  if (field.wire != wire) fail(fmt::format("has field {} as wire type {}", field.number, static_cast<int>(field.wire)));
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
