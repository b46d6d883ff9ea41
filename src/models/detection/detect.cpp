// From a picture to the objects in it: the picture in a gray frame, the network, and of boxes on one object the best.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/models/yolo.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr float kGray = 114;
constexpr int kGrid = 32;

// Where the picture lies inside of what the network sees.
struct Letterbox {
  double scale = 1;
  int width = 0;  ///< of the scaled picture
  int height = 0;
  int left = 0;
  int right = 0;
  int top = 0;
  int bottom = 0;
};

Letterbox letterbox_of(const io::Image& picture, int size) {
  Letterbox box;
  box.scale = std::min(static_cast<double>(size) / picture.height, static_cast<double>(size) / picture.width);
  const auto scaled = [&](int pixels) {
    // Halves to even, as in Python.
    return std::max(1, static_cast<int>(std::nearbyint(pixels * box.scale)));
  };
  box.width = scaled(picture.width);
  box.height = scaled(picture.height);
  const auto split = [&](int used, int& before, int& after) {
    const double half = (size - used) % kGrid / 2.0;
    before = static_cast<int>(std::nearbyint(half - 0.1));
    after = static_cast<int>(std::nearbyint(half + 0.1));
  };
  split(box.width, box.left, box.right);
  split(box.height, box.top, box.bottom);
  return box;
}

// [1, 3, H, W], 0 to 1. Pixels are whole numbers after scaling, too.
Tensor seen_by_network(const io::Image& picture, const Letterbox& box, Device device) {
  Tensor x = io::image_to_tensor(picture).to(device).to(DType::f32).unsqueeze(0);
  if (box.width != picture.width || box.height != picture.height) {
    x = round(interpolate(x, {.size = {box.height, box.width}, .mode = Interpolation::bilinear}));
  }
  return pad(x, {box.left, box.right, box.top, box.bottom}, static_cast<double>(kGray)) / 255.0;
}

float overlap(const Detection& a, const Detection& b) {
  const float width = std::max(std::min(a.x1, b.x1) - std::max(a.x0, b.x0), 0.0f);
  const float height = std::max(std::min(a.y1, b.y1) - std::max(a.y0, b.y0), 0.0f);
  const float both = width * height;
  const float area_a = (a.x1 - a.x0) * (a.y1 - a.y0);
  const float area_b = (b.x1 - b.x0) * (b.y1 - b.y0);
  return both / (area_a + area_b - both);
}

void check_options(const DetectOptions& options) {
  const auto is_share = [](double value) { return value >= 0 && value <= 1; };
  if (!is_share(options.confidence) || !is_share(options.iou)) {
    fail<ValueError>(fmt::format("confidence {} and iou {} must be from 0 to 1", options.confidence, options.iou));
  }
  if (options.most < 1) fail<ValueError>(fmt::format("{} objects at most are too few", options.most));
  if (options.size < kGrid || options.size > 1 << 14 || options.size % kGrid != 0) {
    fail<ValueError>(fmt::format("a size of {} is no multiple of {} up to {}", options.size, kGrid, 1 << 14));
  }
}

Device device_of(const YoloV8& model) {
  return model.parameters().front().tensor().device();
}

}  // namespace

std::vector<std::size_t> suppress_overlaps(const std::vector<Detection>& boxes, double iou, std::size_t most) {
  std::vector<std::size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rank = [&](std::size_t i) {
    return std::isnan(boxes[i].score) ? -std::numeric_limits<float>::infinity() : boxes[i].score;
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) > rank(b); });
  std::vector<std::size_t> kept;
  for (const std::size_t i : order) {
    if (kept.size() == most) break;
    const bool covered = std::any_of(kept.begin(), kept.end(), [&](std::size_t better) {
      return boxes[better].label == boxes[i].label && static_cast<double>(overlap(boxes[better], boxes[i])) > iou;
    });
    if (!covered) kept.push_back(i);
  }
  return kept;
}

std::vector<Detection> detect(const YoloV8& model, const io::Image& picture, const DetectOptions& options,
                              CallSite site) {
  const CallScope call("detect", site);
  const NoGrad no_grad;
  check_options(options);
  if (picture.width < 1 || picture.height < 1) fail<ValueError>("the picture has no pixels");
  const Letterbox frame = letterbox_of(picture, options.size);
  const Tensor found = model(seen_by_network(picture, frame, device_of(model))).squeeze(0);
  const Tensor of_classes = found.narrow(0, 4, model.classes());
  const Tensor labels_of_places = argmax(of_classes, 0).to(DType::i32);
  const std::vector<float> box = found.narrow(0, 0, 4).to_vector<float>();
  const std::vector<float> scores = amax(of_classes, 0).to_vector<float>();
  const std::vector<std::int32_t> labels = labels_of_places.to_vector<std::int32_t>();

  const std::size_t places = scores.size();
  std::vector<Detection> candidates;
  for (std::size_t i = 0; i < places; ++i) {
    if (!(static_cast<double>(scores[i]) > options.confidence)) continue;
    const float half_width = box[2 * places + i] / 2;
    const float half_height = box[3 * places + i] / 2;
    candidates.push_back({.label = labels[i],
                          .score = scores[i],
                          .x0 = box[i] - half_width,
                          .y0 = box[places + i] - half_height,
                          .x1 = box[i] + half_width,
                          .y1 = box[places + i] + half_height});
  }
  std::vector<Detection> result;
  const auto back = [&](float value, int margin, int pixels) {
    const double given = (static_cast<double>(value) - margin) / frame.scale;
    return static_cast<float>(std::clamp(given, 0.0, static_cast<double>(pixels)));
  };
  for (const std::size_t i : suppress_overlaps(candidates, options.iou, static_cast<std::size_t>(options.most))) {
    const Detection& seen = candidates[i];
    result.push_back({.label = seen.label,
                      .score = seen.score,
                      .x0 = back(seen.x0, frame.left, picture.width),
                      .y0 = back(seen.y0, frame.top, picture.height),
                      .x1 = back(seen.x1, frame.left, picture.width),
                      .y1 = back(seen.y1, frame.top, picture.height)});
  }
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
