// Segment Anything and MobileSAM: from a picture and a click to the mask of what was clicked.
//
//   auto sam = ls::models::Sam::load(ls::io::load_weights("mobile_sam.pt"));
//   ls::models::SamEmbedding embedding = sam->embed(picture);                            // once a picture; seconds
//   ls::models::SamPrediction found = sam->predict(embedding, {.points = {{400, 300}}});  // once a click
//
// Pictures are scaled so that the longer side fills the network's square. Coordinates are always pixels of the picture
// as it was given.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <lockstep/io/image.h>
#include <lockstep/models/sam_image_encoder.h>
#include <lockstep/models/sam_mask_decoder.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// The published networks, by the names of their checkpoints.
enum class SamKind : std::uint8_t { vit_t, vit_b, vit_l, vit_h };

struct LOCKSTEP_API SamOptions {
  std::variant<SamTinyViTOptions, SamViTOptions> encoder = SamTinyViTOptions{};
  std::int64_t image_size = 1024;  ///< a multiple of 16
  SamDecoderOptions decoder = {};

  static SamOptions of(SamKind kind);
};

/// A picture's sizes, and those it has inside the network's square.
struct SamFrame {
  int width = 0;
  int height = 0;
  int scaled_width = 0;
  int scaled_height = 0;

  friend bool operator==(const SamFrame&, const SamFrame&) = default;
};

/// What the network knows about one picture.
struct SamEmbedding {
  Tensor features;   ///< [1, channels, grid, grid]
  Tensor positions;  ///< likewise, the same for every picture
  SamFrame frame;
  std::uint64_t picture = 0;  ///< hash of the picture's sizes and pixels
};

/// A point of a picture, in its pixels, which is asked for.
struct SamPoint {
  double x = 0;
  double y = 0;
  bool foreground = true;  ///< false: this is not part of it
};

/// A box around what is asked for, in pixels of the picture.
struct SamBox {
  double x0 = 0;
  double y0 = 0;
  double x1 = 0;
  double y1 = 0;
};

/// What is wanted. Something must be given; all of it belongs to one object.
struct SamPrompt {
  std::vector<SamPoint> points = {};
  std::optional<SamBox> box = std::nullopt;
  /// A prediction's `low_resolution`, or one mask of it: [n >= 1, 4 grid, 4 grid] logits, of which the first is taken.
  std::optional<Tensor> mask = std::nullopt;
};

struct SamPredictOptions {
  /// Three masks (a whole, a part, a part of it), for prompts that are ambiguous; else the one best fitting many
  /// prompts.
  bool multimask = true;
};

/// n masks in the network's order.
struct LOCKSTEP_API SamPrediction {
  Tensor masks;              ///< bool [n, height, width]
  std::vector<float> iou;    ///< the predicted overlap with the truth
  Tensor low_resolution;     ///< logits [n, 4 grid, 4 grid], in the square
  std::size_t best() const;  ///< the mask with the highest predicted overlap
};

/// Segment Anything and MobileSAM: from points, boxes and masks to masks (docs/segmentation.md).
class LOCKSTEP_API Sam : public nn::Module {
 public:
  /// Random weights, in training mode. Throws ValueError for sizes that do not fit.
  explicit Sam(const SamOptions& options = {});
  ~Sam() override;

  /// A network with these weights, in evaluation mode; the keys tell which of the published ones it is. They are those
  /// of the original checkpoints, or those of transformers' SamModel. Throws ValueError if they are another network's,
  /// ShapeError if sizes differ.
  static std::unique_ptr<Sam> load(const nn::StateDict& weights, Device device = {}, CallSite site = {});
  /// Likewise, of sizes that are not published.
  static std::unique_ptr<Sam> load(const SamOptions& options, const nn::StateDict& weights, Device device = {},
                                   CallSite site = {});

  const SamOptions& options() const { return options_; }
  std::int64_t grid() const { return options_.image_size / 16; }
  /// Where its weights are.
  Device device() const;

  /// The frame of a picture. ValueError if a size is below 1.
  SamFrame frame(int width, int height, CallSite site = {}) const;
  /// A picture scaled (as Pillow does), normalised and padded: f32 [1, 3, image_size, image_size] on this device.
  Tensor preprocess(const io::Image& picture, CallSite site = {}) const;
  /// Untracked. Throws ValueError if the image is not RGB or has no pixels.
  SamEmbedding embed(const io::Image& picture, CallSite site = {}) const;
  /// Untracked. Throws ValueError for an empty prompt, for points and boxes outside the picture, and for an embedding
  /// of a network of other sizes; DeviceError if it is on another device.
  SamPrediction predict(const SamEmbedding& embedding, const SamPrompt& prompt, const SamPredictOptions& options = {},
                        CallSite site = {}) const;

  /// The points of one prompt as the network takes them: f32 [1, N, 2] and i32 [1, N]. Throws like predict.
  struct Points {
    Tensor coordinates;
    Tensor labels;
  };
  Points prepare(const SamFrame& frame, const SamPrompt& prompt, CallSite site = {}) const;
  /// Logits [n, 4 grid, 4 grid] to logits [n, height, width].
  Tensor upscale(const Tensor& low_resolution, const SamFrame& frame, CallSite site = {}) const;

 private:
  SamOptions options_;
  std::unique_ptr<nn::Layer> image_encoder_;

 public:
  const nn::Layer& image_encoder() const { return *image_encoder_; }
  SamPromptEncoder prompt_encoder;
  SamMaskDecoder mask_decoder;
};

/// Stores an embedding as a safetensors file that says of which picture and which weights it is.
LOCKSTEP_API void save_sam_embedding(const std::string& path, const SamEmbedding& embedding, std::uint64_t weights);
/// Reads it, for `model` whose weights have that hash. Throws FormatError if the file is no such embedding, ValueError
/// if it is of other weights or, where a picture's hash is given, of another picture.
LOCKSTEP_API SamEmbedding load_sam_embedding(const std::string& path, const Sam& model, std::uint64_t weights,
                                             std::optional<std::uint64_t> picture = std::nullopt);
/// SamEmbedding::picture of a picture.
LOCKSTEP_API std::uint64_t picture_hash(const io::Image& picture);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
