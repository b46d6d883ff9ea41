// What describes a T5, whatever file says it.
#pragma once

#include "models/language/config.h"
#include "models/language/encoder_decoder.h"

namespace lockstep {
inline namespace v0 {
namespace models {

struct T5Config {
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t encoder_layers = 0;
  std::int64_t decoder_layers = 0;
  std::int64_t buckets = 32;
  std::int64_t farthest = 128;
  PlainAttention::Options attention;
  FeedForwardConfig feed;
  NormConfig norm;
  bool tied = true;
  bool scaled = true;  ///< Hidden states are scaled before the product with the embedding.
};

/// With the names of transformers.
std::unique_ptr<LanguageModel> make_t5(const T5Config& config);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
