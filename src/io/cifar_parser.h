// The parser behind CifarFile::load, on bytes in memory; `name` serves messages.
#pragma once

#include <span>
#include <string_view>

#include <lockstep/io/cifar.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace io {

CifarFile parse_cifar(std::string_view name, std::span<const std::byte> bytes);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
