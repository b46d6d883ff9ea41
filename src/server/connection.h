// Whether somebody still waits for an answer.
#pragma once

#include <functional>

namespace lockstep {
inline namespace v0 {
namespace server {

/// Asks whether the client of the connection between these ports has closed it, or its side of it. To be asked only while the
/// connection is this process's; where it is not found, the client is taken to be there.
std::function<bool()> client_of(int own_port, int other_port);

}  // namespace server
}  // namespace v0
}  // namespace lockstep
