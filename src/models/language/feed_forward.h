// The feed-forward half of a layer: dense, or a mixture of experts.
#pragma once

#include <vector>

#include "models/language/parameters.h"

namespace lockstep {
inline namespace v0 {
namespace models {

class FeedForward {
 public:
  FeedForward() = default;
  FeedForward(ParameterTree& tree, const FeedForwardConfig& config, const std::string& gate, const std::string& up,
              const std::string& down, std::int64_t hidden, bool transposed = false);
  Tensor operator()(const Tensor& x) const;

 private:
  FeedForwardConfig config_;
  Projection gate_, up_, down_;
};

/// Every expert computes every token, and the router's weights, zero for all but a few, say what counts: the sum is
/// over all experts in ascending order. A token's result does not depend on its neighbours' choices.
class Experts {
 public:
  Experts() = default;
  Experts(ParameterTree& tree, const std::string& layer, const DecoderConfig& config);
  Tensor operator()(const Tensor& x) const;

 private:
  Tensor weights(const Tensor& x) const;
  Tensor stacked_expert(const Tensor& x, std::int64_t expert) const;

  ExpertsConfig config_;
  Projection router_;
  nn::Buffer correction_;
  std::vector<FeedForward> experts_;
  FeedForward shared_;
  Projection shared_gate_;
  nn::Parameter gate_up_, gate_up_bias_, down_, down_bias_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
