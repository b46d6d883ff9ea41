// What the rules of export write with: values get names, nodes their places, constants become initialisers.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/record.h"
#include "graph/recording.h"
#include "io/onnx/export/exported_graph.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

class GraphBuilder {
 public:
  using StateNames = std::map<const graph::Node*, std::pair<std::string, Tensor>>;

  GraphBuilder(int opset, const StateNames& state) : opset_(opset), state_(state) {}

  int opset() const { return opset_; }

  /// Declares an input of the graph.
  void add_input(const std::string& name, const Tensor& value);
  /// A node; the name of its output.
  std::string add(std::string_view op, std::vector<std::string> inputs, Attributes attributes = {},
                  std::string_view domain = "");
  /// The same of a node of which the output `output` is wanted; those before it are not.
  std::string add_output(std::string_view op, std::vector<std::string> inputs, Attributes attributes,
                         std::size_t output);
  std::string sizes(std::vector<std::int64_t> values);
  std::string sizes(const Shape& shape) { return sizes({shape.begin(), shape.end()}); }
  std::string constant(const Tensor& value);
  /// A number without dimensions.
  std::string scalar(double value, DType dtype);
  std::string reshape(const std::string& value, const Shape& from, const Shape& to);
  std::string cast(const std::string& value, DType from, DType to);
  std::string transpose(const std::string& value, const Shape& order);

  /// The name of a node's value. It has one already, is a parameter, or a constant, which then becomes an initialiser.
  std::string name_of(const graph::NodeRef& node);
  bool is_named(const graph::Node* node) const { return names_.contains(node); }
  void set_name(const graph::NodeRef& node, std::string name) { names_[node.get()] = std::move(name); }

  /// Where the nodes that follow come from.
  void begin(const graph::NodeRef& node);
  /// The module whose parameters were used last; empty before the first.
  const std::string& module() const { return module_; }

  ExportedGraph& graph() { return graph_; }
  std::string unique(const std::string& wanted);

 private:
  int opset_;
  const StateNames& state_;
  ExportedGraph graph_;
  std::map<const graph::Node*, std::string> names_;
  std::vector<graph::NodeRef> kept_;  ///< whose addresses are keys
  std::set<std::string> taken_;
  std::map<std::string, int> counts_;
  std::string path_;    ///< of the node that is written: the module of its parameters
  std::string module_;  ///< the last of those
  std::string story_;
};

/// Writes what one recorded call computes, under the name it returns. Only for those that `can_write_call`.
std::string write_call(GraphBuilder& builder, const graph::RecordedCall& call, const graph::Node& result);
bool can_write_call(int opset, const graph::RecordedCall& call, const graph::Node& result);

/// What one primitive computes of `inputs`. An empty name: there is no such operator, for the reason in `problem`.
std::string write_primitive(GraphBuilder& builder, const graph::Node& node, const std::vector<graph::NodeRef>& inputs,
                            std::string& problem);

/// A view of the dense elements of `base`.
std::string write_view(GraphBuilder& builder, const std::string& base, const Shape& base_shape, const View& view,
                       DType dtype);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
