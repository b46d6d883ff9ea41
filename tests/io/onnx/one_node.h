// Files of one node, all of whose operands are inputs of the model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/io/tensor_file.h>

#include "io/onnx/export/exported_graph.h"
#include "io/onnx/export/message_writer.h"

namespace lockstep::test {

struct OneNode {
  std::string op;
  std::vector<std::string> operands;  // in the node's order; those that are no values are absent
  std::vector<std::string> results;
  std::vector<std::pair<std::string, std::variant<std::int64_t, float, std::string>>> attributes;
  std::string domain;
};

inline io::onnx::MessageWriter value_info(const std::string& name, const Tensor& value) {
  io::onnx::MessageWriter shape, tensor, type, info;
  for (int d = 0; d < value.rank(); ++d) {
    io::onnx::MessageWriter dim;
    dim.integer(1, value.size(d));
    shape.message(1, dim);
  }
  tensor.integer(1, io::onnx::data_type_of(value.dtype()));
  tensor.message(2, shape);
  type.message(1, tensor);
  info.text(1, name);
  info.message(2, type);
  return info;
}

/// Of integers of one byte.
inline io::onnx::MessageWriter initializer(const std::string& name, const Tensor& value) {
  io::onnx::MessageWriter tensor;
  for (int d = 0; d < value.rank(); ++d) tensor.integer(1, value.size(d));
  tensor.integer(2, io::onnx::data_type_of(value.dtype()));
  tensor.text(8, name);
  std::string bytes;
  for (const std::int32_t byte : value.to(DType::i32).to_vector<std::int32_t>()) bytes += static_cast<char>(byte);
  tensor.text(9, bytes);
  return tensor;
}

/// `values`: with the shapes and dtypes that the operands have. `weights`: operands of bytes that stand in the file.
inline std::string model_of(const OneNode& node, const io::TensorMap& values, const io::TensorMap& weights = {}) {
  using io::onnx::MessageWriter;
  MessageWriter written, graph, model;
  for (const std::string& name : node.operands) {
    written.text(1, values.contains(name) || weights.contains(name) ? name : "");
  }
  for (const std::string& name : node.results) written.text(2, name);
  written.text(4, node.op);
  for (const auto& [name, value] : node.attributes) {
    MessageWriter attribute;
    attribute.text(1, name);
    if (const auto* number = std::get_if<float>(&value)) attribute.number(2, *number);
    if (const auto* integer = std::get_if<std::int64_t>(&value)) attribute.integer(3, *integer);
    if (const auto* text = std::get_if<std::string>(&value)) attribute.text(4, *text);
    attribute.integer(20, value.index() == 0 ? 2 : value.index() == 1 ? 1 : 3);
    written.message(5, attribute);
  }
  written.text(7, node.domain);
  graph.message(1, written);
  graph.text(2, "one_node");
  for (const auto& [name, value] : weights) graph.message(5, initializer(name, value));
  for (const auto& [name, value] : values) graph.message(11, value_info(name, value));
  for (const std::string& name : node.results) {
    MessageWriter info;
    info.text(1, name);
    graph.message(12, info);
  }
  model.integer(1, 8);
  model.message(7, graph);
  for (const auto& [domain, version] : {std::pair("", 17), std::pair("com.microsoft", 1)}) {
    MessageWriter opset;
    opset.text(1, domain);
    opset.integer(2, version);
    model.message(8, opset);
  }
  return model.bytes();
}

}  // namespace lockstep::test
