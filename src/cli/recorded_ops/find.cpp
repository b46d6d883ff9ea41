#include "cli/recorded_ops/find.h"

#include <fmt/format.h>

#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

const RecordedOp& find_recorded_op(const std::string& name) {
  for (const auto& family : {
           activation_ops(),
           attention_ops(),
           contraction_ops(),
           elementwise_ops(),
           fft_ops(),
           image_ops(),
           indexing_ops(),
           linalg_ops(),
           loss_ops(),
           normalization_ops(),
           order_ops(),
           pointwise_ops(),
           pooling_ops(),
           recurrent_ops(),
           reduction_ops(),
           shape_ops(),
       }) {
    for (const RecordedOp& op : family) {
      if (name == op.name) return op;
    }
  }
  throw Unsupported(fmt::format("op {}", name));
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
