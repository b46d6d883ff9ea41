// What layers have instead of attention: a short causal convolution (LFM2), and a matrix for each head that is
// corrected by every token ("Gated Delta Networks", Yang et al., 2024; Qwen3-Next). Both remember a state.
#pragma once

#include "models/language/cache.h"
#include "models/language/parameters.h"

namespace lockstep {
inline namespace v0 {
namespace models {

/// Each channel over its last positions.
class CausalConvolution {
 public:
  CausalConvolution() = default;
  CausalConvolution(ParameterTree& tree, const std::string& path, std::int64_t channels, std::int64_t kernel,
                    bool bias);
  /// x [N, L, C] to the same; `last` [N, kernel - 1, C] are the positions before (zeros if undefined), and becomes the
  /// last ones.
  Tensor operator()(const Tensor& x, Tensor& last) const;

 private:
  std::int64_t kernel_ = 0;
  nn::Parameter weight_, bias_;
  bool has_bias_ = false;
};

class ConvolutionMixer {
 public:
  ConvolutionMixer() = default;
  ConvolutionMixer(ParameterTree& tree, const std::string& path, std::int64_t hidden, const ConvolutionConfig& config);
  /// x [N, L, hidden] to the same.
  Tensor operator()(const Tensor& x, State& state) const;

 private:
  Projection in_, out_;
  CausalConvolution convolution_;
};

class DeltaMixer {
 public:
  DeltaMixer() = default;
  DeltaMixer(ParameterTree& tree, const std::string& path, std::int64_t hidden, const DeltaConfig& config);
  /// x [N, L, hidden] to the same.
  Tensor operator()(const Tensor& x, State& state) const;

 private:
  DeltaConfig config_;
  Projection in_, rates_, out_;
  CausalConvolution convolution_;
  nn::Parameter decay_, step_bias_;
  Norm norm_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
