#include "io/onnx/derived.h"

#include <algorithm>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

// Nodes are immutable, and those that are held here are not written in place.
bool DerivedWeights::are_known(const std::vector<Tensor>& sources) const {
  return std::equal(sources.begin(), sources.end(), sources_.begin(), sources_.end(),
                    [](const Tensor& a, const Tensor& b) { return graph::node_of(a) == graph::node_of(b); });
}

std::vector<Tensor> DerivedWeights::of(const std::vector<Tensor>& sources,
                                       const std::function<std::vector<Tensor>()>& make) {
  {
    const std::lock_guard lock(mutex_);
    if (!are_known(sources)) {
      sources_ = sources;
      values_.clear();
    } else if (!values_.empty()) {
      return values_;
    } else {
      values_ = make();
      for (const Tensor& value : values_) value.eval();
      return values_;
    }
  }
  return make();
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
