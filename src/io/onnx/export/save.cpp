// save_onnx: the traces that a file is made of, and its bytes.
#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/onnx_export.h>
#include <lockstep/ops.h>
#include <lockstep/version.h>

#include "core/os.h"
#include "io/onnx/export/message_writer.h"
#include "io/onnx/export/own_functions.h"
#include "io/onnx/export/trace.h"
#include "io/onnx/operator.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace onnx {

std::int64_t data_type_of(DType dtype) {
  for (std::int64_t type = 1; type < 32; ++type) {
    if (onnx::dtype_of(type) == dtype) return type;
  }
  throw DTypeError(fmt::format("ONNX has no tensors of {}", name_of(dtype)));
}

namespace {

// Where external elements may begin: a page of most systems, so that they can be mapped.
constexpr std::uint64_t kExternalAlignment = 4096;

std::uint64_t byte_count(const Tensor& tensor) {
  return static_cast<std::uint64_t>(tensor.numel()) * size_of(tensor.dtype());
}

MessageWriter attribute_message(const std::string& name, const AttributeValue& value) {
  MessageWriter message;
  message.text(1, name);
  // The fields of a value, and its AttributeType.
  if (const auto* number = std::get_if<float>(&value)) {
    message.number(2, *number);
    message.integer(20, 1);
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    message.integer(3, *integer);
    message.integer(20, 2);
  } else if (const auto* reference = std::get_if<AttributeReference>(&value)) {
    message.integer(20, 7);
    message.text(21, reference->of);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    message.text(4, *text);
    message.integer(20, 3);
  } else {
    for (const std::int64_t each : std::get<std::vector<std::int64_t>>(value)) message.integer(8, each);
    message.integer(20, 7);
  }
  return message;
}

MessageWriter node_message(const ExportedNode& node) {
  MessageWriter message;
  for (const std::string& input : node.inputs) message.text(1, input);
  for (const std::string& output : node.outputs) message.text(2, output);
  message.text(3, node.outputs.back());
  message.text(4, node.op);
  for (const auto& [name, value] : node.attributes) message.message(5, attribute_message(name, value));
  if (!node.domain.empty()) message.text(7, node.domain);
  return message;
}

MessageWriter value_message(const ExportedValue& value) {
  MessageWriter shape;
  for (int d = 0; d < value.shape.rank(); ++d) {
    MessageWriter size;
    const std::string symbol = value.symbols.empty() ? "" : value.symbols[static_cast<std::size_t>(d)];
    if (symbol.empty()) {
      size.integer(1, value.shape[d]);
    } else if (symbol != "?") {
      size.text(2, symbol);
    }
    shape.message(1, size);
  }
  MessageWriter tensor;
  tensor.integer(1, data_type_of(value.dtype));
  tensor.message(2, shape);
  MessageWriter type;
  type.message(1, tensor);
  MessageWriter message;
  message.text(1, value.name);
  message.message(2, type);
  return message;
}

// A TensorProto without its elements.
MessageWriter tensor_message(const std::string& name, const Shape& shape, DType dtype) {
  MessageWriter message;
  for (const std::int64_t size : shape) message.integer(1, size);
  message.integer(2, data_type_of(dtype));
  message.text(8, name);
  return message;
}

MessageWriter external_message(const ExportedTensor& tensor, const std::string& location, std::uint64_t offset) {
  MessageWriter message = tensor_message(tensor.name, tensor.value.shape(), tensor.value.dtype());
  const std::array<std::pair<const char*, std::string>, 3> entries = {
      {{"location", location},
       {"offset", std::to_string(offset)},
       {"length", std::to_string(byte_count(tensor.value))}}};
  for (const auto& [key, value] : entries) {
    MessageWriter entry;
    entry.text(1, key);
    entry.text(2, value);
    message.message(13, entry);
  }
  message.integer(14, 1);
  return message;
}

/// The bytes of a file, in pieces: elements are fetched when they are written.
struct Piece {
  std::string bytes;
  Tensor tensor = {};
  std::uint64_t size() const { return tensor.defined() ? byte_count(tensor) : bytes.size(); }
};

void write(os::AtomicFile& file, const std::vector<Piece>& pieces) {
  std::vector<std::byte> bytes;
  for (const Piece& piece : pieces) {
    if (!piece.tensor.defined()) {
      file.write(piece.bytes);
      continue;
    }
    bytes.resize(byte_count(piece.tensor));
    if (!bytes.empty()) piece.tensor.read_bytes(bytes.data());
    file.write(bytes);
  }
}

// Elements of at most this many bytes stay in the model: shapes and scalars are wanted before anything runs.
constexpr std::uint64_t kSmallTensor = 1024;

class File {
 public:
  File(const ExportedGraph& graph, const OnnxExportOptions& options, std::string location)
      : graph_(graph), options_(options), location_(std::move(location)) {
    for (const ExportedTensor& tensor : graph.tensors) total_ += byte_count(tensor.value);
  }

  bool is_external() const { return total_ > options_.external_data_above; }

  std::vector<Piece> model() {
    std::vector<Piece> body;
    MessageWriter before;
    std::set<std::string> domains, functions;
    for (const ExportedNode& node : graph_.nodes) {
      before.message(1, node_message(node));
      if (!node.domain.empty()) domains.insert(node.domain);
      if (node.domain == kOwnDomain) functions.insert(node.op);
    }
    before.text(2, "lockstep");
    for (const ExportedSizes& sizes : graph_.sizes) {
      const auto count = static_cast<std::int64_t>(sizes.sizes.size());
      const Tensor value = Tensor::from(sizes.sizes, {count}, Device{});
      add_tensor(body, {.name = sizes.name, .value = value});
    }
    for (const ExportedTensor& tensor : graph_.tensors) add_tensor(body, tensor);
    MessageWriter after;
    for (const ExportedValue& input : graph_.inputs) after.message(11, value_message(input));
    for (const ExportedValue& output : graph_.outputs) after.message(12, value_message(output));
    body.insert(body.begin(), {.bytes = before.bytes()});
    body.push_back({.bytes = after.bytes()});
    std::uint64_t size = 0;
    for (const Piece& piece : body) size += piece.size();

    MessageWriter header;
    header.integer(1, options_.opset >= 23 ? 11 : 8);
    header.text(2, "lockstep");
    header.text(3, kVersion);
    header.message(8, opset_message("", options_.opset));
    for (const std::string& domain : domains) header.message(8, opset_message(domain, 1));
    for (const std::string& name : functions) header.message(25, function_message(own_function(name)));
    header.header(7, size);
    body.insert(body.begin(), {.bytes = header.bytes()});
    return body;
  }

  const std::vector<Piece>& data() const { return data_; }

 private:
  static MessageWriter opset_message(std::string_view domain, std::int64_t version) {
    MessageWriter message;
    message.text(1, domain);
    message.integer(2, version);
    return message;
  }

  MessageWriter function_message(const OwnFunction& function) const {
    MessageWriter message;
    message.text(1, function.name);
    for (const std::string& input : function.inputs) message.text(4, input);
    message.text(5, function.body.back().outputs.front());
    for (const std::string& attribute : function.attributes) message.text(6, attribute);
    for (const ExportedNode& node : function.body) message.message(7, node_message(node));
    message.message(9, opset_message("", options_.opset));
    message.text(10, kOwnDomain);
    return message;
  }

  void add_tensor(std::vector<Piece>& body, const ExportedTensor& tensor) {
    const std::uint64_t size = byte_count(tensor.value);
    if (is_external() && size > kSmallTensor) {
      const std::uint64_t gap = (kExternalAlignment - offset_ % kExternalAlignment) % kExternalAlignment;
      if (gap != 0) data_.push_back({.bytes = std::string(gap, '\0')});
      offset_ += gap;
      MessageWriter field;
      field.message(5, external_message(tensor, location_, offset_));
      body.push_back({.bytes = field.bytes()});
      data_.push_back({.bytes = {}, .tensor = tensor.value});
      offset_ += size;
      return;
    }
    MessageWriter message = tensor_message(tensor.name, tensor.value.shape(), tensor.value.dtype());
    message.header(9, size);
    MessageWriter field;
    field.header(5, message.bytes().size() + size);
    body.push_back({.bytes = field.bytes() + message.bytes()});
    if (size != 0) body.push_back({.bytes = {}, .tensor = tensor.value});
  }

  const ExportedGraph& graph_;
  const OnnxExportOptions& options_;
  std::string location_;
  std::uint64_t total_ = 0;
  std::uint64_t offset_ = 0;
  std::vector<Piece> data_;
};

// The example with its elements along a dimension repeated until there are `size`.
Tensor with_size(const Tensor& example, int dim, std::int64_t size) {
  const std::int64_t have = example.shape()[dim];
  if (have == size) return example;
  std::vector<Tensor> parts(static_cast<std::size_t>((size + have - 1) / have), example);
  return cat(parts, dim).narrow(dim, 0, size);
}

void check_request(const TraceRequest& request, const std::vector<Tensor>& examples) {
  const std::string& path = request.path;
  if (request.options.opset != 17 && request.options.opset != 23) {
    throw ValueError(fmt::format("{}: opset {} is not written; use 17 or 23", path, request.options.opset));
  }
  if (request.model.training()) {
    throw ValueError(fmt::format("{}: the model is in training; call eval() before it is written", path));
  }
  if (examples.empty()) throw ValueError(fmt::format("{}: there are no example inputs", path));
  for (const Tensor& example : examples) {
    if (!example.defined()) throw ValueError(fmt::format("{}: an example input is undefined", path));
  }
  for (const OnnxDynamicSize& size : request.options.dynamic) {
    const bool fits = size.input < examples.size() && size.dim >= 0 && size.dim < examples[size.input].rank() &&
                      examples[size.input].shape()[size.dim] > 0 && size.step > 0 && !size.symbol.empty() &&
                      size.symbol != "?";
    if (!fits) {
      throw ValueError(
          fmt::format("{}: a dynamic size needs an input, one of its dimensions, a name and a positive "
                      "step; given are input {}, dimension {}, name '{}', step {}",
                      path, size.input, size.dim, size.symbol, size.step));
    }
  }
}

ExportedGraph traced_with_sizes(const TraceRequest& request, const std::vector<Tensor>& examples) {
  if (request.options.dynamic.empty()) return trace(request, examples);
  std::vector<std::string> symbols;
  std::vector<std::int64_t> steps;
  for (const OnnxDynamicSize& size : request.options.dynamic) {
    if (std::find(symbols.begin(), symbols.end(), size.symbol) != symbols.end()) continue;
    symbols.push_back(size.symbol);
    steps.push_back(size.step);
  }
  // One step above the example for all, since a size of 1 is treated in its own way by many ops.
  const auto traced = [&](const std::string& symbol, std::int64_t more) {
    std::vector<Tensor> inputs = examples;
    for (const OnnxDynamicSize& size : request.options.dynamic) {
      const auto s = static_cast<std::size_t>(std::find(symbols.begin(), symbols.end(), size.symbol) - symbols.begin());
      const std::int64_t count = 1 + (symbol.empty() || size.symbol == symbol ? more : 0);
      inputs[size.input] =
          with_size(inputs[size.input], size.dim, examples[size.input].shape()[size.dim] + count * steps[s]);
    }
    return trace(request, inputs);
  };
  std::vector<ExportedGraph> graphs;
  graphs.push_back(traced("", 0));
  for (const std::string& symbol : symbols) {
    graphs.push_back(traced(symbol, 1));
    graphs.push_back(traced(symbol, 3));
  }
  if (symbols.size() > 1) graphs.push_back(traced("", 1));
  return with_dynamic_sizes(request, std::move(graphs), symbols, steps);
}

}  // namespace
}  // namespace onnx

void save_onnx(const std::string& path, const nn::Module& model, const OnnxFunction& function,
               const std::vector<Tensor>& examples, const OnnxExportOptions& options) {
  const onnx::TraceRequest request{.path = path, .model = model, .function = function, .options = options};
  onnx::check_request(request, examples);
  const onnx::ExportedGraph graph = onnx::traced_with_sizes(request, examples);
  const std::string data_path = path + ".data";
  onnx::File bytes(graph, options, std::filesystem::path(data_path).filename().string());
  const std::vector<onnx::Piece> pieces = bytes.model();
  os::AtomicFile file(path);
  onnx::write(file, pieces);
  if (bytes.is_external()) {
    os::AtomicFile data(data_path);
    onnx::write(data, bytes.data());
    data.commit();
  }
  file.commit();
}

void save_onnx(const std::string& path, const nn::Layer& model, const std::vector<Tensor>& examples,
               const OnnxExportOptions& options) {
  if (examples.size() != 1) {
    throw ValueError(fmt::format("{}: {} example inputs for a model that takes one", path, examples.size()));
  }
  const OnnxFunction function = [&](const std::vector<Tensor>& inputs) {
    return std::vector<Tensor>{model.forward(inputs[0])};
  };
  save_onnx(path, model, function, examples, options);
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
