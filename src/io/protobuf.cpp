#include "io/protobuf.h"

#include <algorithm>
#include <optional>

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr int kMostFields = 65'536;

// Takes a varint of up to 64 bits from the front; nothing if there is none.
std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    value |= std::uint64_t{byte & 0x7fu} << (7 * i);
    if (byte >= 0x80) continue;
    bytes.remove_prefix(i + 1);
    return value;
  }
  return std::nullopt;
}

}  // namespace

bool is_protobuf(std::string_view bytes, std::span<const ProtobufField> fields) {
  std::uint64_t seen = 0;  // a bit per row of `fields`
  for (int count = 0; !bytes.empty(); ++count) {
    const std::optional<std::uint64_t> tag = take_varint(bytes);
    if (!tag || count == kMostFields) return false;
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const ProtobufField& f) {
      return *tag == (std::uint64_t{f.number} << 3 | static_cast<std::uint64_t>(f.type));
    });
    if (field == fields.end()) return false;
    seen |= std::uint64_t{1} << (field - fields.begin());
    const std::optional<std::uint64_t> value = take_varint(bytes);  // of a varint field, or the length of bytes
    if (!value) return false;
    if (field->type == WireType::varint) continue;
    if (*value > bytes.size()) return false;
    bytes.remove_prefix(*value);
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].required && (seen >> i & 1) == 0) return false;
  }
  return true;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
