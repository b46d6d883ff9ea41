// Sizes that callers of a file choose: what several traces have in common is the program, and the numbers in which they
// differ are those that follow the sizes, each as c0 + c1 * size.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "io/onnx/export/trace.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// A number as a sum: constant + sum of factor * symbol.
struct Linear {
  std::int64_t constant = 0;
  std::vector<std::int64_t> factors;
  bool is_constant() const {
    return std::all_of(factors.begin(), factors.end(), [](std::int64_t factor) { return factor == 0; });
  }
};

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const auto bytes_of = [](const Tensor& tensor) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()));
    tensor.read_bytes(bytes.data());
    return bytes;
  };
  return bytes_of(a) == bytes_of(b);
}

class Merge {
 public:
  Merge(const TraceRequest& request, std::vector<ExportedGraph> graphs, const std::vector<std::string>& symbols,
        const std::vector<std::int64_t>& steps)
      : request_(request), graphs_(std::move(graphs)), symbols_(symbols), steps_(steps) {}

  ExportedGraph run() {
    for (std::size_t g = 1; g < graphs_.size(); ++g) check_same(g);
    find_symbols();
    ExportedGraph& graph = graphs_[0];
    std::vector<ExportedSizes> fixed;
    for (std::size_t i = 0; i < graph.sizes.size(); ++i) {
      std::vector<Linear> values;
      for (std::size_t k = 0; k < graph.sizes[i].sizes.size(); ++k) {
        values.push_back(linear([&](const ExportedGraph& g) { return g.sizes[i].sizes[k]; }, graph.sizes[i].name));
      }
      const bool is_fixed = std::all_of(values.begin(), values.end(), [](const Linear& v) { return v.is_constant(); });
      if (is_fixed) {
        fixed.push_back(graph.sizes[i]);
      } else {
        compute(graph.sizes[i].name, values);
      }
    }
    name_sizes(graph.inputs, [](ExportedGraph& g) -> std::vector<ExportedValue>& { return g.inputs; });
    name_sizes(graph.outputs, [](ExportedGraph& g) -> std::vector<ExportedValue>& { return g.outputs; });
    fixed.insert(fixed.end(), numbers_.begin(), numbers_.end());
    graph.sizes = std::move(fixed);
    prologue_.insert(prologue_.end(), std::make_move_iterator(graph.nodes.begin()),
                     std::make_move_iterator(graph.nodes.end()));
    graph.nodes = std::move(prologue_);
    return std::move(graph);
  }

 private:
  [[noreturn]] void refuse(std::size_t graph, const std::string& what) const {
    throw ValueError(fmt::format("{}: the size '{}' cannot be dynamic: {}", request_.path,
                                 symbols_[std::min((graph - 1) / 2, symbols_.size() - 1)], what));
  }

  // Every call of both traces is the same, but for numbers that are sizes.
  void check_same(std::size_t g) const {
    const ExportedGraph& a = graphs_[0];
    const ExportedGraph& b = graphs_[g];
    const std::size_t count = std::min(a.nodes.size(), b.nodes.size());
    for (std::size_t i = 0; i < count; ++i) {
      const ExportedNode& x = a.nodes[i];
      const ExportedNode& y = b.nodes[i];
      if (x.op != y.op || x.domain != y.domain || x.inputs != y.inputs || x.outputs != y.outputs) {
        refuse(g, fmt::format("the computation changes with it from {} on", x.story));
      }
      if (x.attributes != y.attributes) refuse(g, fmt::format("the settings of {} of {} follow it", x.op, x.story));
    }
    const auto same_lists = [](const ExportedSizes& x, const ExportedSizes& y) {
      return x.name == y.name && x.sizes.size() == y.sizes.size();
    };
    if (a.nodes.size() != b.nodes.size() || a.tensors.size() != b.tensors.size() ||
        !std::equal(a.sizes.begin(), a.sizes.end(), b.sizes.begin(), b.sizes.end(), same_lists)) {
      refuse(g, "the computation changes with it");
    }
    for (std::size_t i = 0; i < a.tensors.size(); ++i) {
      const ExportedTensor& x = a.tensors[i];
      const ExportedTensor& y = b.tensors[i];
      if (x.name != y.name || x.is_state != y.is_state || (!x.is_state && !same_bytes(x.value, y.value))) {
        refuse(g, fmt::format("a constant follows it: that of {}", reader_of(x.name)));
      }
    }
  }

  std::string reader_of(const std::string& name) const {
    for (const ExportedNode& node : graphs_[0].nodes) {
      if (std::find(node.inputs.begin(), node.inputs.end(), name) != node.inputs.end())
        return fmt::format("{} in {}", node.op, node.story);
    }
    return "an output";
  }

  template <typename Number> Linear linear(const Number& number, const std::string& list) const {
    Linear result{.constant = number(graphs_[0]), .factors = {}};
    std::int64_t together = 0;
    for (std::size_t s = 0; s < symbols_.size(); ++s) {
      const std::int64_t first = number(graphs_[1 + 2 * s]) - number(graphs_[0]);
      const std::int64_t second = number(graphs_[2 + 2 * s]) - number(graphs_[0]);
      if (first % steps_[s] != 0 || second != 3 * first) {
        refuse(1 + 2 * s, fmt::format("a size of {} is no sum of multiples of it", reader_of(list)));
      }
      together += first;
      result.factors.push_back(first / steps_[s]);
      result.constant -= result.factors.back() * bases_.at(symbols_[s]).size;
    }
    if (symbols_.size() > 1 && number(graphs_.back()) - number(graphs_[0]) != together) {
      refuse(1, fmt::format("a size of {} is a product of it and another", reader_of(list)));
    }
    return result;
  }

  // Where the graph finds the size of each symbol.
  void find_symbols() {
    for (const OnnxDynamicSize& dynamic : request_.options.dynamic) {
      const ExportedValue& input = graphs_[0].inputs[dynamic.input];
      bases_.try_emplace(dynamic.symbol, Place{input.name, dynamic.dim, input.shape[dynamic.dim]});
    }
  }

  std::string number(std::int64_t value) {
    const std::string name = fmt::format("/number_{}", value);
    const bool known =
        std::any_of(numbers_.begin(), numbers_.end(), [&](const ExportedSizes& number) { return number.name == name; });
    if (!known) numbers_.push_back({name, {value}});
    return name;
  }

  std::string add(const char* op, std::vector<std::string> inputs, Attributes attributes = {}, std::string name = {}) {
    if (name.empty()) name = fmt::format("/size_{}", ++count_);
    prologue_.push_back({.op = op,
                         .domain = {},
                         .inputs = std::move(inputs),
                         .outputs = {name},
                         .attributes = std::move(attributes),
                         .story = {}});
    return name;
  }

  std::string size_of_symbol(const std::string& symbol) {
    std::string& known = sizes_[symbol];
    if (known.empty()) {
      const Place& place = bases_.at(symbol);
      known = add("Gather", {add("Shape", {place.input}), number(place.dim)}, {{"axis", std::int64_t{0}}});
    }
    return known;
  }

  std::string value_of(const Linear& value) {
    std::string sum;
    for (std::size_t s = 0; s < symbols_.size(); ++s) {
      if (value.factors[s] == 0) continue;
      std::string term = size_of_symbol(symbols_[s]);
      if (value.factors[s] != 1) term = add("Mul", {term, number(value.factors[s])});
      sum = sum.empty() ? term : add("Add", {sum, term});
    }
    if (sum.empty()) return number(value.constant);
    return value.constant == 0 ? sum : add("Add", {sum, number(value.constant)});
  }

  void compute(const std::string& name, const std::vector<Linear>& values) {
    std::vector<std::string> parts;
    for (const Linear& value : values) parts.push_back(value_of(value));
    add("Concat", std::move(parts), {{"axis", std::int64_t{0}}}, name);
  }

  template <typename List> void name_sizes(std::vector<ExportedValue>& values, const List& list) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      ExportedValue& value = values[i];
      value.symbols.resize(static_cast<std::size_t>(value.shape.rank()));
      for (int d = 0; d < value.shape.rank(); ++d) {
        std::vector<std::size_t> following;
        bool is_symbol = true;
        for (std::size_t s = 0; s < symbols_.size(); ++s) {
          const std::int64_t other = list(graphs_[1 + 2 * s])[i].shape[d];
          if (other == value.shape[d]) continue;
          following.push_back(s);
          is_symbol = value.shape[d] == bases_.at(symbols_[s]).size && other - value.shape[d] == steps_[s];
        }
        if (following.empty()) continue;
        value.symbols[static_cast<std::size_t>(d)] =
            following.size() == 1 && is_symbol ? symbols_[following[0]] : std::string("?");
      }
    }
  }

  struct Place {
    std::string input;
    int dim = 0;
    std::int64_t size = 0;
  };

  const TraceRequest& request_;
  std::vector<ExportedGraph> graphs_;
  const std::vector<std::string>& symbols_;
  const std::vector<std::int64_t>& steps_;
  std::map<std::string, Place> bases_;
  std::map<std::string, std::string> sizes_;
  std::vector<ExportedSizes> numbers_;
  std::vector<ExportedNode> prologue_;
  int count_ = 0;
};

}  // namespace

ExportedGraph with_dynamic_sizes(const TraceRequest& request, std::vector<ExportedGraph> graphs,
                                 const std::vector<std::string>& symbols, const std::vector<std::int64_t>& steps) {
  return Merge(request, std::move(graphs), symbols, steps).run();
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
