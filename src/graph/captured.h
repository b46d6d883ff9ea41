// A computation that is recorded once and then runs again on other inputs of the same shapes, without recording: for
// models whose kernels are so short that making nodes, describing windows and finding plans takes as long.
//
//   Capture capture({x});
//   const Tensor y = f(x);
//   const auto captured = capture.finish({y});  // null: f reads values, or draws numbers
//   captured->run({other});                     // the bits of f(other)
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "graph/capture_watch.h"
#include "graph/describe.h"
#include "graph/node.h"
#include "graph/plan.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// What a Capture has recorded. It holds every other value that the computation reads, such as weights.
class Captured {
 public:
  /// The outputs, computed. Nothing where the caller must record instead: an input differs in more than its elements
  /// (it is a view, is on another device, has subnormals where there were none), an index is bad (on the host; the
  /// outputs of other devices say it when they are read), or another thread runs this. Throws what kernels throw.
  /// `given_up`: the last inputs. Those that kernels made and nobody else holds may be written over, as a cache is that
  /// takes another token, and are lost then.
  std::optional<std::vector<Tensor>> run(std::span<const Tensor> inputs, std::span<const Tensor> given_up = {});

 private:
  friend class Capture;
  struct Segment {
    Window window;
    std::shared_ptr<const Plan> plan;
    std::vector<NodeRef> released;  ///< values of this and earlier segments that no later one reads
  };
  struct Output {
    NodeRef base;
    std::optional<View> view;  ///< through which the base is read
    DType dtype = DType::f32;
    int input = -1;   ///< which one the base is
    Tensor constant;  ///< depends on no input
  };

  bool bind(std::span<const Tensor> inputs);
  void take(std::span<const Tensor> given_up);
  void let_go();

  std::mutex mutex_;
  Device device_;
  std::vector<NodeRef> inputs_;  ///< stand for those of a run
  std::vector<Segment> segments_;
  std::vector<Output> outputs_;
  std::vector<std::shared_ptr<Handle>> constants_;
};

/// While it lives, it notes what its thread records of `inputs`, which have their values. The newest of a thread alone.
class Capture final : CaptureWatch {
 public:
  explicit Capture(std::vector<Tensor> inputs);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Null where elements of what depends on the inputs were read, numbers were drawn, an output has a gradient, or the
  /// inputs are views or one value twice.
  std::unique_ptr<Captured> finish(std::span<const Tensor> outputs);

 private:
  void made(const NodeRef& node) override;
  void wanted(const NodeRef& node) override;
  void refuse();
  NodeRef copy_of(const NodeRef& input);
  std::vector<NodeRef> needed_by(std::span<const Captured::Output> outputs) const;
  bool cut(Captured& captured) const;
  void find_stand_ins(std::span<const NodeRef> needed, const Captured& captured) const;

  CaptureWatch* outer_;
  bool refused_ = false;
  Device device_;
  std::vector<NodeRef> inputs_;  ///< copies
  /// Of what depends on the inputs, by the numbers of the originals, which go when their users let them.
  std::unordered_map<std::uint64_t, NodeRef> copies_;
  std::unordered_map<const Node*, std::shared_ptr<Handle>> constants_;
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
