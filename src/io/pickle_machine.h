// The stack machine that runs a pickle. It has no instruction that calls anything: names become entries of one table
// (pickle_globals.cpp), and "calling" one of them builds a value of ours. The opcodes are those that torch.save emits
// with protocols 2 to 5; all others are refused.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/checked.h"
#include "io/pickle_document.h"

namespace lockstep {
inline namespace v0 {
namespace io {

/// The names that a pickle may mention.
enum class Global : std::uint8_t {
  ordered_dict,
  default_dict,
  counter,
  factory,
  size,
  device,
  rebuild_tensor,
  rebuild_tensor_v2,
  rebuild_tensor_v3,
  rebuild_parameter,
  rebuild_parameter_with_state,
  rebuild_from_type,  ///< One of the above, for a tensor with attributes.
  tensor_type,
  storage,  ///< A storage class; the element type comes with it.
};

/// A known name: what it is, and the element type of a storage class.
struct KnownGlobal {
  Global global = Global::factory;
  StoredType type = StoredType::u8;
};

class PickleMachine {
 public:
  /// Runs on `bytes`, which stand at `offset` in the document's file; values go into `document`. Storages may only be
  /// mentioned if `with_storages`.
  PickleMachine(PickleDocument& document, std::span<const std::byte> bytes, std::uint64_t offset, bool with_storages);

  /// Runs up to STOP and returns the node of the result. Throws FormatError.
  std::uint32_t run();
  /// Where the byte after STOP stands in the file.
  std::uint64_t end_offset() const { return reader_.offset(); }

 private:
  using Node = std::uint32_t;

  bool step(std::uint8_t opcode);  // false after STOP
  // False where the opcode is of another kind.
  bool step_value(std::uint8_t opcode);
  bool step_container(std::uint8_t opcode);
  bool step_object(std::uint8_t opcode);
  std::string_view name_line();
  [[noreturn]] void fail(std::string_view message) const;
  [[noreturn]] void refuse_opcode(std::uint8_t opcode) const;

  // Nodes and stack.
  Node add(PickleNode node);
  Node add_container(NodeKind kind, std::span<const Node> children);
  Node integer(std::int64_t value);
  Node text_node(NodeKind kind, CheckedSize bytes);
  Node long_integer(std::uint64_t bytes);
  void push(Node node);
  Node pop();
  std::vector<Node> pop_to_mark();
  Node top() const;
  PickleNode& at(Node node) { return document_.nodes[node]; }
  const PickleNode& at(Node node) const { return document_.nodes[node]; }
  void add_children(Node container, std::span<const Node> children);
  void memoise(std::uint64_t index);
  void recall(std::uint64_t index);
  void append(std::span<const Node> items);
  void set_items(std::span<const Node> items);

  // pickle_globals.cpp: what the known names build.
  Node find_global(std::string_view module, std::string_view name);
  Node call(Node function, Node arguments);
  void build(Node object, Node state);
  Node persistent(Node id);
  Node rebuild_parameter(std::span<const Node> arguments, bool with_state);
  Node rebuild_from_type(std::span<const Node> arguments);
  Node rebuild_tensor(const KnownGlobal& global, std::span<const Node> arguments);
  Node device_text(std::span<const Node> arguments);
  Shape sizes_of(Node tuple, std::string_view what) const;
  std::uint64_t unsigned_of(Node node, std::string_view what) const;
  void expect(bool condition, std::string_view message) const {
    if (!condition) fail(message);
  }
  bool is(Node node, NodeKind kind) const { return at(node).kind == kind; }

  PickleDocument& document_;
  ByteReader reader_;
  std::uint64_t opcode_offset_ = 0;
  bool with_storages_;
  std::vector<Node> stack_;
  std::vector<std::size_t> marks_;
  std::size_t children_ = 0;
  std::vector<Node> memo_;
  std::vector<Node> small_integers_;
  Node none_ = 0, true_ = 0, false_ = 0, empty_tuple_ = 0;
  std::unordered_map<std::string_view, Node> storage_index_;
};

}  // namespace io
}  // namespace v0
}  // namespace lockstep
