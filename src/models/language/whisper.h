// The network of Whisper in two halves: an encoder that reads a window of sound once, and a decoder that goes on token
// by token. models/language/speech.cpp decides what is said.
#pragma once

#include <vector>

#include "models/language/attention.h"
#include "models/language/encoder_decoder.h"
#include "models/language/feed_forward.h"

namespace lockstep {
inline namespace v0 {
namespace models {

struct WhisperConfig {
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t mels = 80;
  std::int64_t frames = 0;     ///< Positions of the encoder.
  std::int64_t positions = 0;  ///< Of the decoder.
  std::int64_t encoder_layers = 0;
  std::int64_t decoder_layers = 0;
  std::int64_t encoder_heads = 0;
  std::int64_t decoder_heads = 0;
  std::int64_t encoder_inner = 0;
  std::int64_t decoder_inner = 0;
  double embedding_scale = 1;
  Activation activation = Activation::gelu;
};

/// What the decoder knows of a window, and of the tokens so far.
struct WhisperMemory {
  std::vector<KeysAndValues> window;  ///< Of each decoder layer, from the encoder's result.
  std::vector<LayerMemory> past;
  std::int64_t length = 0;  ///< Tokens so far.
};

class Whisper final : public EncoderDecoder {
 public:
  explicit Whisper(const WhisperConfig& config);
  Tensor forward_pair(const Tensor& input, const Tensor& ids, CallSite site) const override;

  /// features [N, mels, 2 * frames]. ShapeError for others.
  WhisperMemory encode(const Tensor& features) const;
  /// Logits [N, T, vocabulary] of the tokens ids [N, T] behind those that `memory` knows, which it then knows too.
  /// ShapeError for more tokens than there are positions.
  Tensor decode(WhisperMemory& memory, const Tensor& ids) const;
  const WhisperConfig& config() const { return config_; }

 private:
  struct Layer {
    Norm first, cross_norm, last;
    PlainAttention attention, cross;
    FeedForward feed;
  };
  Layer make_layer(const std::string& path, std::int64_t heads, std::int64_t inner, bool decoder);

  WhisperConfig config_;
  ParameterTree tree_{*this};
  nn::Parameter conv1_, conv1_bias_, conv2_, conv2_bias_, frames_, embedding_, positions_;
  std::vector<Layer> encoder_, decoder_;
  Norm encoder_norm_, decoder_norm_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
