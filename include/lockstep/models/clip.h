// CLIP: pictures and texts as vectors of one space, so that a picture can be asked which of some texts fits it.
// "Learning Transferable Visual Models From Natural Language Supervision", Radford et al., 2021. Keys as in
// transformers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/models/preprocessing.h>
#include <lockstep/nn.h>
#include <lockstep/text/tokenizer.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// A transformer of one of CLIP's towers.
struct ClipTowerOptions {
  std::int64_t channels = 512;
  std::int64_t heads = 8;
  std::int64_t depth = 12;
  std::int64_t mlp_channels = 2048;
};

/// ViT-B/32.
struct LOCKSTEP_API ClipOptions {
  ClipTowerOptions text = {};
  ClipTowerOptions vision = {.channels = 768, .heads = 12, .mlp_channels = 3072};
  std::int64_t vocabulary = 49408;
  std::int64_t context = 77;  ///< tokens of a text, at most
  std::int64_t image_size = 224;
  std::int64_t patch = 32;
  std::int64_t projection = 512;  ///< size of the common space
};

/// Both towers and their common space.
class LOCKSTEP_API Clip : public nn::Module {
 public:
  /// Random weights, on the CPU, in training mode. Throws ValueError for options that make no network.
  explicit Clip(const ClipOptions& options = {});
  ~Clip() override;
  /// The network that these weights are of (heads are 64 channels wide, as in all published ones), in f32 and
  /// evaluation mode. Throws ValueError or ShapeError if they are another network's.
  static std::unique_ptr<Clip> load(const nn::StateDict& weights, Device device = {}, CallSite site = {});
  /// The options of the network that these weights are of. Throws ValueError.
  static ClipOptions options_of(const nn::StateDict& weights);
  /// Without the lists of positions that some files hold beside the weights.
  static nn::StateDict with_current_names(const nn::StateDict& weights);
  /// What published weights take.
  static Preprocessing preprocessing(std::int64_t image_size = 224);

  /// pictures [N, 3, image_size, image_size] (ShapeError) to [N, projection].
  Tensor image_features(const Operand& pictures) const;
  /// tokens [N, L], integers, L at most context (ShapeError), to [N, projection]. A text is what stands up to its token
  /// of the highest number, which ends it; what is behind does not matter.
  Tensor text_features(const Operand& tokens) const;
  /// Cosines of features [N, projection] and [M, projection], scaled: [N, M]. softmax over the last gives how well each
  /// text fits.
  Tensor logits(const Operand& image_features, const Operand& text_features) const;

  const ClipOptions& options() const { return options_; }

  struct Parts;  ///< Both towers; internal.

 private:
  ClipOptions options_;
  std::unique_ptr<Parts> parts_;
};

/// Tokens of texts, in rows of one length: i64 [texts, L]. Each is ended by the tokenizer's last token; shorter ones
/// are filled with it. Throws ValueError if a text has more than `context` tokens.
LOCKSTEP_API Tensor clip_tokens(const text::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                                std::int64_t context = 77);

/// A classifier whose classes are texts: pictures [N, 3, image_size, image_size] to logits [N, texts]. Its weights,
/// under their published keys, are CLIP's.
class LOCKSTEP_API ClipClassifier : public nn::Layer {
 public:
  /// `tokens` as clip_tokens gives them.
  ClipClassifier(const ClipOptions& options, Tensor tokens);
  ~ClipClassifier() override;
  Tensor forward(const Operand& x) const override;

 private:
  Tensor tokens_;
  std::unique_ptr<Clip::Parts> parts_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
