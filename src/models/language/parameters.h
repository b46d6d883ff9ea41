// Parameters under published names: "model.layers.0.mlp.up_proj.weight" makes the modules that its dots separate, so a
// state dict has exactly the keys of the files, in both directions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <lockstep/nn/module.h>

#include "models/language/columns.h"
#include "models/language/config.h"

namespace lockstep {
inline namespace v0 {
namespace models {

/// What an adapter has to know of a projection, and what it adds to it (lockstep/models/lora.h). Shared by all copies.
struct ProjectionSlot {
  nn::Parameter weight;
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool transposed = false;
  /// The results are heads whose rows stand as neighbours, where published weights have them as halves; 0: they do not.
  std::int64_t paired_heads = 0;
  std::shared_ptr<const ColumnPart> part;  ///< null: the whole is here
  bool is_one_ranks = false;               ///< of several ranks, one has the whole; the others do not compute it
  nn::Parameter down, up;                  ///< [rank, in] and [out, rank]; undefined: there is no adapter
  double scale = 0;
};
/// By the published paths, "model.layers.0.mlp.up_proj".
using Projections = std::map<std::string, std::shared_ptr<ProjectionSlot>>;

/// A model that adapters can be put on.
class HasProjections {
 public:
  virtual const Projections& projections() const = 0;
  virtual const DecoderConfig& config() const = 0;
  /// What is none: embeddings, and experts, whose projections are no longer divided then.
  virtual void divide_others(const dist::Group& group, Device device) = 0;

 protected:
  ~HasProjections() = default;
};

class ParameterTree {
 public:
  explicit ParameterTree(nn::Module& root) : root_(&root) {}

  nn::Parameter parameter(const std::string& path, const Tensor& value);

  /// Normal with deviation 0.02: a matrix before training.
  nn::Parameter matrix(const std::string& path, const Shape& shape);
  nn::Parameter filled(const std::string& path, const Shape& shape, double value);
  /// Zeros that no optimiser changes.
  nn::Buffer buffer(const std::string& path, const Shape& shape);
  void add_projection(const std::string& path, std::shared_ptr<ProjectionSlot> slot) {
    projections_.emplace(path, std::move(slot));
  }
  const Projections& projections() const { return projections_; }

 private:
  /// The module that a path ends in, and the name behind it.
  std::pair<nn::Module*, std::string> place(const std::string& path);
  nn::Module& module(const std::string& path);

  nn::Module* root_;
  std::map<std::string, std::unique_ptr<nn::Module>> modules_;
  Projections projections_;
};

/// x W^T + b, or x W + b for weights that are stored [in, out].
class Projection {
 public:
  Projection() = default;
  Projection(ParameterTree& tree, const std::string& path, std::int64_t in, std::int64_t out, bool bias,
             bool transposed = false);
  Tensor operator()(const Tensor& x) const;
  /// Its results are heads, stored as neighbours (ProjectionSlot::paired_heads).
  void pairs(std::int64_t heads) { slot_->paired_heads = heads; }
  /// One rank has it, which is this one or another.
  void give_to_one(bool here, Device device);

 private:
  Tensor product(const Tensor& x) const;

  std::shared_ptr<ProjectionSlot> slot_;
  nn::Parameter bias_;
  bool has_bias_ = false;
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
