// An op by its PyTorch name, called with the inputs and attributes of a recorded case.
#pragma once

#include <vector>

#include "cli/case_file.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

struct RecordedOp {
  const char* name;
  /// Whether the op only moves or selects values, so that results are equal and not merely near.
  bool moves;
  std::vector<Tensor> (*call)(Arguments& arguments);
};

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
