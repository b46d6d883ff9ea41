// The C++ type of the row, before everything else.
#pragma once

#include <cstdint>

namespace lockstep {
inline namespace v0 {

struct Float8E3M4 {
  std::uint8_t bits = 0;
};

}  // namespace v0
}  // namespace lockstep
