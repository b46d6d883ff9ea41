#include "dist/engines.h"

#include <fmt/format.h>

#include <lockstep/check.h>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

void Engine::exchange_on(const DeviceMemory&, const std::string&, std::span<const Outgoing>,
                         std::span<const Incoming>) {
  LOCKSTEP_ASSERT(false);  // asked reaches() first
}

const char* name_of(EngineKind kind) {
  switch (kind) {
    case EngineKind::tcp: return "tcp";
    case EngineKind::mpi: return "mpi";
    case EngineKind::nccl: return "nccl";
  }
  return "";
}

EngineKind chosen_engine(const std::string& wanted, const Environment& environment, const Launch& launch) {
  const std::optional<std::string> variable = environment("LOCKSTEP_DIST_ENGINE");
  const std::string name = !wanted.empty() ? wanted : variable.value_or("auto");
  if (name == "auto" || name.empty()) {
    const std::optional<std::string> mpi = mpi_of(launch);
    return mpi && has_mpi(*mpi) ? EngineKind::mpi : EngineKind::tcp;
  }
  for (const EngineKind kind : {EngineKind::tcp, EngineKind::mpi, EngineKind::nccl}) {
    if (name == name_of(kind)) return kind;
  }
  fail<ValueError>(
      fmt::format("{} is '{}'", wanted.empty() ? "LOCKSTEP_DIST_ENGINE" : "the engine", name.substr(0, 40)), {},
      "use auto, tcp, mpi or nccl");
}

std::unique_ptr<Engine> connect(EngineKind kind, const Launch& launch, std::chrono::milliseconds deadline) {
  switch (kind) {
    case EngineKind::tcp: return connect_tcp(launch, deadline);
    case EngineKind::mpi: return connect_mpi(launch, deadline);
    case EngineKind::nccl: return connect_nccl(launch, deadline);
  }
  return nullptr;
}

std::vector<EngineInfo> known_engines() {
  return {{.name = "tcp", .version = "built in", .problem = {}}, mpi_info("openmpi"), mpi_info("mpich"), nccl_info()};
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
