// A computation that is recorded once and then runs again on other inputs of the same shapes, without recording: for
// models whose kernels are so short that making nodes, describing windows and finding plans takes as long.
//
//   Capture capture({x});
//   const Tensor y = f(x);
//   const auto captured = capture.finish({y});  // null: f reads values, or draws numbers
//   captured->run({other});                     // the bits of f(other)
//
// With Steers::allowed f may do both: a run reads the same values again, and comes to nothing where one is another, as
// what f did after that may be; it draws as many numbers of its thread's generator.
#pragma once

#include <atomic>
#include <cstddef>
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
  /// (it is a view, is on another device, has subnormals where there were none), a value that was read is another, an
  /// index is bad (on the host; the outputs of other devices say it when they are read), or another thread runs this.
  /// Throws what kernels throw.
  /// `given_up`: the last inputs. Those that kernels made and nobody else holds may be written over, as a cache is that
  /// takes another token, and are lost then.
  std::optional<std::vector<Tensor>> run(std::span<const Tensor> inputs, std::span<const Tensor> given_up = {});
  /// Whether values that were read have been others in each of the last runs: the next will hardly fit.
  bool has_missed() const { return misses_ >= kMostMisses; }

 private:
  friend class Capture;
  static constexpr int kMostMisses = 2;  ///< in a row

  /// A value that was read, and its elements.
  struct Read {
    NodeRef base;
    std::vector<std::byte> bytes;
  };
  struct Segment {
    Window window;
    std::shared_ptr<const Plan> plan;
    std::vector<Read> reads;        ///< of what it computes
    std::vector<NodeRef> released;  ///< values of this and earlier segments that no later one reads
  };
  struct Draw {
    NodeRef node;
    std::uint64_t number = 0;  ///< counted from the first one of a run
  };
  struct Output {
    NodeRef base;
    std::optional<View> view;  ///< through which the base is read
    DType dtype = DType::f32;
    int input = -1;   ///< which one the base is
    Tensor constant;  ///< depends on no input
  };

  bool bind(std::span<const Tensor> inputs);
  bool are_same(std::span<const Read> reads);
  void draw();
  void take(std::span<const Tensor> given_up);
  void let_go();

  std::mutex mutex_;
  Device device_;
  std::vector<NodeRef> inputs_;  ///< stand for those of a run
  std::vector<Read> reads_;      ///< of inputs
  std::vector<Segment> segments_;
  std::vector<Draw> draws_;
  std::uint64_t drawn_ = 0;  ///< numbers in a run
  std::vector<Output> outputs_;
  std::vector<std::shared_ptr<Handle>> constants_;
  std::atomic<int> misses_{0};
};

/// Whether what a run reads and draws may decide what it computes next.
enum class Steers : std::uint8_t { refused, allowed };

/// While it lives, it notes what its thread records of `inputs`, which have their values. The newest of a thread alone.
class Capture final : CaptureWatch {
 public:
  explicit Capture(std::vector<Tensor> inputs, Steers steers = Steers::refused);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Null where elements of what depends on the inputs were read or numbers were drawn (by Steers::allowed: many
  /// elements, or numbers of another generator than the thread's), an output has a gradient, or the inputs are views or
  /// one value twice.
  std::unique_ptr<Captured> finish(std::span<const Tensor> outputs);

 private:
  void made(const NodeRef& node) override;
  void wanted(const NodeRef& node) override;
  void drew(const Generator& generator) override;
  void refuse();
  void take_down();
  bool is_read(const Node& copy) const;
  NodeRef copy_of(const NodeRef& input);
  std::vector<NodeRef> needed_by(std::span<const Captured::Output> outputs) const;
  std::vector<std::size_t> pieces_of(std::span<const NodeRef> needed) const;
  bool cut(Captured& captured);
  void find_stand_ins(std::span<const NodeRef> needed, std::span<const std::size_t> pieces,
                      const Captured& captured) const;

  CaptureWatch* outer_;
  const Steers steers_;
  const std::uint64_t seed_, first_draw_;  ///< of the thread's generator
  std::uint64_t drawn_ = 0;
  bool refused_ = false;
  Device device_;
  std::vector<NodeRef> inputs_;  ///< copies
  /// Of what depends on the inputs, by the numbers of the originals, which go when their users let them.
  std::unordered_map<std::uint64_t, NodeRef> copies_;
  std::unordered_map<const Node*, std::shared_ptr<Handle>> constants_;
  NodeRef unread_;  ///< somebody waits for it, and has its elements when the next thing is noted
  std::unordered_map<const Node*, Captured::Read> reads_;  ///< by what they become
  std::vector<Captured::Draw> draws_;
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
