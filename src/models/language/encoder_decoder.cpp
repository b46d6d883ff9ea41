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

Tensor PlainAttention::heads_of(const Tensor& x) const {
  return x.unflatten(-1, {options_.heads, -1}).transpose(1, 2);
}

KeysAndValues PlainAttention::keys_and_values(const Tensor& memory) const {
  return {heads_of(key_(memory)), heads_of(value_(memory))};
}

Tensor PlainAttention::attend(const Tensor& x, const KeysAndValues& memory, AttentionOptions options) const {
  options.scale = options_.scale;
  const Tensor result = scaled_dot_product_attention(heads_of(query_(x)), memory.keys, memory.values, options);
  return output_(result.transpose(1, 2).flatten(2, 3));
}

Tensor PlainAttention::operator()(const Tensor& x, const Tensor& memory, bool causal, const Tensor& bias) const {
  AttentionOptions options{.causal = causal};
  if (bias.defined()) options.mask = bias;
  return attend(x, keys_and_values(memory), options);
}

Tensor EncoderDecoder::forward(const Tensor&, LanguageCache*, CallSite) const {
  throw ValueError(
      fmt::format("{} has an encoder and a decoder: give the input of both (forward_pair, --decoder-tokens)", family_));
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
