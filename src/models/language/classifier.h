// The head of models for labels: a text's last hidden states to a logit for each label.
#pragma once

#include "io/json_fields.h"
#include "models/language/gguf_architectures.h"
#include "models/language/parameters.h"

namespace lockstep {
inline namespace v0 {
namespace models {

class Classifier {
 public:
  Classifier() = default;
  Classifier(ParameterTree& tree, const DecoderConfig& config);
  /// [N, L, hidden] to [N, labels].
  Tensor operator()(const Tensor& states) const;

 private:
  ClassifierConfig config_;
  bool has_dense_ = false;
  bool has_output_ = false;
  Projection dense_;
  Norm norm_;
  Projection output_;
};

/// Of a config.json whose architectures name one for sequence classification; others change nothing. FormatError for
/// encoders whose head is not known.
void read_classifier(const io::JsonFields& config, DecoderConfig& result);
/// Of a GGUF file with tensors of a head.
void read_gguf_classifier(const GgufSource& source, DecoderConfig& result);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
