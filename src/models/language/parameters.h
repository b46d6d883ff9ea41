// Parameters under published names: "model.layers.0.mlp.up_proj.weight" makes the modules that its dots separate, so a
// state dict has exactly the keys of the files, in both directions.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <lockstep/nn/module.h>

#include "models/language/config.h"

namespace lockstep {
inline namespace v0 {
namespace models {

class ParameterTree {
 public:
  explicit ParameterTree(nn::Module& root) : root_(&root) {}

  /// Normal with deviation 0.02: a matrix before training.
  nn::Parameter matrix(const std::string& path, const Shape& shape);
  nn::Parameter filled(const std::string& path, const Shape& shape, double value);
  /// Zeros that no optimiser changes.
  nn::Buffer buffer(const std::string& path, const Shape& shape);

 private:
  /// The module that a path ends in, and the name behind it.
  std::pair<nn::Module*, std::string> place(const std::string& path);
  nn::Module& module(const std::string& path);

  nn::Module* root_;
  std::map<std::string, std::unique_ptr<nn::Module>> modules_;
};

/// x W^T + b, or x W + b for weights that are stored [in, out].
class Projection {
 public:
  Projection() = default;
  Projection(ParameterTree& tree, const std::string& path, std::int64_t in, std::int64_t out, bool bias,
             bool transposed = false);
  Tensor operator()(const Tensor& x) const;

 private:
  nn::Parameter weight_;
  nn::Parameter bias_;
  bool has_bias_ = false;
  bool transposed_ = false;
};

/// Over the last dimension.
class Norm {
 public:
  Norm() = default;
  /// An empty path makes none: the identity.
  Norm(ParameterTree& tree, const std::string& path, std::int64_t features, const NormConfig& config);
  Tensor operator()(const Tensor& x) const;

 private:
  NormConfig config_;
  std::int64_t features_ = 0;
  nn::Parameter weight_;
  nn::Parameter bias_;
};

Tensor activate(Activation activation, const Tensor& x);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
