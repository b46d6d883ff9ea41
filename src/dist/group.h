// What a group is made of, for tests that make one without an environment.
#pragma once

#include <lockstep/dist.h>

#include "dist/launch.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

struct GroupAccess {
  static Group make(const Launch& launch, const GroupOptions& options = {});
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
