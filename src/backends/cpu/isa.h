// Which instruction set the CPU backend uses. One binary holds every variant; the best one that the processor has is
// chosen at run time. All give the same bits. LOCKSTEP_CPU_ISA names a lower one (for tests and bug reports).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {
inline namespace v0 {

/// In ascending order of preference. Sets without a native fma have no variant of their own: they run `scalar`.
/// neon_dot and neon_i8mm are neon but for products of bytes (`sdot`; `smmla` besides): in q8 and in blocked numerics.
/// amx is avx512, with VNNI, but for products of many rows in q8 and in blocked numerics, by tiles of bytes.
enum class Isa : std::uint8_t { scalar, neon, neon_dot, neon_i8mm, avx2, avx512, amx };
inline constexpr Isa kIsas[] = {Isa::scalar, Isa::neon,   Isa::neon_dot, Isa::neon_i8mm,
                                Isa::avx2,   Isa::avx512, Isa::amx};

/// "scalar", "neon", "neon_dot", "neon_i8mm", "avx2", "avx512", "amx".
std::string_view name_of(Isa isa);
/// What this binary holds and this processor runs, ascending; never empty.
const std::vector<Isa>& available_isas();
/// The best available one, or what LOCKSTEP_CPU_ISA says. Read once.
/// Throws ValueError for an unknown name and DeviceError for one that is not available, naming what is.
Isa selected_isa();
/// The rule behind selected_isa(): `requested` is the value of the variable, or empty.
Isa choose_isa(std::string_view requested);
/// The processor's own name, e.g. "AMD EPYC 9B14"; "unknown" where the system does not tell.
std::string processor_name();

}  // namespace v0
}  // namespace lockstep
