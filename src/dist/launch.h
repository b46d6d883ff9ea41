// What a launcher told this process in its environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace lockstep {
inline namespace v0 {
namespace dist {

struct Launch {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string launcher;  ///< "openmpi", "torchrun", ...: whose variables these are; empty for none
  std::string address;   ///< where rank 0 listens
  int port = 0;
  std::string secret;
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// Throws ValueError if the variables of a launcher are incomplete, are no numbers, or say something else than those of
/// another one (LOCKSTEP_LAUNCHER names the one to follow).
Launch launch_of(const Environment& environment);
/// Without what ranks need to meet by TCP: address, port and secret are empty.
Launch told_launch(const Environment& environment);

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
