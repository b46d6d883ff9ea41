// How the processes of a group find each other: all call rank 0, which tells each where the others listen; then the one
// of the higher rank calls the other.
#pragma once

#include <vector>

#include "core/os_socket.h"
#include "dist/launch.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

/// A connection with each rank, by rank; none with oneself. Throws DistributedError if ranks are missing at the
/// deadline, or do not know the secret.
std::vector<os::Socket> meet(const Launch& launch, os::Deadline deadline);

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
