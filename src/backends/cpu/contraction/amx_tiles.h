// What kernels that use AMX's tiles of bytes share.
#pragma once

#include <cstdint>

#define LOCKSTEP_AMX __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma,amx-tile,amx-int8")))

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// What `_tile_loadconfig` reads.
struct alignas(64) TileSizes {
  std::uint8_t palette = 1;
  std::uint8_t first_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t row_count[16] = {};

  constexpr void set(int tile, int rows, int bytes) {
    row_count[tile] = static_cast<std::uint8_t>(rows);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
};

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
