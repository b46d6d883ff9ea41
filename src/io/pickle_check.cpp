// The last step of reading a pickle; see check_document.
#include <algorithm>
#include <cstring>
#include <tuple>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/assert.h"
#include "core/checked.h"
#include "io/pickle_document.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

[[noreturn]] void fail_in_pickle(const PickleDocument& document, std::string_view message) {
  throw FormatError(fmt::format("{}: pickle: {}", document.file.path, message));
}

// Walks everything below the root once, children before parents, with a stack of its own. Knows for every finished
// node how deep it is and how many values it is when shared ones are counted each time.
class TreeCheck {
 public:
  explicit TreeCheck(const PickleDocument& document)
      : document_(document), states_(document.nodes.size()), reached_tensors_(document.tensors.size()) {}

  void run() {
    enter(document_.root);
    while (!path_.empty()) {
      Step& step = path_.back();
      const std::span<const std::uint32_t> children = document_.children(document_.nodes[step.node]);
      if (step.next == children.size()) {
        leave(step.node, children);
        path_.pop_back();
        continue;
      }
      const std::uint32_t child = children[step.next++];
      if (states_[child].progress == Progress::entered) fail_in_pickle(document_, "a value contains itself");
      if (states_[child].progress == Progress::unseen) enter(child);
    }
  }

  const std::vector<bool>& reached_tensors() const { return reached_tensors_; }

 private:
  enum class Progress : std::uint8_t { unseen, entered, left };
  struct State {
    Progress progress = Progress::unseen;
    std::uint16_t depth = 0;
    std::uint32_t values = 0;
  };
  struct Step {
    std::uint32_t node;
    std::size_t next;
  };

  void enter(std::uint32_t node) {
    const PickleNode& value = document_.nodes[node];
    if (value.kind == NodeKind::global) fail_in_pickle(document_, "a type stands where a value should");
    if (value.kind == NodeKind::storage) fail_in_pickle(document_, "a bare storage stands where a tensor should");
    if (value.kind == NodeKind::tensor) reached_tensors_[value.payload] = true;
    states_[node].progress = Progress::entered;
    path_.push_back({node, 0});
  }

  void leave(std::uint32_t node, std::span<const std::uint32_t> children) {
    std::uint64_t values = 1;
    int depth = 0;
    for (const std::uint32_t child : children) {
      values += states_[child].values;
      depth = std::max<int>(depth, states_[child].depth);
      if (values > kMaxPickleValues)
        fail_in_pickle(document_, fmt::format("expands to more than {} values", kMaxPickleValues));
    }
    if (depth + 1 > kMaxPickleDepth)
      fail_in_pickle(document_, fmt::format("is nested deeper than {}", kMaxPickleDepth));
    states_[node] = {Progress::left, static_cast<std::uint16_t>(depth + 1), static_cast<std::uint32_t>(values)};
    if (document_.nodes[node].kind == NodeKind::dict) check_keys(children);
  }

  void check_keys(std::span<const std::uint32_t> children) const {
    using Key = std::tuple<NodeKind, std::uint64_t, std::string_view>;
    std::vector<Key> keys;
    for (std::size_t i = 0; i < children.size(); i += 2) {
      const PickleNode& key = document_.nodes[children[i]];
      if (key.kind == NodeKind::tuple) continue;  // no one looks values up by tuples here
      const bool is_text = key.kind == NodeKind::string;
      keys.emplace_back(key.kind, is_text ? 0 : key.payload, is_text ? document_.text(key) : std::string_view());
    }
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice == keys.end()) return;
    const auto& [kind, bits, text] = *twice;
    fail_in_pickle(document_, fmt::format("a dict has the key {} twice",
                                          kind == NodeKind::string ? in_quotes(text)
                                                                   : std::to_string(static_cast<std::int64_t>(bits))));
  }

  const PickleDocument& document_;
  std::vector<State> states_;
  std::vector<bool> reached_tensors_;
  std::vector<Step> path_;
};

// The elements in row-major order. Bounds were checked when the tensor was made, the total by the caller.
std::shared_ptr<const std::byte[]> copy_contiguous(const PickleTensor& tensor, std::span<const std::byte> storage,
                                                   std::uint64_t bytes) {
  auto result = std::make_shared_for_overwrite<std::byte[]>(bytes);
  const std::size_t element = size_of(tensor.type);
  const Shape& shape = tensor.shape;
  const Shape& strides = *tensor.strides;
  Shape index = Shape::filled(shape.rank(), 0);
  const std::byte* source = storage.data() + tensor.offset;
  for (std::byte* target = result.get(); target != result.get() + bytes; target += element) {
    std::memcpy(target, source, element);
    for (int d = shape.rank(); d-- > 0;) {
      // The stride of a dimension of size 1 is never taken, and may be any number.
      const std::int64_t step = shape[d] == 1 ? 0 : strides[d] * static_cast<std::int64_t>(element);
      if (++index[d] < shape[d]) {
        source += step;
        break;
      }
      source -= step * (shape[d] - 1);
      index[d] = 0;
    }
  }
  return result;
}

}  // namespace

void check_document(PickleDocument& document) {
  TreeCheck check(document);
  check.run();
  for (const PickleStorage& storage : document.storages) {
    if (!storage.found)
      fail_in_pickle(document, fmt::format("the elements of storage {} are missing", in_quotes(storage.key)));
    LOCKSTEP_ASSERT((CheckedSize(storage.elements) * size_of(storage.type)).equals(storage.bytes.size()));
  }
  const std::uint64_t allowance = document.file.bytes.size() + kPickleCopyAllowance;
  CheckedSize copied = 0;
  for (std::size_t i = 0; i < document.tensors.size(); ++i) {
    PickleTensor& tensor = document.tensors[i];
    if (!tensor.strides || !check.reached_tensors()[i]) continue;
    const CheckedSize bytes = element_count(tensor.shape) * size_of(tensor.type);
    copied += bytes;
    if (!copied.at_most(allowance)) {
      fail_in_pickle(
          document,
          fmt::format("tensors that are not contiguous, such as {} with stride {}, grow to more than {} bytes",
                      describe(tensor.type, tensor.shape), tensor.strides->to_string(), allowance));
    }
    tensor.copy = copy_contiguous(tensor, document.storages[tensor.storage].bytes, bytes.value());
  }
}

RawTensor PickleDocument::raw(const PickleTensor& tensor) const {
  const std::uint64_t bytes = (element_count(tensor.shape) * size_of(tensor.type)).value();
  if (tensor.copy) return {tensor.type, tensor.shape, {tensor.copy.get(), bytes}, tensor.copy};
  return {tensor.type, tensor.shape, storages[tensor.storage].bytes.subspan(bytes == 0 ? 0 : tensor.offset, bytes),
          file.owner};
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
