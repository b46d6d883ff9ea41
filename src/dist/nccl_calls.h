// libnccl, opened at run time: no toolkit is needed to build, and none of its headers are used. The few functions and
// constants are declared here, as NCCL 2.18 and later have them.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace nccl {

using Status = int;
struct Opaque;
using Communicator = Opaque*;
struct UniqueId {
  std::array<char, 128> bytes{};
};

constexpr Status kSuccess = 0;
constexpr Status kInProgress = 7;
constexpr int kBytes = 0;  // ncclInt8

/// ncclConfig_t as of version 2.14; NCCL reads `size` bytes of it.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int unused = 0;
};

struct Calls {
  Status (*version)(int*) = nullptr;
  Status (*unique_id)(UniqueId*) = nullptr;
  Status (*init)(Communicator*, int, UniqueId, int, Config*) = nullptr;
  Status (*finalize)(Communicator) = nullptr;
  Status (*destroy)(Communicator) = nullptr;
  Status (*abort)(Communicator) = nullptr;
  Status (*async_error)(Communicator, Status*) = nullptr;
  Status (*group_start)() = nullptr;
  Status (*group_end)() = nullptr;
  Status (*send)(const void*, std::size_t, int, int, Communicator, void*) = nullptr;
  Status (*receive)(void*, std::size_t, int, int, Communicator, void*) = nullptr;
  const char* (*error_text)(Status) = nullptr;
  std::string missing;  ///< why the library cannot be used

  std::string version_text() const;
};

/// This process's libnccl.
const Calls& calls();

}  // namespace nccl
}  // namespace dist
}  // namespace v0
}  // namespace lockstep
