// PickleValue: the public view of a document's nodes, and the names that paths through it give to tensors.
#include <bit>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/pytorch.h>

#include "core/assert.h"
#include "io/pickle_document.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

using Kind = PickleValue::Kind;

constexpr const char* kKindNames[] = {"None",  "bool", "integer", "big integer", "float", "string",
                                      "bytes", "list", "tuple",   "dict",        "tensor"};

std::string name_of(Kind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

void expect(bool condition, const PickleValue& value, std::string_view wanted) {
  if (!condition) throw ValueError(fmt::format("a pickled {} is not {}", name_of(value.kind()), wanted));
}

[[noreturn]] void fail_index(const PickleValue& value, std::size_t index) {
  throw IndexError(fmt::format("index {} is outside a pickled {}", index, value.to_string()));
}

}  // namespace

PickleValue::PickleValue(std::shared_ptr<const PickleDocument> document, std::uint32_t node)
    : document_(std::move(document)), node_(node) {}

PickleValue::Kind PickleValue::kind() const {
  const NodeKind kind = document_->nodes[node_].kind;
  LOCKSTEP_ASSERT(kind <= NodeKind::tensor);
  return static_cast<Kind>(kind);
}

bool PickleValue::as_bool() const {
  expect(kind() == Kind::boolean, *this, "a bool");
  return document_->nodes[node_].payload != 0;
}

std::int64_t PickleValue::as_integer() const {
  expect(kind() == Kind::integer, *this, "a 64-bit integer");
  return std::bit_cast<std::int64_t>(document_->nodes[node_].payload);
}

double PickleValue::as_real() const {
  if (kind() == Kind::integer) return static_cast<double>(as_integer());
  expect(kind() == Kind::real, *this, "a number");
  return std::bit_cast<double>(document_->nodes[node_].payload);
}

std::string_view PickleValue::as_string() const {
  expect(kind() == Kind::string || kind() == Kind::bytes, *this, "a string");
  return document_->text(document_->nodes[node_]);
}

TensorEntry PickleValue::tensor_entry() const {
  expect(kind() == Kind::tensor, *this, "a tensor");
  const PickleTensor& tensor = document_->tensors[document_->nodes[node_].payload];
  const RawTensor raw = document_->raw(tensor);
  const std::byte* start = document_->storages[tensor.storage].bytes.data();
  TensorEntry entry{.type = tensor.type, .shape = tensor.shape, .bytes = raw.bytes.size()};
  if (start != nullptr) entry.offset = static_cast<std::uint64_t>(start - document_->file.bytes.data()) + tensor.offset;
  return entry;
}

Tensor PickleValue::as_tensor() const {
  expect(kind() == Kind::tensor, *this, "a tensor");
  const PickleTensor& tensor = document_->tensors[document_->nodes[node_].payload];
  return to_tensor(document_->raw(tensor), document_->file.path, document_->storages[tensor.storage].key);
}

std::size_t PickleValue::size() const {
  const std::size_t children = document_->children(document_->nodes[node_]).size();
  return kind() == Kind::dict ? children / 2 : children;
}

PickleValue PickleValue::at(std::size_t index) const {
  expect(kind() == Kind::list || kind() == Kind::tuple, *this, "a list or tuple");
  if (index >= size()) fail_index(*this, index);
  return PickleValue(document_, document_->children(document_->nodes[node_])[index]);
}

PickleValue PickleValue::key(std::size_t index) const {
  expect(kind() == Kind::dict, *this, "a dict");
  if (index >= size()) fail_index(*this, index);
  return PickleValue(document_, document_->children(document_->nodes[node_])[2 * index]);
}

PickleValue PickleValue::value(std::size_t index) const {
  expect(kind() == Kind::dict, *this, "a dict");
  if (index >= size()) fail_index(*this, index);
  return PickleValue(document_, document_->children(document_->nodes[node_])[2 * index + 1]);
}

bool PickleValue::has(std::string_view name) const {
  expect(kind() == Kind::dict, *this, "a dict");
  for (std::size_t i = 0; i < size(); ++i) {
    const PickleValue candidate = key(i);
    if (candidate.kind() == Kind::string && candidate.as_string() == name) return true;
  }
  return false;
}

PickleValue PickleValue::get(std::string_view name) const {
  expect(kind() == Kind::dict, *this, "a dict");
  for (std::size_t i = 0; i < size(); ++i) {
    const PickleValue candidate = key(i);
    if (candidate.kind() == Kind::string && candidate.as_string() == name) return value(i);
  }
  throw ValueError(fmt::format("a pickled {} has no key {}", to_string(), in_quotes(name)));
}

std::string PickleValue::to_string() const {
  switch (kind()) {
    case Kind::none: return "None";
    case Kind::boolean: return as_bool() ? "True" : "False";
    case Kind::integer: return std::to_string(as_integer());
    case Kind::big_integer: return "an integer of more than 64 bits";
    case Kind::real: return fmt::format("{}", as_real());
    case Kind::string: return std::string(as_string());
    case Kind::bytes: return fmt::format("{} bytes", as_string().size());
    case Kind::list:
    case Kind::tuple:
    case Kind::dict: return fmt::format("{} of {}", name_of(kind()), size());
    case Kind::tensor: {
      const TensorEntry entry = tensor_entry();
      return fmt::format("tensor {}", describe(entry.type, entry.shape));
    }
  }
  return {};
}

FlatPickle flatten(const PickleValue& root, std::string_view file) {
  struct Step {
    PickleValue value;
    std::string path;
    bool is_root = false;  // an empty path is a name, too
  };
  FlatPickle result;
  // Names repeat their prefixes, and shared texts are copied for each path when metadata are made of them: bounded
  // here, since the limits of a document bound only the product of depth, lengths and number of values.
  std::uint64_t name_bytes = 0;
  std::vector<Step> pending{{root, "", true}};
  while (!pending.empty()) {
    const Step step = std::move(pending.back());
    pending.pop_back();
    const PickleValue& value = step.value;
    const auto count = [&](std::uint64_t bytes) {
      name_bytes += bytes;
      if (name_bytes <= kMaxPickleNames) return;
      throw FormatError(fmt::format("{}: pickle: the paths to its values and its texts have more than {} bytes", file,
                                    kMaxPickleNames));
    };
    const auto visit = [&](const PickleValue& child, std::string part) {
      std::string path = step.is_root ? std::move(part) : step.path + "." + part;
      count(path.size());
      pending.push_back({child, std::move(path)});
    };
    const auto fail_twice = [&] {
      throw FormatError(fmt::format("{}: pickle: two values have the name {}", file, in_quotes(step.path)));
    };
    switch (value.kind()) {
      case Kind::dict:
        for (std::size_t i = 0; i < value.size(); ++i) visit(value.value(i), value.key(i).to_string());
        break;
      case Kind::list:
      case Kind::tuple:
        for (std::size_t i = 0; i < value.size(); ++i) visit(value.at(i), std::to_string(i));
        break;
      case Kind::tensor:
        if (!result.tensors.emplace(step.is_root ? "tensor" : step.path, value).second) fail_twice();
        break;
      default:
        if (value.kind() == Kind::string) count(value.as_string().size());
        if (!result.others.emplace(step.path, value).second) fail_twice();
        break;
    }
  }
  return result;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
