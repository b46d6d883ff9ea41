// Unpacks gzip files (RFC 1952) of one member.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace io {

/// Whether the bytes begin as a gzip file does.
bool is_gzip(std::span<const std::byte> bytes);

/// The first `limit` bytes of the content, or all of it if there are fewer; only then the checksum and what follows are
/// looked at. Memory grows with what is really unpacked. `name` serves messages. Throws FormatError.
std::vector<std::byte> gunzip(std::string_view name, std::span<const std::byte> packed, std::size_t limit);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
