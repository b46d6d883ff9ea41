// The feed-forward half of a layer: dense, or a mixture of experts.
#pragma once

#include <optional>
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
  /// One rank has it, which is this one or another.
  void give_to_one(bool here, Device device);

 private:
  friend class Experts;
  /// Of what the projections for gates and values give.
  Tensor inner(const Tensor& gate, const Tensor& up) const;

  FeedForwardConfig config_;
  Projection gate_, up_, down_;
};

/// A token's result is a sum over its experts in ascending order, which starts from +0; it does not depend on its
/// neighbours' choices. Each expert computes its own tokens alone; where gradients are asked for, all of them, since
/// then nothing may depend on numbers that are read, and adds zeros for those that are not its own: the same bits.
/// Divided among ranks, each computes its own experts, gets the results of the others', and adds all in that order.
class Experts {
 public:
  Experts() = default;
  Experts(ParameterTree& tree, const std::string& layer, const DecoderConfig& config);
  Tensor operator()(const Tensor& x) const;
  void divide(const dist::Group& group, Device device);

 private:
  /// Which experts a token uses, and with which weights: [T, used] each.
  struct Routes {
    Tensor chosen;
    Tensor shares;
  };
  Routes routes(const Tensor& x) const;
  Tensor expert(const Tensor& x, std::int64_t number) const;
  Tensor each_its_own(const Tensor& tokens, const Routes& routes) const;
  Tensor all_of_all(const Tensor& tokens, const Routes& routes) const;

  ExpertsConfig config_;
  Projection router_;
  nn::Buffer correction_;
  std::vector<FeedForward> experts_;
  FeedForward shared_;
  Projection shared_gate_;
  FeedForward stacked_;  ///< What stacked ones do, without parameters.
  nn::Parameter gate_up_, gate_up_bias_, down_, down_bias_;
  struct Divided {
    RankCuts experts;
    Tensor gate_up, down;  ///< of this rank's experts, where they are stacked
  };
  std::optional<Divided> divided_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
