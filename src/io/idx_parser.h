// The parser behind load_idx, on bytes in memory; `name` serves messages.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <lockstep/io/idx.h>

namespace lockstep {
inline namespace v0 {
namespace io {

Tensor parse_idx(std::string_view name, std::span<const std::byte> bytes);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
