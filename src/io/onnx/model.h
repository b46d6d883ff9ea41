// An ONNX file as it stands: the messages of its protocol, checked one by one and not yet against each other. Texts and
// elements point into the file, which a Model keeps in memory. plan.h makes something of it that runs.
//
// Files are untrusted. Accepted are IR versions 3 to 14; at most 131,072 nodes, as many tensors, 524,288 attributes,
// 1,048,576 names of inputs and outputs, 4,194,304 numbers in attributes; names of 64 KiB; graphs in graphs 64 deep.
// Nothing here recurses.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/tensor.h>

#include "core/os.h"
#include "io/onnx/value.h"
#include "io/onnx/wire.h"
#include "io/raw_tensor.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// TensorProto. Its dims and its number of elements are checked; the elements are looked at when they are wanted.
struct ModelTensor {
  std::string_view name;
  std::int64_t type = 0;  ///< TensorProto.DataType
  std::vector<std::int64_t> dims;
  Bytes message;  ///< All of it: typed elements are read from here.
  std::optional<Bytes> raw;
  // External data, in a file beside the model's.
  bool external = false;
  std::string_view location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
};

struct ModelGraph;

/// AttributeProto.Type
enum class AttributeType : std::uint8_t {
  undefined,
  number,
  integer,
  text,
  tensor,
  graph,
  numbers,
  integers,
  texts,
  tensors,
  graphs,
  sparse_tensor,
  sparse_tensors,
  type_proto,
  type_protos
};

struct Attribute {
  std::string_view name;
  AttributeType type = AttributeType::undefined;
  std::string_view refers_to;  ///< In a function's body: the attribute of the call that it takes its value from.
  std::int64_t integer = 0;
  float number = 0;
  std::string_view text;
  std::vector<std::int64_t> integers;
  std::vector<float> numbers;
  std::vector<std::string_view> texts;
  const ModelTensor* tensor = nullptr;
  const ModelGraph* graph = nullptr;
};

struct ModelNode {
  std::string_view name;
  std::string_view op;
  std::string_view domain;  ///< "" for "ai.onnx", too.
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<const Attribute*> attributes;
};

/// A size of an input or output: a number, a name that stands for one, or unknown.
struct Dimension {
  std::optional<std::int64_t> size;
  std::string_view symbol;
};

enum class ValueKind : std::uint8_t { tensor, sequence, optional, optional_sequence, other };

struct ModelValue {
  std::string_view name;
  ValueKind kind = ValueKind::tensor;
  std::int64_t type = 0;  ///< TensorProto.DataType of the elements; 0 if the file does not say.
  std::optional<std::vector<Dimension>> shape;
};

struct ModelGraph {
  std::string_view name;
  int depth = 0;
  std::vector<ModelNode> nodes;
  std::vector<const ModelTensor*> initialisers;
  std::vector<std::string_view> sparse_initialisers;  ///< Names; they are not supported.
  std::vector<ModelValue> inputs;
  std::vector<ModelValue> outputs;
};

using OpsetImports = std::map<std::string_view, std::int64_t>;

struct ModelFunction {
  std::string_view name;
  std::string_view domain;
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<std::string_view> attributes;  ///< Names without defaults,
  std::vector<const Attribute*> defaults;    ///< and those with one.
  OpsetImports opsets;
  ModelGraph body;
};

struct Model {
  os::FileBytes file;
  std::int64_t ir_version = 0;
  std::string_view producer;
  std::string_view producer_version;
  OpsetImports opsets;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  const ModelGraph* graph = nullptr;
  std::deque<ModelFunction> functions;
  // What the pointers above and in the messages point to.
  std::deque<ModelGraph> graphs;
  std::deque<ModelTensor> tensors;
  std::deque<Attribute> attributes;
};

/// Throws FormatError, naming the file and the byte, unless the file is a valid message within the limits.
std::shared_ptr<const Model> parse_model(os::FileBytes file);

/// One TensorProto; `file` names it in errors.
ModelTensor parse_tensor(std::string_view file, Bytes message);

/// How a DataType is stored, or what packed elements become; none for types that no tensor here has (strings).
std::optional<StoredType> stored_type_of(std::int64_t data_type);
/// What elements of such a type occupy in a file.
CheckedSize bytes_in_file(std::int64_t data_type, const Shape& shape);

/// Where elements that lie in files of their own are looked for.
struct ExternalFiles {
  std::string folder;  ///< The model's. Files are confined to it.
  std::string root;    ///< Links may lead below it; empty: nowhere.
  bool map = true;
  std::map<std::string, os::FileBytes, std::less<>> opened;
};

/// The elements of a tensor: the file's own memory, or decoded and unpacked ones. `external` may be null: external data
/// are refused. FormatError for elements that are not as many as the dims say, UnsupportedError for types that tensors
/// do not have.
RawTensor elements_of(const ModelTensor& tensor, const os::FileBytes& file, ExternalFiles* external);
/// The same as a value, on the CPU.
Value value_of(const ModelTensor& tensor, const os::FileBytes& file, ExternalFiles* external);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
