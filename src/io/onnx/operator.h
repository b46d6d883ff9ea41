// What an operator of ONNX is to this reader: a row with a name, the versions of its operator set that it follows, and
// a function that turns inputs into outputs by calling our own ops. Rows stand in families, ops/<family>.cpp, each with
// a function `std::span<const Operator> <family>_operators()` that operators.cpp lists.
//
// Whatever differs between versions is a row of its own, or asks `version()`. What a row cannot do is found at load:
// its `check` looks at the attributes and says why not, so that one error lists all of a model's nodes that cannot run.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/device.h>
#include <lockstep/dtype.h>
#include <lockstep/io/onnx.h>
#include <lockstep/tensor.h>

#include "io/onnx/value.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

struct PlannedNode;
struct Attribute;

/// The newest version of the default operator set ("ai.onnx", written "") that rows are written for. A row without an
/// `until` follows every version up to this one.
inline constexpr int kNewestVersion = 28;

/// The dtype of a number of TensorProto.DataType; none for types that tensors do not have (strings, complex128, 4-bit).
std::optional<DType> dtype_of(std::int64_t data_type);
/// The same with the types of less than a byte, and the dtype that holds these.
struct ElementType {
  ElementType(DType of_tensor = DType::f32, Narrow of_elements = Narrow::none)
      : dtype(of_tensor), narrow(of_elements) {}

  DType dtype;
  Narrow narrow;
};
std::optional<ElementType> element_type_of(std::int64_t data_type);
/// "float", "uint4", ...: the name of a number of TensorProto.DataType, "type 99" for an unknown one.
std::string name_of_type(std::int64_t data_type);

/// A node as it stands in the file: its attributes, and which inputs and outputs it names.
class NodeFacts {
 public:
  explicit NodeFacts(const PlannedNode& node) : node_(&node) {}

  std::string_view domain() const;  ///< "" for the default one.
  std::string_view op() const;
  /// "Conv '/layer1/conv'", for messages.
  std::string title() const;
  /// The version of the operator set of this node's domain, as the model states it.
  int version() const;

  // Attributes, or the fallback where the node has none of this name. FormatError if it is of another type.
  bool has_attribute(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  float number(std::string_view name, float fallback) const;
  std::string_view text(std::string_view name, std::string_view fallback) const;
  std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> fallback = {}) const;
  std::vector<float> numbers(std::string_view name, std::vector<float> fallback = {}) const;
  std::vector<std::string> texts(std::string_view name, std::vector<std::string> fallback = {}) const;
  /// One that must be there: FormatError otherwise.
  std::int64_t integer(std::string_view name) const;
  std::string_view text(std::string_view name) const;
  std::vector<std::int64_t> required_integers(std::string_view name) const;
  /// A TensorProto.DataType as a dtype. UnsupportedError for types that tensors do not have.
  DType dtype(std::string_view name, DType fallback) const;
  ElementType element_type(std::string_view name, ElementType fallback) const;
  const Attribute* attribute(std::string_view name) const;

  /// How many inputs and outputs the node lists; one that is left out in the middle counts.
  std::size_t inputs() const;
  std::size_t outputs() const;
  /// Whether input `i` is listed and not left out.
  bool has(std::size_t i) const;
  /// Whether anybody may read output `i`; what is returned in its place otherwise is dropped.
  bool wants(std::size_t i) const;

  /// Whether input `i` is a weight, or computed of weights alone.
  bool is_fixed(std::size_t i) const;

  const PlannedNode& planned() const { return *node_; }

 private:
  const PlannedNode* node_;
};

/// Runs the graphs that stand in a node's attributes: what If, Loop and Scan need of the one who calls them.
class GraphRunner {
 public:
  virtual ~GraphRunner() = default;
  virtual std::vector<Value> run(const PlannedNode& node, std::string_view attribute, std::vector<Value> inputs) = 0;
};

/// What an operator sees when it runs.
class Call : public NodeFacts {
 public:
  Call(const PlannedNode& node, std::span<const Value> inputs, Device device, GraphRunner* graphs = nullptr,
       bool training = false)
      : NodeFacts(node), values_(inputs), device_(device), graphs_(graphs), training_(training) {}

  Device device() const { return device_; }
  /// Whether the module is in training form: batch normalisation, dropout.
  bool training() const { return training_; }

  /// Input `i` as a tensor on device(). FormatError naming the node if it is absent or a sequence.
  const Tensor& input(std::size_t i) const;
  /// The same, undefined where absent.
  Tensor optional_input(std::size_t i) const;
  const Value& value(std::size_t i) const;
  const std::vector<Value>& sequence(std::size_t i) const;

  // Without making a tensor of what is known on the host.
  const Shape& shape(std::size_t i) const;
  DType dtype_of_input(std::size_t i) const;
  using NodeFacts::dtype;

  /// The elements of input `i`, which must be integers or bool (or floats), in row-major order. Free for what is known
  /// on the host (constants; what is computed of shapes); waits for the device otherwise.
  std::vector<std::int64_t> host_integers(std::size_t i) const;
  std::vector<double> host_numbers(std::size_t i) const;
  /// The only element. ShapeError if there are more.
  std::int64_t host_integer(std::size_t i) const;
  double host_number(std::size_t i) const;

  /// The outputs of the graph in an attribute. FormatError if there is none, or it takes another number of inputs.
  std::vector<Value> run_graph(std::string_view attribute, std::vector<Value> inputs) const;

  /// The attribute, a tensor, on the CPU. FormatError if it is missing.
  Value tensor(std::string_view name) const;

  // Errors that name the node. `unsupported` throws UnsupportedError: what we do not do; the others are the model's
  // or the inputs' fault.
  [[noreturn]] void unsupported(std::string_view reason) const;
  [[noreturn]] void invalid(std::string_view what) const;  ///< ValueError.
  void require(bool holds, std::string_view what) const {  ///< ValueError unless it holds.
    if (!holds) invalid(what);
  }

 private:
  std::span<const Value> values_;
  Device device_;
  GraphRunner* graphs_;
  bool training_;
};

/// The outputs, in order; trailing ones that nobody wants may be missing, others undefined.
using Run = std::vector<Tensor> (*)(const Call&);
/// For operators whose values are no plain tensors: host arrays, sequences, optionals.
using RunValues = std::vector<Value> (*)(const Call&);
/// Why a node cannot run here, "" if it can: "coordinate_transformation_mode=tf_crop_and_resize".
using Check = std::string (*)(const NodeFacts&);
/// Which type of less than a byte the output has, as far as a node and the types of its inputs say before it runs.
using NarrowOutput = Narrow (*)(const NodeFacts&, std::span<const Narrow> inputs);

struct Operator {
  std::string_view domain = "";  ///< "" is ai.onnx; "com.microsoft".
  std::string_view name;
  int since = 1;               ///< The first version of the domain's operator set that this row follows,
  int until = kNewestVersion;  ///< and the last.
  Run run = nullptr;           ///< One of the two.
  RunValues run_values = nullptr;
  Check check = nullptr;
  NarrowInputs narrow = NarrowInputs::refused;
  NarrowOutput narrow_output = nullptr;  ///< Of operators that take them, and make such outputs.
};

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
