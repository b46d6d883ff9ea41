#include "dist/engines.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include <lockstep/check.h>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

std::shared_ptr<const WorkMark> Engine::exchange_on(const DeviceMemory&, const std::string&, std::span<const Outgoing>,
                                                    std::span<const Incoming>) {
  LOCKSTEP_ASSERT(false);  // asked reaches() first
  return nullptr;
}

const char* name_of(EngineKind kind) {
  switch (kind) {
    case EngineKind::tcp: return "tcp";
    case EngineKind::mpi: return "mpi";
    case EngineKind::nccl: return "nccl";
  }
  return "";
}

namespace {

std::string wanted_name(const std::string& wanted, const Environment& environment) {
  const std::string name = !wanted.empty() ? wanted : environment("LOCKSTEP_DIST_ENGINE").value_or("auto");
  return name.empty() ? "auto" : name;
}

std::unique_ptr<Engine> with_nccl_if_all_can(std::unique_ptr<Engine> base, const Launch& launch,
                                             std::chrono::milliseconds deadline) {
  std::vector<NcclAbility> all(static_cast<std::size_t>(launch.size));
  const auto own = static_cast<std::size_t>(launch.rank);
  all[own] = nccl_ability(launch);
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (int other = 0; other < launch.size; ++other) {
    if (other == launch.rank) continue;
    outgoing.push_back({other, std::as_bytes(std::span(all).subspan(own, 1))});
    incoming.push_back({other, std::as_writable_bytes(std::span(all).subspan(static_cast<std::size_t>(other), 1))});
  }
  base->exchange("dist::init: who can use NCCL", outgoing, incoming);
  return can_use_nccl(all) ? nccl_over(std::move(base), launch, deadline) : std::move(base);
}

}  // namespace

bool is_auto(const std::string& wanted, const Environment& environment) {
  return wanted_name(wanted, environment) == "auto";
}

bool can_use_nccl(std::span<const NcclAbility> ranks) {
  std::set<std::uint64_t> gpus;
  for (const NcclAbility& rank : ranks) {
    if (rank.gpu == 0 || rank.version != ranks[0].version || !gpus.insert(rank.gpu).second) return false;
  }
  return true;
}

EngineKind chosen_engine(const std::string& wanted, const Environment& environment, const Launch& launch) {
  const std::string name = wanted_name(wanted, environment);
  if (name == "auto") {
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

std::unique_ptr<Engine> connect(EngineKind kind, const Launch& launch, std::chrono::milliseconds deadline,
                                bool may_use_nccl) {
  if (kind == EngineKind::nccl) {
    check_nccl();
    return nccl_over(connect_tcp(launch, deadline), launch, deadline);
  }
  std::unique_ptr<Engine> base =
      kind == EngineKind::mpi ? connect_mpi(launch, deadline) : connect_tcp(launch, deadline);
  return may_use_nccl ? with_nccl_if_all_can(std::move(base), launch, deadline) : std::move(base);
}

std::vector<EngineInfo> known_engines() {
  return {{.name = "tcp", .version = "built in", .problem = {}}, mpi_info("openmpi"), mpi_info("mpich"), nccl_info()};
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
