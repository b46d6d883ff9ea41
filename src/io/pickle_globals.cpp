// The names that a pickle may mention, and what they build. This table is the whole of what a file can ask for.
#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "io/pickle_machine.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

struct KnownName {
  std::string_view module;
  std::string_view name;
  Global global;
};

// Storage classes ("torch", "FloatStorage") and dtypes ("torch", "float32") come from the table of stored types.
constexpr std::array kKnownNames = {
    KnownName{"collections", "OrderedDict", Global::ordered_dict},
    KnownName{"collections", "defaultdict", Global::default_dict},
    KnownName{"collections", "Counter", Global::counter},
    KnownName{"builtins", "dict", Global::factory},
    KnownName{"builtins", "list", Global::factory},
    KnownName{"builtins", "int", Global::factory},
    KnownName{"builtins", "float", Global::factory},
    KnownName{"__builtin__", "dict", Global::factory},
    KnownName{"__builtin__", "list", Global::factory},
    KnownName{"__builtin__", "int", Global::factory},
    KnownName{"__builtin__", "float", Global::factory},
    KnownName{"torch", "Size", Global::size},
    KnownName{"torch", "device", Global::device},
    KnownName{"torch._utils", "_rebuild_tensor", Global::rebuild_tensor},
    KnownName{"torch._utils", "_rebuild_tensor_v2", Global::rebuild_tensor_v2},
    KnownName{"torch._utils", "_rebuild_tensor_v3", Global::rebuild_tensor_v3},
    KnownName{"torch._utils", "_rebuild_parameter", Global::rebuild_parameter},
    KnownName{"torch._utils", "_rebuild_parameter_with_state", Global::rebuild_parameter_with_state},
    KnownName{"torch._tensor", "_rebuild_from_type_v2", Global::rebuild_from_type},
    KnownName{"torch", "Tensor", Global::tensor_type},
    KnownName{"torch.nn.parameter", "Parameter", Global::tensor_type},
    KnownName{"torch.nn.parameter", "Buffer", Global::tensor_type},
};

PickleNode global_node(KnownGlobal known) {
  return {.kind = NodeKind::global,
          .length = static_cast<std::uint32_t>(known.type),
          .payload = static_cast<std::uint64_t>(known.global)};
}

KnownGlobal known_global(const PickleNode& node) {
  return {static_cast<Global>(node.payload), static_cast<StoredType>(node.length)};
}

// Whether strides are those of contiguous elements; those of dimensions of size 1 say nothing.
bool contiguous(const Shape& shape, const Shape& strides) {
  std::int64_t expected = 1;
  for (int d = shape.rank(); d-- > 0;) {
    if (shape[d] == 0) return true;
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

// One more than the index of the last element.
CheckedSize extent(const Shape& shape, const Shape& strides) {
  CheckedSize last = 1;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 0) return 0;
    last += CheckedSize(static_cast<std::uint64_t>(shape[d] - 1)) * static_cast<std::uint64_t>(strides[d]);
  }
  return last;
}

}  // namespace

PickleMachine::Node PickleMachine::find_global(std::string_view module, std::string_view name) {
  const auto known = std::find_if(kKnownNames.begin(), kKnownNames.end(),
                                  [&](const KnownName& k) { return k.module == module && k.name == name; });
  if (known != kKnownNames.end()) return add(global_node({known->global}));
  if (module == "torch" || module == "torch.storage") {
    if (name == "UntypedStorage") return add(global_node({Global::storage, StoredType::u8}));
    if (const auto type = from_torch_storage(name)) return add(global_node({Global::storage, *type}));
  }
  if (module == "torch" && from_torch_dtype(name)) {
    // As a value, a dtype is its name; as an argument of _rebuild_tensor_v3 it is found by it. The name stands in the
    // file, so the text node points there.
    const auto offset = reinterpret_cast<const std::byte*>(name.data()) - document_.file.bytes.data();
    return add({.kind = NodeKind::string,
                .length = static_cast<std::uint32_t>(name.size()),
                .payload = static_cast<std::uint64_t>(offset)});
  }
  fail(
      fmt::format("refuses to load {}.{}: only tensors in dicts, lists and tuples of plain values are read; save the "
                  "model's state_dict() instead of the model",
                  in_quotes(module), in_quotes(name)));
}

std::uint64_t PickleMachine::unsigned_of(Node node, std::string_view what) const {
  const auto value = static_cast<std::int64_t>(at(node).payload);
  if (!is(node, NodeKind::integer)) fail(fmt::format("{} is not an integer", what));
  if (value < 0) fail(fmt::format("{} is {}, which is negative", what, value));
  return static_cast<std::uint64_t>(value);
}

Shape PickleMachine::sizes_of(Node tuple, std::string_view what) const {
  if (!is(tuple, NodeKind::tuple)) fail(fmt::format("{} is not a tuple", what));
  const std::span<const Node> items = document_.children(at(tuple));
  if (items.size() > kMaxRank) fail(fmt::format("{} has {} dimensions; the limit is {}", what, items.size(), kMaxRank));
  Shape result;
  for (const Node item : items) result.push_back(static_cast<std::int64_t>(unsigned_of(item, what)));
  return result;
}

PickleMachine::Node PickleMachine::call(Node function, Node arguments) {
  expect(is(function, NodeKind::global), "REDUCE calls something that is not a name");
  expect(is(arguments, NodeKind::tuple), "REDUCE takes arguments that are not a tuple");
  const KnownGlobal known = known_global(at(function));
  const std::span<const Node> items = document_.children(at(arguments));
  switch (known.global) {
    case Global::ordered_dict: {
      // OrderedDict() or, from old versions, OrderedDict([[key, value], ...]).
      expect(items.size() <= 1, "OrderedDict takes at most one argument");
      const Node dict = add_container(NodeKind::dict, {});
      at(dict).ordered_dict = true;
      if (items.empty()) return dict;
      expect(is(items[0], NodeKind::list), "OrderedDict takes a list");
      push(dict);
      for (const Node pair : document_.children(at(items[0]))) {
        const std::span<const Node> entry = document_.children(at(pair));
        expect(!is(pair, NodeKind::dict) && entry.size() == 2, "OrderedDict takes a list of pairs");
        set_items(entry);
      }
      return pop();
    }
    case Global::default_dict:
      expect(items.size() <= 1, "defaultdict takes at most one argument");
      expect(items.empty() || is(items[0], NodeKind::none) ||
                 (is(items[0], NodeKind::global) && known_global(at(items[0])).global <= Global::factory),
             "defaultdict takes a known type");
      return add_container(NodeKind::dict, {});
    case Global::counter:
      expect(items.size() == 1 && is(items[0], NodeKind::dict), "Counter takes a dict");
      return items[0];
    case Global::size:
      expect(items.size() == 1 && is(items[0], NodeKind::tuple), "Size takes a tuple");
      return items[0];
    case Global::device: return device_text(items);
    case Global::rebuild_parameter: return rebuild_parameter(items, false);
    case Global::rebuild_parameter_with_state: return rebuild_parameter(items, true);
    case Global::rebuild_from_type: return rebuild_from_type(items);
    case Global::rebuild_tensor:
    case Global::rebuild_tensor_v2:
    case Global::rebuild_tensor_v3: return rebuild_tensor(known, items);
    case Global::factory:
    case Global::tensor_type:
    case Global::storage: fail("calls a type that is only ever named");
  }
  fail("calls an unknown name");
}

PickleMachine::Node PickleMachine::device_text(std::span<const Node> arguments) {
  expect((arguments.size() == 1 || arguments.size() == 2) && is(arguments[0], NodeKind::string),
         "device takes a string and an index");
  if (arguments.size() == 2) unsigned_of(arguments[1], "a device's index");
  return arguments[0];
}

PickleMachine::Node PickleMachine::rebuild_parameter(std::span<const Node> arguments, bool with_state) {
  expect(arguments.size() == (with_state ? 4u : 3u) && is(arguments[0], NodeKind::tensor) &&
             is(arguments[1], NodeKind::boolean) && is(arguments[2], NodeKind::dict),
         "a parameter is rebuilt from something other than a tensor, a bool and a dict");
  return arguments[0];
}

PickleMachine::Node PickleMachine::rebuild_from_type(std::span<const Node> arguments) {
  // (function, type, arguments, attributes): a tensor with Python attributes, which are dropped.
  expect(arguments.size() == 4 && is(arguments[0], NodeKind::global) && is(arguments[1], NodeKind::global) &&
             is(arguments[2], NodeKind::tuple),
         "a tensor with attributes is rebuilt from wrong arguments");
  const Global function = known_global(at(arguments[0])).global;
  expect(function >= Global::rebuild_tensor && function <= Global::rebuild_parameter_with_state,
         "a tensor with attributes is not rebuilt as a tensor");
  expect(known_global(at(arguments[1])).global == Global::tensor_type, "a tensor with attributes has no tensor's type");
  return call(arguments[0], arguments[2]);  // not this function again
}

PickleMachine::Node PickleMachine::rebuild_tensor(const KnownGlobal& global, std::span<const Node> arguments) {
  const bool v1 = global.global == Global::rebuild_tensor;
  const bool v3 = global.global == Global::rebuild_tensor_v3;
  const std::size_t least = v1 ? 4 : v3 ? 7 : 6;
  const std::size_t most = v1 ? 4 : least + 1;
  expect(arguments.size() >= least && arguments.size() <= most, "a tensor is rebuilt from a wrong number of arguments");
  expect(is(arguments[0], NodeKind::storage), "a tensor's storage is not a storage");
  if (!v1) {
    expect(is(arguments[4], NodeKind::boolean), "a tensor's requires_grad is not a bool");
    expect(is(arguments[5], NodeKind::dict) || is(arguments[5], NodeKind::none), "a tensor's hooks are not a dict");
  }
  if (arguments.size() == most && !v1) {
    expect(is(arguments[most - 1], NodeKind::dict) || is(arguments[most - 1], NodeKind::none),
           "a tensor's metadata is not a dict");
  }

  const PickleView view = document_.views[at(arguments[0]).payload];
  const PickleStorage& storage = document_.storages[view.storage];
  PickleTensor tensor;
  tensor.storage = view.storage;
  tensor.type = storage.type;
  if (v3) {
    expect(is(arguments[6], NodeKind::string), "a tensor's dtype is not a dtype");
    const auto type = from_torch_dtype(document_.text(at(arguments[6])));
    expect(type.has_value(), "a tensor's dtype is not known");
    tensor.type = *type;
  }
  const std::uint64_t first = unsigned_of(arguments[1], "a tensor's storage offset");
  tensor.shape = sizes_of(arguments[2], "a tensor's size");
  const Shape strides = sizes_of(arguments[3], "a tensor's stride");
  expect(strides.rank() == tensor.shape.rank(), "a tensor's size and stride have different ranks");
  if (element_count(tensor.shape).overflowed()) {
    fail(fmt::format("a tensor of size {} has more than 2^63 - 1 elements", tensor.shape.to_string()));
  }

  const std::uint64_t view_bytes = view.elements * size_of(storage.type);  // checked when the view was made
  const CheckedSize offset = CheckedSize(first) * size_of(tensor.type);
  const CheckedSize end = offset + extent(tensor.shape, strides) * size_of(tensor.type);
  if (!end.at_most(view_bytes)) {
    fail(fmt::format("a tensor of size {}, stride {} and offset {} does not fit into storage {} of {} {}",
                     tensor.shape.to_string(), strides.to_string(), first, in_quotes(storage.key), view.elements,
                     name_of(storage.type)));
  }
  tensor.offset = view.first * size_of(storage.type) + offset.value();
  if (!contiguous(tensor.shape, strides)) tensor.strides = std::make_unique<const Shape>(strides);

  if (document_.tensors.size() == kMaxPickleTensors) fail(fmt::format("has more than {} tensors", kMaxPickleTensors));
  document_.tensors.push_back(std::move(tensor));
  return add({.kind = NodeKind::tensor, .payload = document_.tensors.size() - 1});
}

void PickleMachine::build(Node object, Node state) {
  // torch stores a state dict's version numbers as attributes of its OrderedDict. They are checked and dropped.
  expect(is(object, NodeKind::dict) && at(object).ordered_dict, "BUILD of something that is not an OrderedDict");
  expect(is(state, NodeKind::dict), "BUILD with something that is not a dict");
  const std::span<const Node> items = document_.children(at(state));
  for (std::size_t i = 0; i < items.size(); i += 2) {
    expect(is(items[i], NodeKind::string), "BUILD with an attribute that is not a name");
  }
}

PickleMachine::Node PickleMachine::persistent(Node id) {
  expect(with_storages_, "mentions a storage where none may be");
  expect(is(id, NodeKind::tuple), "a persistent id is not a tuple");
  // ("storage", class, key, device, number of elements) and, in the old form, (key of the view, first, elements).
  const std::span<const Node> items = document_.children(at(id));
  expect(items.size() == 5 || items.size() == 6, "a persistent id does not have 5 parts");
  expect(is(items[0], NodeKind::string) && document_.text(at(items[0])) == "storage",
         "a persistent id is not one of a storage (whole modules are not read; save their state_dict())");
  expect(is(items[1], NodeKind::global) && known_global(at(items[1])).global == Global::storage,
         "a persistent id does not name a class of storages");
  expect(is(items[2], NodeKind::string) && is(items[3], NodeKind::string), "a persistent id lacks its key or device");

  const std::string_view key = document_.text(at(items[2]));
  const StoredType type = known_global(at(items[1])).type;
  const std::uint64_t elements = unsigned_of(items[4], "a storage's size");
  if (!(CheckedSize(elements) * size_of(type)).at_most(document_.file.bytes.size())) {
    fail(fmt::format("storage {} of {} {} is larger than the file", in_quotes(key), elements, name_of(type)));
  }
  const auto [known, is_new] = storage_index_.try_emplace(key, static_cast<Node>(document_.storages.size()));
  if (is_new) document_.storages.push_back({.key = key, .type = type, .elements = elements});
  const PickleStorage& storage = document_.storages[known->second];
  if (storage.type != type || storage.elements != elements) {
    fail(fmt::format("storage {} is {} {} here and {} {} elsewhere", in_quotes(key), elements, name_of(type),
                     storage.elements, name_of(storage.type)));
  }

  PickleView view{.storage = known->second, .first = 0, .elements = elements};
  if (items.size() == 6 && !is(items[5], NodeKind::none)) {
    const std::span<const Node> part = document_.children(at(items[5]));
    expect(is(items[5], NodeKind::tuple) && part.size() == 3 && is(part[0], NodeKind::string),
           "a storage's view is not (key, first, elements)");
    view.first = unsigned_of(part[1], "a view's start");
    view.elements = unsigned_of(part[2], "a view's size");
    if (!(CheckedSize(view.first) + view.elements).at_most(elements)) {
      fail(fmt::format("view [{}, +{}) leaves storage {} of {} elements", view.first, view.elements, in_quotes(key),
                       elements));
    }
  }
  document_.views.push_back(view);
  return add({.kind = NodeKind::storage, .payload = document_.views.size() - 1});
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
