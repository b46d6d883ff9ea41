#include "cli/case_ops.h"

#include <fmt/format.h>

#include "cli/case_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

const CaseOp& find_case_op(const std::string& name) {
  for (const auto& family : {
           activation_ops(),
           attention_ops(),
           contraction_ops(),
           elementwise_ops(),
           indexing_ops(),
           loss_ops(),
           normalization_ops(),
           order_ops(),
           pointwise_ops(),
           pooling_ops(),
           recurrent_ops(),
           reduction_ops(),
           shape_ops(),
       }) {
    for (const CaseOp& op : family) {
      if (name == op.name) return op;
    }
  }
  throw Unsupported(fmt::format("op {}", name));
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
