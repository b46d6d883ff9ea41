// The parser behind load_wav, on bytes in memory; `name` serves messages.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <lockstep/io/wav.h>

namespace lockstep {
inline namespace v0 {
namespace io {

Sound parse_wav(std::string_view name, std::span<const std::byte> bytes);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
