#include "models/language/encoder_decoder.h"

#include <limits>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace models {

PlainAttention::PlainAttention(ParameterTree& tree, const std::string& path, const Names& names, std::int64_t hidden,
                               const Options& options)
    : options_(options) {
  const std::int64_t inner = options.heads * options.head_dim;
  query_ = Projection(tree, path + names.query, hidden, inner, options.bias);
  key_ = Projection(tree, path + names.key, hidden, inner, false);
  value_ = Projection(tree, path + names.value, hidden, inner, options.bias);
  output_ = Projection(tree, path + names.output, inner, hidden, options.bias);
}

Tensor PlainAttention::operator()(const Tensor& x, const Tensor& memory, bool causal, const Tensor& bias) const {
  const auto heads = [&](const Tensor& y) { return y.unflatten(-1, {options_.heads, -1}).transpose(1, 2); };
  AttentionOptions options{.causal = causal, .scale = options_.scale};
  if (bias.defined()) options.mask = bias;
  const Tensor result =
      scaled_dot_product_attention(heads(query_(x)), heads(key_(memory)), heads(value_(memory)), options);
  return output_(result.transpose(1, 2).flatten(2, 3));
}

Tensor EncoderDecoder::forward(const Tensor&, LanguageCache*, CallSite) const {
  throw ValueError(fmt::format("{} has an encoder and a decoder: use forward_pair with the input of both", family_));
}

std::unique_ptr<LanguageCache> EncoderDecoder::make_cache() const {
  throw ValueError(fmt::format("{}: caches of encoder-decoders are not supported", family_));
}

Tensor LanguageModel::forward_pair(const Tensor&, const Tensor&, CallSite) const {
  throw ValueError(fmt::format("{} has no decoder beside an encoder", family()));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
