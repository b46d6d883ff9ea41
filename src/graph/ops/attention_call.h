// What scaled_dot_product_attention was given: checked, over equal leading dimensions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <lockstep/ops/attention.h>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

// Rows that agree about which keys are read.
inline constexpr std::int64_t kTileRows = 128;
// Rows of a step that is one of many alike. With more, hidden keys would cost more than a plan.
inline constexpr std::int64_t kFewRows = 16;

struct AttentionCall {
  AttentionCall(const Operand& given_query, const Operand& given_key, const Operand& given_value,
                const AttentionOptions& given_options);

  /// Whether what a row sees depends on its position.
  bool by_position() const { return behind || before; }
  Shape result_shape() const { return joined_heads(value.shape().back()); }
  /// [..., H, L, last]
  Shape joined_heads(std::int64_t last) const;
  /// [lead..., repeats, L, last]
  Shape with_rows(std::int64_t last) const;

  AttentionOptions options;
  std::vector<Shown> shown;
  Tensor query;  ///< [lead..., repeats, L, E]
  Tensor key;    ///< [lead..., S, E]
  Tensor value;  ///< [lead..., S, V]
  Tensor mask;   ///< [lead..., repeats, L, S], or undefined
  Shape lead;
  std::int64_t repeats = 1;
  std::int64_t rows = 0;  ///< L
  std::int64_t keys = 0;  ///< S
  double scale = 1;
  std::optional<std::int64_t> before;  ///< the least key - row that is visible
  std::optional<std::int64_t> behind;  ///< the largest

 private:
  void check_shapes();
  Shape broadcast(const Shape& a, const Shape& b) const;
  void check_options();
  void check_first_query();
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
