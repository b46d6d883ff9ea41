// Models of two halves: an encoder that reads the input, and a decoder that sees what the encoder made of it.
//   T5: "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", Raffel et al., 2019.
//   Whisper: "Robust Speech Recognition via Large-Scale Weak Supervision", Radford et al., 2022.
#pragma once

#include <vector>

#include <lockstep/models/language.h>

#include <lockstep/ops.h>

#include "io/json_fields.h"
#include "models/language/attention.h"
#include "models/language/parameters.h"

namespace lockstep {
inline namespace v0 {
namespace models {

/// [N, heads, L, head_dim] each.
struct KeysAndValues {
  Tensor keys;
  Tensor values;
};

/// Attention of queries from one sequence to keys of the same or another one.
class PlainAttention {
 public:
  struct Names {
    std::string query, key, value, output;
  };
  struct Options {
    std::int64_t heads = 0;
    std::int64_t head_dim = 0;
    bool bias = false;  ///< Of all but the keys.
    double scale = 1;
  };
  PlainAttention() = default;
  PlainAttention(ParameterTree& tree, const std::string& path, const Names& names, std::int64_t hidden,
                 const Options& options);
  /// `bias` [1, heads, L, S] is added to the scores, and may be undefined.
  Tensor operator()(const Tensor& x, const Tensor& memory, bool causal, const Tensor& bias) const;
  /// The same in two parts; of `options` the scale is this layer's.
  KeysAndValues keys_and_values(const Tensor& memory) const;
  Tensor attend(const Tensor& x, const KeysAndValues& memory, AttentionOptions options) const;

 private:
  Tensor heads_of(const Tensor& x) const;

  Options options_;
  Projection query_, key_, value_, output_;
};

/// What both have in common with decoders: logits, but no cache yet.
class EncoderDecoder : public LanguageModel {
 public:
  Tensor forward(const Tensor& ids, LanguageCache* cache, CallSite site) const final;
  std::unique_ptr<LanguageCache> make_cache() const final;
  const std::string& family() const final { return family_; }
  std::int64_t vocabulary() const final { return vocabulary_; }
  std::int64_t context() const final { return 0; }

 protected:
  EncoderDecoder(std::string family, std::int64_t vocabulary) : family_(std::move(family)), vocabulary_(vocabulary) {}

 private:
  std::string family_;
  std::int64_t vocabulary_;
};

std::unique_ptr<LanguageModel> create_t5(const io::JsonFields& config);
std::unique_ptr<LanguageModel> create_whisper(const io::JsonFields& config);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
