// Which engine a group has: the one that was asked for, or, where none was, the launcher's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dist/engine.h"
#include "dist/launch.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

enum class EngineKind : std::uint8_t { tcp, mpi, nccl };
const char* name_of(EngineKind kind);

/// `wanted`: GroupOptions::engine; where that is empty LOCKSTEP_DIST_ENGINE counts. Both "tcp", "mpi", "nccl" or
/// "auto": MPI where an MPI has started this process and there is a plug-in for it, else TCP. ValueError for another
/// name.
EngineKind chosen_engine(const std::string& wanted, const Environment& environment, const Launch& launch);
/// Whether that choice is left to us.
bool is_auto(const std::string& wanted, const Environment& environment);
/// `may_use_nccl`: over it NCCL, where every rank can use it.
std::unique_ptr<Engine> connect(EngineKind kind, const Launch& launch, std::chrono::milliseconds deadline,
                                bool may_use_nccl = false);

/// What a rank says of itself before NCCL is chosen.
struct NcclAbility {
  std::uint64_t gpu = 0;  ///< a number of its GPU and machine; 0: it has none, or no NCCL
  std::uint64_t version = 0;
};
/// Whether each of several ranks has a GPU to itself, and all have one version.
bool can_use_nccl(std::span<const NcclAbility> ranks);

/// For `lockstep info`: each engine, with its version, or why it cannot be used.
struct EngineInfo {
  std::string name;
  std::string version;  ///< empty where it cannot be used
  std::string problem;
};
std::vector<EngineInfo> known_engines();

// Of the plug-ins of MPI (dist/mpi.cpp).
/// "openmpi" or "mpich", by the variables that the launcher left; nothing where it was no MPI.
std::optional<std::string> mpi_of(const Launch& launch);
bool has_mpi(const std::string& implementation);
EngineInfo mpi_info(const std::string& implementation);
EngineInfo nccl_info();
NcclAbility nccl_ability(const Launch& launch);
/// ValueError says why NCCL cannot be used here.
void check_nccl();

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
