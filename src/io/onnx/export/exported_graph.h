// A graph of ONNX as save_onnx makes it, before it is bytes: names, nodes, and numbers that say how large something is
// apart from all others, since those may depend on the sizes of inputs (dynamic_sizes.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// In the body of a function: the value of the attribute `of` of its call, a list of integers.
struct AttributeReference {
  std::string of;
  bool operator==(const AttributeReference&) const = default;
};
using AttributeValue = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, AttributeReference>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

struct ExportedNode {
  std::string op;
  std::string domain;
  std::vector<std::string> inputs;   ///< empty texts: absent
  std::vector<std::string> outputs;  ///< the last one names the node
  Attributes attributes;
  std::string story;  ///< the call and its line, for errors
};

struct ExportedTensor {
  std::string name;
  Tensor value;
  bool is_state = false;  ///< a parameter or buffer of the model
};

/// A list of i64 that says sizes.
struct ExportedSizes {
  std::string name;
  std::vector<std::int64_t> sizes;
};

struct ExportedValue {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::string> symbols = {};  ///< of each dimension: empty where the size is what the shape says,
                                          ///< "?" where nobody can say
};

struct ExportedGraph {
  std::vector<ExportedNode> nodes;
  std::vector<ExportedTensor> tensors;
  std::vector<ExportedSizes> sizes;
  std::vector<ExportedValue> inputs;
  std::vector<ExportedValue> outputs;
};

/// TensorProto.DataType of a dtype.
std::int64_t data_type_of(DType dtype);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
