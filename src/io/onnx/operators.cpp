#include "io/onnx/operators.h"

#include <map>
#include <string>

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

using Families = std::span<const Operator> (*)();
// One for each file of ops/.
constexpr Families kFamilies[] = {
    attention_operators,
    cast_operators,
    constant_operators,
    contrib_operators,
    contrib_attention_operators,
    contrib_quantized_operators,
    own_operators,
    control_flow_operators,
    convolution_operators,
    elementwise_operators,
    host_operators,
    indexing_operators,
    loss_operators,
    normalization_operators,
    pooling_operators,
    quantization_operators,
    random_operators,
    recurrent_operators,
    reduction_operators,
    resize_operators,
    sequence_operators,
    shape_arithmetic_operators,
    signal_operators,
    streaming_operators,
    detection_operators,
    view_operators,
};

using Key = std::pair<std::string_view, std::string_view>;

const std::multimap<Key, const Operator*>& table() {
  static const auto rows = [] {
    std::multimap<Key, const Operator*> result;
    for (const Families family : kFamilies) {
      for (const Operator& row : family()) result.emplace(Key{row.domain, row.name}, &row);
    }
    return result;
  }();
  return rows;
}

}  // namespace

const Operator* find_operator(std::string_view domain, std::string_view name, int version) {
  const auto [first, last] = table().equal_range(Key{domain, name});
  for (auto row = first; row != last; ++row) {
    if (row->second->since <= version && version <= row->second->until) return row->second;
  }
  return nullptr;
}

bool knows_operator(std::string_view domain, std::string_view name) {
  return table().contains(Key{domain, name});
}

std::vector<const Operator*> all_operators() {
  std::vector<const Operator*> rows;
  for (const Families family : kFamilies) {
    for (const Operator& row : family()) rows.push_back(&row);
  }
  return rows;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
