// The graph behind tensors. A Node is one value: immutable description, and after evaluation a buffer.
//
// Nodes hold their inputs until they are evaluated, then drop them; so a graph never outlives one window of pending
// work. A user's handle marks its node as held: a flush computes every pending node that is held (graph/window.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/encoding.h>
#include <lockstep/tensor.h>

#include "core/assert.h"
#include "core/buffer.h"
#include "core/view.h"
#include "graph/primitive.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

struct IndexCheck;
using IndexChecks = std::vector<std::shared_ptr<IndexCheck>>;

struct Node;
using NodeRef = std::shared_ptr<Node>;

/// What a node is computed from: up to five in place, of which only as many as there are cost anything, and more (of
/// recurrences) elsewhere. An operand that is a scalar is null.
class Inputs {
 public:
  Inputs() {}
  Inputs(std::initializer_list<NodeRef> nodes) {
    for (const NodeRef& node : nodes) push_back(node);
  }
  Inputs(Inputs&& other) noexcept { take(other); }
  Inputs& operator=(Inputs&& other) noexcept {
    if (this == &other) return *this;
    clear();
    take(other);
    return *this;
  }
  ~Inputs() { clear(); }

  void push_back(NodeRef node) {
    if (size_ == room_) grow();
    std::construct_at(nodes_ + size_, std::move(node));
    ++size_;
  }
  void clear() {
    while (size_ > 0) std::destroy_at(nodes_ + --size_);
    if (room_ != kInPlace) give_back();
  }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  NodeRef& operator[](std::size_t i) { return nodes_[i]; }
  const NodeRef& operator[](std::size_t i) const { return nodes_[i]; }
  NodeRef* begin() { return nodes_; }
  NodeRef* end() { return nodes_ + size_; }
  const NodeRef* begin() const { return nodes_; }
  const NodeRef* end() const { return nodes_ + size_; }

 private:
  static constexpr std::uint32_t kInPlace = 5;

  // This is empty.
  void take(Inputs& other) {
    if (other.room_ != kInPlace) return take_elsewhere(other);
    for (NodeRef& node : other) std::construct_at(nodes_ + size_++, std::move(node));
    other.clear();
  }
  void take_elsewhere(Inputs& other);
  void grow();
  void give_back();

  union {
    NodeRef in_place_[kInPlace];
  };
  NodeRef* nodes_ = in_place_;  ///< the first size_ of room_
  std::uint32_t size_ = 0;
  std::uint32_t room_ = kInPlace;
};

/// What a computed place was called with, for the error of a bad index (graph/index_check.h).
struct IndexStory {
  const char* label = "input";  ///< what the op calls the table
  std::weak_ptr<Handle> table;  ///< shown in the error if somebody holds it still
  Shape given;                  ///< of the index as it was given, before it was flattened or spread
};

struct Node {
  Primitive op;
  Inputs inputs;
  Shape shape;
  DType dtype = DType::f32;
  Encoding encoding = Encoding::dense;  ///< of given data, and of views of them; what is computed is dense
  Device device;
  CallSite where;         ///< of the call that made it
  const char* name = "";  ///< of the op that was called
  std::uint64_t id = 0;   ///< creation order
  std::atomic<int> depth{0};  ///< longest chain of pending nodes below
  bool source = false;    ///< computed from nothing but Full, Iota and Random
  bool computed = false;  ///< of given data: kernels made it (graph/captured.h), so it is no memory of the user's
  /// An input of what was captured: a window reads through it what a run was given, whose memory is the window's own
  /// if nobody else refers to that.
  bool stands_in = false;

  std::atomic<int> handles{0};
  /// A gradient keeps what it is made of (graph/kept.h): a flush leaves it pending if no user holds it.
  std::atomic<bool> again{false};
  /// Set once, when the value is computed; published by `ready`.
  BufferRef buffer;
  std::atomic<bool> ready{false};
  /// A copy of `buffer` for kernels, where that is borrowed memory that does not start at a multiple of the element's
  /// size. Made at the first use; guarded by the window's execute mutex.
  BufferRef aligned;
  /// The checks of indices that the value depends on (graph/index_check.h) and that were not settled when it was
  /// computed; null for none. Published by `ready`.
  std::shared_ptr<const IndexChecks> checks;
  std::shared_ptr<const IndexStory> story;  ///< of what computes places; null where nobody tells it
  /// Why the value cannot be had (an index was out of range, a kernel failed); values computed from it fail alike.
  /// Guarded by the window's execute mutex.
  std::exception_ptr failure;
  /// Whether arithmetic may read the value without looking for subnormals: -1 not known yet, else 0 or 1.
  std::atomic<std::int8_t> canonical{-1};

  Node() = default;
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  std::size_t bytes() const { return encoded_bytes(encoding, dtype, shape.numel()); }
};

// Thousands of nodes are made and dropped in a run, and a recorded one keeps them.
static_assert(sizeof(Node) <= 640);

struct Record;

/// A user's reference to a node. All copies of a Tensor share one Handle. Holding a view holds what it looks at.
struct Handle {
  explicit Handle(NodeRef held, std::shared_ptr<Record> made_by = nullptr)
      : node(std::move(held)), record(std::move(made_by)) {
    count(1);
  }
  ~Handle() { count(-1); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const NodeRef node;
  const std::shared_ptr<Record> record;  ///< how gradients flow back from here (graph/tape.h); null: they do not
  std::string name;

 private:
  void count(int change) {
    node->handles.fetch_add(change, std::memory_order_relaxed);
    if (std::holds_alternative<ViewOf>(node->op)) node->inputs[0]->handles.fetch_add(change, std::memory_order_relaxed);
  }
};

/// The door from tensors to nodes, for the rooms above the public API.
struct Access {
  static const NodeRef& node(const Tensor& tensor) { return tensor.handle_->node; }
  /// Flushes the device's window if that is full now: the node is held.
  static Tensor tensor(NodeRef node);
  static const std::shared_ptr<Handle>& handle(const Tensor& tensor) { return tensor.handle_; }
  static Tensor from_handle(std::shared_ptr<Handle> handle) {
    Tensor tensor;
    tensor.handle_ = std::move(handle);
    return tensor;
  }
};

/// The view through which `node` is read, and the node whose buffer is read.
struct Reading {
  NodeRef base;
  View view;
};
Reading reading_of(const NodeRef& node);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
