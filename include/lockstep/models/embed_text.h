// Texts as vectors, to compare or search by: the hidden states of a language model, pooled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/models/language.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// What becomes of the hidden states of a text's tokens: their mean, that of the first token, or that of the last.
enum class Pooling : std::uint8_t { mean, cls, last };

/// "mean", "cls", "last". ValueError for other words.
LOCKSTEP_API Pooling parse_pooling(const std::string& word);

/// As a model's files say it: 1_Pooling/config.json of sentence-transformers, pooling_type of a GGUF file. Where they
/// say nothing: the mean for encoders, the last token for decoders. FormatError for a way that is none of these, and
/// for steps behind it (modules.json) that are no normalisation.
LOCKSTEP_API Pooling pooling_of(const std::string& path, const LanguageModel& model);

struct EmbedTextOptions {
  Pooling pooling = Pooling::mean;
  bool normalize = true;  ///< To length 1.  torch.nn.functional.normalize
};

/// tokens of one text to f32 [hidden]. ValueError for no tokens, more than the model has positions for, and models that
/// are no transformers.
LOCKSTEP_API Tensor embed_text(const LanguageModel& model, const std::vector<std::int64_t>& tokens,
                               const EmbedTextOptions& options = {}, Device device = {});

/// The first `count` numbers of a vector, of length 1: a vector, too, of models that were taught so ("Matryoshka
/// Representation Learning", Kusupati et al., 2022). ValueError for more than it has.
LOCKSTEP_API Tensor first_dimensions(const Tensor& vector, std::int64_t count);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
