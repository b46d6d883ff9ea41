// What a hub says of a file, and its content into a file of the cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/error.h>

#include "io/hub/cache.h"

namespace lockstep {
inline namespace v0 {
namespace io {

/// The repository has no such file.
class NotOnHub : public IoError {
 public:
  using IoError::IoError;
};

struct HubAnswer {
  std::string commit;
  std::string etag;  ///< of the content
  std::string url;   ///< where it is
  std::optional<std::uint64_t> bytes;
};

/// Asks the hub. Nothing where it cannot be reached, with the reason in `problem`; IoError where it refuses,
/// NotOnHub where it has no such file.
std::optional<HubAnswer> ask_hub(const HubEntry& entry, const HubOptions& options, std::string& problem);

/// Makes the file `blob` of the content, unless it is there. One process at a time: others wait at the lock.
void download(const HubEntry& entry, const HubAnswer& answer, const std::string& blob, const std::string& lock,
              const HubOptions& options);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
