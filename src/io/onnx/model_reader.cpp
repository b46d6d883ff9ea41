// parse_model: the messages of onnx.proto, by the numbers of their fields. A graph inside of an attribute is put on a
// list and read when its turn comes, so depth costs no stack.
#include <algorithm>
#include <bit>
#include <set>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "io/onnx/model.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

constexpr std::int64_t kOldestIr = 3;
constexpr std::int64_t kNewestIr = 14;
constexpr std::size_t kMostNodes = 131'072;
constexpr std::size_t kMostTensors = 131'072;
constexpr std::size_t kMostAttributes = 524'288;
constexpr std::size_t kMostNames = 1'048'576;
constexpr std::size_t kMostNumbers = 4'194'304;
constexpr std::size_t kMostFunctions = 4'096;
constexpr std::size_t kMostOpsets = 256;
constexpr std::size_t kLongestName = 65'536;
constexpr int kDeepest = 64;

class ModelParser {
 public:
  explicit ModelParser(os::FileBytes file) : model_(std::make_shared<Model>()) { model_->file = std::move(file); }

  std::shared_ptr<const Model> parse() {
    read_model({model_->file.bytes, 0});
    while (!pending_.empty()) {
      const Pending next = pending_.back();
      pending_.pop_back();
      read_graph(*next.graph, next.message);
    }
    return model_;
  }

 private:
  struct Pending {
    ModelGraph* graph;
    Bytes message;
  };

  MessageReader open(Bytes message, std::string_view what) const { return {model_->file.path, message, what}; }

  // Counts against a limit of the whole file.
  void count(std::size_t& counter, std::size_t amount, std::size_t most, std::string_view what) const {
    counter += amount;
    if (counter > most) throw FormatError(fmt::format("{}: has more than {} {}", model_->file.path, most, what));
  }
  std::string_view name(MessageReader& reader, std::string_view text) {
    if (text.size() > kLongestName) reader.fail(fmt::format("has a name of {} bytes", text.size()));
    return text;
  }
  std::string_view edge(MessageReader& reader, std::string_view text) {
    count(names_, 1, kMostNames, "names of inputs and outputs");
    return name(reader, text);
  }
  static std::string_view plain_domain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

  void read_model(Bytes message) {
    MessageReader reader = open(message, "the model");
    Field field;
    while (reader.next(field)) {
      switch (field.number) {
        case 1: model_->ir_version = reader.integer(field); break;
        case 2: model_->producer = name(reader, reader.text(field)); break;
        case 3: model_->producer_version = name(reader, reader.text(field)); break;
        case 7: {
          ModelGraph& graph = model_->graphs.emplace_back();
          pending_.push_back({&graph, reader.message(field)});
          model_->graph = &graph;
          break;
        }
        case 8: read_opset(reader.repeated_message(field), model_->opsets); break;
        case 14: read_metadata(reader.repeated_message(field)); break;
        case 25: read_function(reader.repeated_message(field)); break;
        default: break;
      }
    }
    if (model_->ir_version < kOldestIr || model_->ir_version > kNewestIr) {
      reader.fail(fmt::format("is of IR version {}; {} to {} are read", model_->ir_version, kOldestIr, kNewestIr));
    }
    if (model_->graph == nullptr) reader.fail("has no graph");
    if (model_->opsets.empty()) reader.fail("states no operator set");
  }

  void read_metadata(Bytes message) {
    MessageReader reader = open(message, "a metadata entry");
    std::pair<std::string_view, std::string_view> entry;
    Field field;
    while (reader.next(field)) {
      if (field.number == 1) entry.first = name(reader, reader.text(field));
      if (field.number == 2) entry.second = reader.text(field);
    }
    if (model_->metadata.size() == 4096) reader.fail("is one of more than 4096");
    model_->metadata.push_back(entry);
  }

  void read_opset(Bytes message, OpsetImports& imports) {
    MessageReader reader = open(message, "an operator set");
    std::string_view domain;
    std::int64_t version = 0;
    Field field;
    while (reader.next(field)) {
      if (field.number == 1) domain = plain_domain(name(reader, reader.text(field)));
      if (field.number == 2) version = reader.integer(field);
    }
    if (version < 1 || version > 1'000'000) reader.fail(fmt::format("is of version {}", version));
    const auto [entry, added] = imports.emplace(domain, version);
    if (!added && entry->second != version) {
      reader.fail(
          fmt::format("of domain {} is imported as version {} and as {}", in_quotes(domain), entry->second, version));
    }
    count(opsets_, 1, kMostOpsets, "imports of operator sets");
  }

  void read_function(Bytes message) {
    count(functions_, 1, kMostFunctions, "functions");
    ModelFunction& function = model_->functions.emplace_back();
    function.body.depth = 1;
    MessageReader reader = open(message, "a function");
    Field field;
    while (reader.next(field)) {
      switch (field.number) {
        case 1: function.name = name(reader, reader.text(field)); break;
        case 4: function.inputs.push_back(edge(reader, reader.repeated_text(field))); break;
        case 5: function.outputs.push_back(edge(reader, reader.repeated_text(field))); break;
        case 6: function.attributes.push_back(edge(reader, reader.repeated_text(field))); break;
        case 7: read_node(function.body, reader.repeated_message(field)); break;
        case 9: read_opset(reader.repeated_message(field), function.opsets); break;
        case 10: function.domain = plain_domain(name(reader, reader.text(field))); break;
        case 11: function.defaults.push_back(read_attribute(reader.repeated_message(field), 1)); break;
        case 13: function.overload = name(reader, reader.text(field)); break;
        default: break;
      }
    }
    if (function.name.empty()) reader.fail("has no name");
  }

  void read_graph(ModelGraph& graph, Bytes message) {
    MessageReader reader = open(message, "a graph");
    Field field;
    while (reader.next(field)) {
      switch (field.number) {
        case 1: read_node(graph, reader.repeated_message(field)); break;
        case 2: graph.name = name(reader, reader.text(field)); break;
        case 5: graph.initialisers.push_back(read_tensor(reader.repeated_message(field))); break;
        case 11: graph.inputs.push_back(read_value(reader.repeated_message(field))); break;
        case 12: graph.outputs.push_back(read_value(reader.repeated_message(field))); break;
        case 15: graph.sparse_initialisers.push_back(read_sparse(reader.repeated_message(field))); break;
        default: break;
      }
    }
  }

  std::string_view read_sparse(Bytes message) {
    MessageReader reader = open(message, "a sparse tensor");
    std::string_view result;
    Field field;
    while (reader.next(field)) {
      if (field.number == 1) result = read_tensor(reader.message(field))->name;
    }
    return result;
  }

  const ModelTensor* read_tensor(Bytes message) {
    count(tensors_, 1, kMostTensors, "tensors");
    model_->tensors.push_back(parse_tensor(model_->file.path, message));
    return &model_->tensors.back();
  }

  void read_node(ModelGraph& graph, Bytes message) {
    count(nodes_, 1, kMostNodes, "nodes");
    ModelNode& node = graph.nodes.emplace_back();
    MessageReader reader = open(message, "a node");
    Field field;
    while (reader.next(field)) {
      switch (field.number) {
        case 1: node.inputs.push_back(edge(reader, reader.repeated_text(field))); break;
        case 2: node.outputs.push_back(edge(reader, reader.repeated_text(field))); break;
        case 3: node.name = name(reader, reader.text(field)); break;
        case 4: node.op = name(reader, reader.text(field)); break;
        case 5: node.attributes.push_back(read_attribute(reader.repeated_message(field), graph.depth)); break;
        case 7: node.domain = plain_domain(name(reader, reader.text(field))); break;
        case 8: node.overload = name(reader, reader.text(field)); break;
        default: break;
      }
    }
    if (node.op.empty()) reader.fail("names no operator");
    std::vector<std::string_view> names;
    for (const Attribute* attribute : node.attributes) names.push_back(attribute->name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) reader.fail(fmt::format("has attribute {} twice", in_quotes(*twice)));
  }

  const Attribute* read_attribute(Bytes message, int depth) {
    count(attributes_, 1, kMostAttributes, "attributes");
    Attribute& attribute = model_->attributes.emplace_back();
    MessageReader reader = open(message, "an attribute");
    std::int64_t type = 0;
    Field field;
    while (reader.next(field)) {
      switch (field.number) {
        case 1: attribute.name = name(reader, reader.text(field)); break;
        case 2:
          attribute.number = reader.number(field);
          note(attribute, AttributeType::number);
          break;
        case 3:
          attribute.integer = reader.integer(field);
          note(attribute, AttributeType::integer);
          break;
        case 4:
          attribute.text = reader.text(field);
          note(attribute, AttributeType::text);
          break;
        case 5:
          attribute.tensor = read_tensor(reader.message(field));
          note(attribute, AttributeType::tensor);
          break;
        case 6:
          attribute.graph = read_subgraph(reader, reader.message(field), depth);
          note(attribute, AttributeType::graph);
          break;
        case 7:
          for_each_number(model_->file.path, field, Wire::fixed32, [&](std::uint64_t bits) {
            count(numbers_, 1, kMostNumbers, "numbers in attributes");
            attribute.numbers.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
          });
          note(attribute, AttributeType::numbers);
          break;
        case 8:
          for_each_number(model_->file.path, field, Wire::varint, [&](std::uint64_t value) {
            count(numbers_, 1, kMostNumbers, "numbers in attributes");
            attribute.integers.push_back(static_cast<std::int64_t>(value));
          });
          note(attribute, AttributeType::integers);
          break;
        case 9:
          count(names_, 1, kMostNames, "names of inputs and outputs");
          attribute.texts.push_back(reader.repeated_text(field));
          note(attribute, AttributeType::texts);
          break;
        case 10: note(attribute, AttributeType::tensors); break;
        case 11: note(attribute, AttributeType::graphs); break;
        case 14: note(attribute, AttributeType::type_proto); break;
        case 15: note(attribute, AttributeType::type_protos); break;
        case 20: type = reader.integer(field); break;
        case 21: attribute.refers_to = name(reader, reader.text(field)); break;
        case 22: note(attribute, AttributeType::sparse_tensor); break;
        case 23: note(attribute, AttributeType::sparse_tensors); break;
        default: break;
      }
    }
    settle_type(reader, attribute, type);
    return &attribute;
  }

  // The kinds of values that an attribute holds, a bit each.
  void note(Attribute& attribute, AttributeType type) {
    if (&attribute != noted_) held_ = 0;
    noted_ = &attribute;
    held_ |= 1u << static_cast<unsigned>(type);
  }

  // Old files do not state the type; then the one value that there is says it. Empty lists need the statement.
  void settle_type(MessageReader& reader, Attribute& attribute, std::int64_t stated) {
    const unsigned held = noted_ == &attribute ? held_ : 0;
    if (attribute.name.empty()) reader.fail("has no name");
    if (stated < 0 || stated > static_cast<int>(AttributeType::type_protos)) {
      reader.fail(fmt::format("{} is of type {}", in_quotes(attribute.name), stated));
    }
    if (std::popcount(held) > 1) reader.fail(fmt::format("{} has values of two types", in_quotes(attribute.name)));
    if (!attribute.refers_to.empty() && held != 0) {
      reader.fail(fmt::format("{} has a value and a reference", in_quotes(attribute.name)));
    }
    attribute.type = static_cast<AttributeType>(stated);
    if (held == 0) return;
    const auto found = static_cast<AttributeType>(std::countr_zero(held));
    if (stated == 0) attribute.type = found;
    if (attribute.type != found) reader.fail(fmt::format("{} is not of the type it states", in_quotes(attribute.name)));
  }

  const ModelGraph* read_subgraph(MessageReader& reader, Bytes message, int depth) {
    if (depth == kDeepest) reader.fail(fmt::format("has graphs in graphs more than {} deep", kDeepest));
    ModelGraph& graph = model_->graphs.emplace_back();
    graph.depth = depth + 1;
    pending_.push_back({&graph, message});
    return &graph;
  }

  ModelValue read_value(Bytes message) {
    count(names_, 1, kMostNames, "names of inputs and outputs");
    ModelValue value;
    MessageReader reader = open(message, "an input or output");
    Field field;
    while (reader.next(field)) {
      if (field.number == 1) value.name = name(reader, reader.text(field));
      if (field.number == 2) read_type(reader.message(field), value);
    }
    if (value.name.empty()) reader.fail("has no name");
    return value;
  }

  // A tensor, a sequence of tensors, an optional of either: deeper types are not told apart.
  void read_type(Bytes message, ValueKind inside, ModelValue& value) {
    MessageReader reader = open(message, "a type");
    Field field;
    while (reader.next(field)) {
      if (field.number == 1) {
        value.kind = inside;
        read_tensor_type(reader.message(field), value);
      } else if (field.number == 4 && inside != ValueKind::sequence && inside != ValueKind::optional_sequence) {
        read_element_type(reader.message(field),
                          inside == ValueKind::optional ? ValueKind::optional_sequence : ValueKind::sequence, value);
      } else if (field.number == 9 && inside == ValueKind::tensor) {
        read_element_type(reader.message(field), ValueKind::optional, value);
      } else if (field.number != 6) {
        value.kind = ValueKind::other;
      }
    }
  }
  void read_type(Bytes message, ModelValue& value) { read_type(message, ValueKind::tensor, value); }
  void read_element_type(Bytes message, ValueKind inside, ModelValue& value) {
    value.kind = inside;
    MessageReader reader = open(message, "a type");
    Field field;
    while (reader.next(field)) {
      if (field.number == 1) read_type(reader.message(field), inside, value);
    }
  }

  void read_tensor_type(Bytes message, ModelValue& value) {
    MessageReader reader = open(message, "a type of tensors");
    Field field;
    while (reader.next(field)) {
      if (field.number == 1) value.type = reader.integer(field);
      if (field.number == 2) read_shape(reader.message(field), value.shape.emplace());
    }
  }

  void read_shape(Bytes message, std::vector<Dimension>& shape) {
    MessageReader reader = open(message, "a shape");
    Field field;
    while (reader.next(field)) {
      if (field.number != 1) continue;
      count(names_, 1, kMostNames, "names of inputs and outputs");
      MessageReader size = open(reader.repeated_message(field), "a size");
      Dimension& dimension = shape.emplace_back();
      Field part;
      while (size.next(part)) {
        if (part.number == 1) dimension.size = size.integer(part);
        if (part.number == 2) dimension.symbol = name(size, size.text(part));
      }
      if (dimension.size && *dimension.size < 0) dimension.size.reset();  // -1 is how some exporters say: unknown
    }
  }

  std::shared_ptr<Model> model_;
  std::vector<Pending> pending_;
  const Attribute* noted_ = nullptr;
  unsigned held_ = 0;
  std::size_t nodes_ = 0;
  std::size_t tensors_ = 0;
  std::size_t attributes_ = 0;
  std::size_t names_ = 0;
  std::size_t numbers_ = 0;
  std::size_t functions_ = 0;
  std::size_t opsets_ = 0;
};

}  // namespace

std::shared_ptr<const Model> parse_model(os::FileBytes file) {
  return ModelParser(std::move(file)).parse();
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
