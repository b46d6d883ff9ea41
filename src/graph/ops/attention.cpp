// scaled_dot_product_attention: as one kernel, or in blocks.
#include <cmath>

#include <lockstep/autograd.h>
#include <lockstep/ops/attention.h>

#include "graph/autocast.h"
#include "graph/make.h"
#include "graph/numerics.h"
#include "graph/ops/attention_blocks.h"
#include "graph/ops/attention_fused.h"
#include "graph/recording.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor scaled_dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                                    const AttentionOptions& options) {
  const CallScope call("scaled_dot_product_attention", query);
  const DType to = autocast_dtype();
  if (is_autocasting()) return with_autocast(to, scaled_dot_product_attention, query, key, value, options);
  const Numerics numerics = query.is_scalar() ? Numerics::exact : numerics_of(query.tensor().dtype());
  const bool are_tensors = !query.is_scalar() && !key.is_scalar() && !value.is_scalar();
  const bool is_traced = are_tensors && is_tracing({&query.tensor(), &key.tensor(), &value.tensor()});
  bool begins = false;
  const std::pair<Tensor, Tensor> both = [&]() -> std::pair<Tensor, Tensor> {
    const NoGrad no_grad;
    const InnerNumerics inner(numerics);
    const AttentionCall attention(query, key, value, options);
    if (is_traced && keeps_weights(attention)) return attention_and_weights(attention);
    if (is_fused(attention)) {
      begins = is_much(attention);
      return fused_attention(attention);
    }
    if (is_fused_step(attention)) return {fused_attention_step(attention), Tensor()};
    return {attention_in_blocks(attention), Tensor()};
  }();
  const Tensor& result = both.first;
  const Tensor& made = both.second;  // by a fused kernel, for its gradients; on the host weights
  const std::int64_t rows = query.tensor().shape()[query.tensor().rank() - 2];
  const std::int64_t keys = key.tensor().shape()[key.tensor().rank() - 2];
  const bool aligned = options.alignment == CausalAlignment::top_left || rows == keys;
  if (numerics == Numerics::exact && !options.first_query && !options.window_left && !options.window_right &&
      !(options.softcap > 0) && (!options.causal || aligned)) {
    const double features = static_cast<double>(query.tensor().shape().back());
    recorded(result, "attention", {&query.tensor(), &key.tensor(), &value.tensor(), pointer_to(options.mask)},
             {{options.causal ? 1 : 0, options.enable_gqa ? 1 : 0}},
             {options.scale.value_or(features == 0 ? 1.0 : 1.0 / std::sqrt(features))});
  }
  std::vector<const Tensor*> operands{&query.tensor(), &key.tensor(), &value.tensor()};
  if (options.mask && is_float(options.mask->dtype())) operands.push_back(&*options.mask);
  if (!is_tracing(operands)) {
    if (begins) flush_if_large(result.device(), true);
    return result;
  }
  return traced(
      result, operands,
      [q = query.tensor(), k = key.tensor(), v = value.tensor(), made, options, numerics](
          const Tensor& g, const std::vector<bool>& wanted, const Tensor& out) {
        const InnerNumerics inner(numerics);
        const AttentionCall attention({q}, {k}, {v}, options);
        // Gradients of gradients are those of the composition.
        const bool is_last = !is_tracing({&q, &k, &v, &g, &out});
        if (made.defined() && is_last && numerics == Numerics::exact) {
          return attention_gradients(attention, g, out, wanted, made);
        }
        return made.defined() && is_last && has_fused_gradients(attention, g)
                   ? fused_attention_gradients(attention, g, made)
                   : attention_gradients(attention, g, out, wanted, Tensor());
      },
      true);
}

}  // namespace v0
}  // namespace lockstep
