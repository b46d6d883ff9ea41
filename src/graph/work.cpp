#include <lockstep/work.h>

#include "graph/window.h"

namespace lockstep {
inline namespace v0 {

WorkStatistics work_statistics(Device device) {
  const graph::WindowStatistics statistics = graph::window_statistics(device);
  return {statistics.kernels, statistics.bytes};
}

}  // namespace v0
}  // namespace lockstep
