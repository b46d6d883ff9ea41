// Finding objects: YOLOv8, which gives boxes and classes for a whole picture in one pass.
//
//   auto yolo = ls::models::YoloV8::load(ls::io::load_weights("yolov8n.safetensors"));
//   for (const ls::models::Detection& found : ls::models::detect(*yolo, picture)) ...
//
// Jocher, Chaurasia, Qiu: Ultralytics YOLOv8, 2023; the box distribution is that of "Generalized Focal Loss", Li et
// al., 2020.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/io/image.h>
#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// The published networks, by the last letter of their names.
enum class YoloSize : std::uint8_t { n, s, m, l, x };

struct LOCKSTEP_API YoloV8Options {
  double depth = 1.0 / 3;             ///< blocks of a stage, as a part of those of size l
  double width = 0.25;                ///< channels, likewise
  std::int64_t most_channels = 1024;  ///< before `width` is applied
  std::int64_t classes = 80;

  static YoloV8Options of(YoloSize size);
};

/// Keys as published: model.0.conv.weight, model.0.bn.weight, ..., model.22.dfl.conv.weight.
class LOCKSTEP_API YoloV8 : public nn::Layer {
 public:
  /// Random weights, on the CPU, in training mode. Throws ValueError for options below one block, channel or class.
  explicit YoloV8(const YoloV8Options& options = {});
  ~YoloV8() override;
  /// The network that these weights are of, in f32 and evaluation mode: its size and classes are theirs. Throws
  /// ValueError if they are no YOLOv8's or their batch norms were folded into the convolutions.
  static std::unique_ptr<YoloV8> load(const nn::StateDict& weights, Device device = {}, CallSite site = {});

  /// x [N, 3, H, W], H and W multiples of 32 (ShapeError), values from 0 to 1. The result [N, 4 + classes, H W (1/64 +
  /// 1/256 + 1/1024)] holds for every place of three grids the centre, width and height of a box in pixels, and the
  /// probability of each class.
  Tensor forward(const Operand& x) const override;

  std::int64_t classes() const { return options_.classes; }

 private:
  struct Parts;
  YoloV8Options options_;
  nn::Module model{*this, "model"};
  std::unique_ptr<Parts> parts_;
};

/// An object that was found; the box in pixels of the picture as it was given.
struct Detection {
  int label = 0;  ///< number of its class
  float score = 0;
  float x0 = 0;
  float y0 = 0;
  float x1 = 0;
  float y1 = 0;

  friend bool operator==(const Detection&, const Detection&) = default;
};

/// The defaults are those of the original.
struct DetectOptions {
  double confidence = 0.25;  ///< scores must exceed it
  double iou = 0.7;          ///< of boxes of one class that overlap more than this, the best is kept
  int most = 300;            ///< objects
  int size = 640;            ///< pixels of the longer side inside the network; a multiple of 32
};

/// The objects of a picture, best first. It is scaled as a whole, bilinearly, and its shorter side filled with gray to
/// a multiple of 32. Throws ValueError for options outside their ranges.
LOCKSTEP_API std::vector<Detection> detect(const YoloV8& model, const io::Image& picture,
                                           const DetectOptions& options = {}, CallSite site = {});

/// Which of some boxes stay when those that overlap a better one of their label by more than `iou` go: their numbers,
/// best first, of equal scores the earlier; at most `most`. Scores that are NaN come last. torchvision:
/// ops.batched_nms.
LOCKSTEP_API std::vector<std::size_t> suppress_overlaps(const std::vector<Detection>& boxes, double iou,
                                                        std::size_t most);

/// The 80 classes of COCO, which published weights know, in their order.
LOCKSTEP_API const std::vector<std::string>& coco_labels();

}  // namespace models
}  // namespace v0
}  // namespace lockstep
