// A pickle that has been run: all its values in flat tables, referring to each other by index. Nothing in it is
// recursive, so values shared a million times, nested a million deep or containing themselves cost nothing and are
// destroyed without recursion; check_document then refuses the last two.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/io/pytorch.h>

#include "core/os.h"
#include "io/raw_tensor.h"

namespace lockstep {
inline namespace v0 {
namespace io {

inline constexpr std::size_t kMaxPickleObjects = 524'288;
inline constexpr std::size_t kMaxPickleTensors = 131'072;
inline constexpr std::uint64_t kMaxPickleValues = 4'194'304;  // shared ones counted each time
inline constexpr int kMaxPickleDepth = 256;
inline constexpr std::size_t kMaxPickleText = 1 << 20;
inline constexpr std::uint64_t kMaxPickleNames = 16 << 20;  // bytes of all paths through nested dicts, and of texts
// Tensors that are not contiguous are copied; together they may not outgrow the file by more than this.
inline constexpr std::uint64_t kPickleCopyAllowance = 16 << 20;

/// The integer that the old files of torch.save begin with, as it stands in their first pickle.
inline constexpr std::string_view kTorchMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
/// Whether the bytes begin as a pickle of protocol 2 to 5 does.
bool is_pickle(std::span<const std::byte> bytes);

/// What a node is: the kinds of PickleValue, and two that only live while the machine runs.
enum class NodeKind : std::uint8_t {
  none,
  boolean,
  integer,
  big_integer,
  real,
  string,
  bytes,
  list,
  tuple,
  dict,
  tensor,
  global,  ///< An entry of the table of known names.
  storage  ///< The elements behind tensors.
};

struct PickleNode {
  NodeKind kind = NodeKind::none;
  bool ordered_dict = false;  ///< Made by OrderedDict, so that a BUILD may follow.
  std::uint32_t length = 0;   ///< Bytes of a text.
  /// A number's bits; a text's offset in the file; an index into containers, tensors, views or globals.
  std::uint64_t payload = 0;
};

/// The elements that tensors share, by the key under which the file stores them.
struct PickleStorage {
  std::string_view key;
  StoredType type = StoredType::f32;
  std::uint64_t elements = 0;
  std::span<const std::byte> bytes;  ///< Set when the container has found them.
  bool found = false;
};

/// Part of a storage (all of it, except in old files).
struct PickleView {
  std::uint32_t storage = 0;
  std::uint64_t first = 0;  ///< In elements of the storage.
  std::uint64_t elements = 0;
};

struct PickleTensor {
  StoredType type = StoredType::f32;
  Shape shape;
  std::uint32_t storage = 0;
  std::uint64_t offset = 0;                 ///< In bytes from the start of the storage.
  std::unique_ptr<const Shape> strides;     ///< In elements; null if contiguous.
  std::shared_ptr<const std::byte[]> copy;  ///< Contiguous elements, once copied.
};

struct PickleDocument {
  os::FileBytes file;
  std::deque<PickleNode> nodes;
  std::deque<std::vector<std::uint32_t>> containers;  ///< Children; a dict's are key, value, key, value, ...
  std::deque<PickleStorage> storages;
  std::deque<PickleView> views;
  std::deque<PickleTensor> tensors;
  std::uint32_t root = 0;

  /// A container without an index yet is empty.
  static constexpr std::uint64_t kNoContainer = ~std::uint64_t{0};

  std::string_view text(const PickleNode& node) const {
    return {reinterpret_cast<const char*>(file.bytes.data()) + node.payload, node.length};
  }
  std::span<const std::uint32_t> children(const PickleNode& node) const {
    const bool has = (node.kind == NodeKind::list || node.kind == NodeKind::tuple || node.kind == NodeKind::dict) &&
                     node.payload != kNoContainer;
    return has ? std::span<const std::uint32_t>(containers[node.payload]) : std::span<const std::uint32_t>();
  }
  RawTensor raw(const PickleTensor& tensor) const;

  static RawTensor raw(const PickleValue& value) {
    const PickleDocument& document = *value.document_;
    return document.raw(document.tensors[document.nodes[value.node_].payload]);
  }
  static PickleValue root_value(std::shared_ptr<const PickleDocument> document) {
    const std::uint32_t root = document->root;
    return PickleValue(std::move(document), root);
  }
};

/// The last step of reading: everything that can be reached from the root must be a finite tree of values within the
/// limits, with distinct dict keys and storages that were found. Copies the tensors that are not contiguous.
/// Throws FormatError.
void check_document(PickleDocument& document);

/// Reads a file of torch.save from its bytes.
std::shared_ptr<const PickleDocument> parse_pytorch(os::FileBytes file, bool verify_checksums);

/// The tensors below `value` and the path to each, as load_pytorch names them, and all other leaves.
struct FlatPickle {
  std::map<std::string, PickleValue, std::less<>> tensors;
  std::map<std::string, PickleValue, std::less<>> others;
};
FlatPickle flatten(const PickleValue& value, std::string_view file);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
