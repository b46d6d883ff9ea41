// Tensors of one dtype and device side by side in one flat tensor, so that one kernel changes them all. Optimisers keep
// parameters, gradients and moments so; clipping and averages use the same layout.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/nn/module.h>

#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

/// Where tensors lie in a flat one. Each starts at a multiple of 16 elements, for aligned loads.
class Layout {
 public:
  explicit Layout(std::vector<Shape> shapes);

  std::size_t count() const { return shapes_.size(); }
  std::int64_t size() const { return size_; }
  /// Where tensor `i` begins.
  std::int64_t offset(std::size_t i) const { return offsets_[i]; }
  const Shape& part_shape(std::size_t i) const { return shapes_[i]; }
  /// Tensor `i` as a view of the flat one.
  Tensor part(const Tensor& flat, std::size_t i) const;
  /// What lies between tensors: zeros, or whatever was there if the tensors turn out to be parts of one flat tensor
  /// already (which costs nothing).
  enum class Gaps : std::uint8_t { zero, any };
  /// The flat tensor; `tensors` have the layout's shapes, one dtype and one device.
  Tensor pack(const std::vector<Tensor>& tensors, Gaps gaps) const;

 private:
  /// The flat tensor of which these are the parts already; undefined if there is none.
  Tensor common_base(const std::vector<Tensor>& tensors) const;

  std::vector<Shape> shapes_;
  std::vector<std::int64_t> offsets_;
  std::int64_t size_ = 0;
  bool has_gaps_ = false;
};

std::vector<Shape> shapes_of(const std::vector<nn::Parameter>& parameters);

/// Parameters as views of one flat tensor (a single one stays as it is). Anybody may bind a parameter to another value
/// at any time.
class Arena {
 public:
  explicit Arena(std::vector<nn::Parameter> parameters);

  const Layout& layout() const { return layout_; }
  const std::vector<nn::Parameter>& parameters() const { return parameters_; }
  /// Whether all parameters still have the values that set_values gave them.
  bool is_current() const;
  /// The parameters' values, packed again if need be.
  Tensor values() const;
  /// Binds the parameters to their parts of `flat`.
  void set_values(const Tensor& flat);

 private:
  std::vector<nn::Parameter> parameters_;
  Layout layout_;
  Tensor flat_;
  std::vector<graph::NodeRef> bound_;
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
