// Ops by their PyTorch names, called with the attributes of a case.
#pragma once

#include <string>
#include <vector>

#include "cli/case_file.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

struct CaseOp {
  const char* name;
  /// Whether the op only moves or selects values, so that results are equal and not merely near.
  bool moves;
  std::vector<Tensor> (*call)(Arguments& arguments);
};

/// Throws Unsupported if there is no such op.
const CaseOp& find_case_op(const std::string& name);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
