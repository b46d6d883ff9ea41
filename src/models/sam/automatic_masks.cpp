// All masks of a picture: the steps and the order of segment_anything's SamAutomaticMaskGenerator, except that masks
// are filtered by their predicted IoU before they are scaled up, which changes nothing but the time.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/check.h>

#include "models/sam/mask_bytes.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// Centres of the cells of a grid.
std::vector<SamPoint> grid_points(const SamFrame& frame, int per_side) {
  std::vector<SamPoint> points;
  const double half = 1.0 / (2.0 * per_side);
  const auto place = [&](int i) { return per_side == 1 ? half : half + i * (1 - 2 * half) / (per_side - 1); };
  for (int y = 0; y < per_side; ++y) {
    for (int x = 0; x < per_side; ++x) points.push_back({place(x) * frame.width, place(y) * frame.height});
  }
  return points;
}

// How many logits exceed `threshold`.
std::int64_t count_above(const Tensor& logits, double threshold) {
  return sum(gt(logits, threshold)).item<std::int64_t>();
}

// The masks that points[first ... first + count) give and that pass the filters, appended to `kept`.
void segment_batch(const Sam& model, const SamEmbedding& embedding, const GenerateMasksOptions& options,
                   std::span<const SamPoint> points, std::vector<SamMask>& kept) {
  std::vector<Tensor> coordinates;
  std::vector<Tensor> labels;
  for (const SamPoint& point : points) {
    const Sam::Points prepared = model.prepare(embedding.frame, {.points = {point}});
    coordinates.push_back(prepared.coordinates);
    labels.push_back(prepared.labels);
  }
  const SamMaskLogits found = model.mask_decoder(embedding.features, embedding.positions,
                                                 model.prompt_encoder.points(cat(coordinates), cat(labels)),
                                                 model.prompt_encoder.mask({}), true);
  const std::int64_t per_point = found.iou.size(1);
  const std::vector<float> iou = found.iou.flatten().to_vector<float>();
  const Tensor masks = found.masks.flatten(0, 1);
  for (std::size_t i = 0; i < iou.size(); ++i) {
    if (!(iou[i] > static_cast<float>(options.least_iou))) continue;
    const Tensor logits = model.upscale(masks.narrow(0, static_cast<std::int64_t>(i), 1), embedding.frame).eval();
    // One of the two masks contains the other.
    const auto smaller = static_cast<float>(count_above(logits, options.stability_offset));
    const auto larger = static_cast<float>(count_above(logits, -options.stability_offset));
    const float stability = smaller / larger;  // NaN, which is not kept, where both are empty
    if (!(stability >= static_cast<float>(options.least_stability))) continue;
    kept.push_back(sam::describe(sam::bytes_of(gt(logits, 0)), embedding.frame.width, embedding.frame.height));
    kept.back().iou = iou[i];
    kept.back().stability = stability;
    kept.back().point = points[i / static_cast<std::size_t>(per_point)];
  }
}

float area_of(const PixelBox& box) {
  return static_cast<float>(box.x1 - box.x0) * static_cast<float>(box.y1 - box.y0);
}

float overlap(const PixelBox& a, const PixelBox& b) {
  const auto width = static_cast<float>(std::max(0, std::min(a.x1, b.x1) - std::max(a.x0, b.x0)));
  const auto height = static_cast<float>(std::max(0, std::min(a.y1, b.y1) - std::max(a.y0, b.y0)));
  const float shared = width * height;
  return shared / (area_of(a) + area_of(b) - shared);
}

// Non-maximum suppression: in the order of their IoU, those whose box overlaps no better one's by more than `limit`.
std::vector<SamMask> without_duplicates(std::vector<SamMask> masks, float limit) {
  std::stable_sort(masks.begin(), masks.end(), [](const SamMask& a, const SamMask& b) { return a.iou > b.iou; });
  std::vector<SamMask> kept;
  for (SamMask& mask : masks) {
    const bool is_new = std::none_of(kept.begin(), kept.end(),
                                     [&](const SamMask& better) { return overlap(better.box, mask.box) > limit; });
    if (is_new) kept.push_back(std::move(mask));
  }
  return kept;
}

}  // namespace

std::vector<SamMask> generate_masks(const Sam& model, const SamEmbedding& embedding,
                                    const GenerateMasksOptions& options, CallSite site) {
  const CallScope call("generate_masks", site);
  check<ValueError>(options.points_per_side > 0 && options.points_per_batch > 0,
                    fmt::format("points_per_side {} and points_per_batch {} must be at least 1",
                                options.points_per_side, options.points_per_batch));
  const NoGrad no_grad;
  const std::vector<SamPoint> points = grid_points(embedding.frame, options.points_per_side);
  const auto batch = static_cast<std::size_t>(options.points_per_batch);
  std::vector<SamMask> masks;
  for (std::size_t first = 0; first < points.size(); first += batch) {
    const std::size_t count = std::min(batch, points.size() - first);
    segment_batch(model, embedding, options, std::span(points).subspan(first, count), masks);
    if (options.progress) options.progress(first + count, points.size());
  }
  return without_duplicates(std::move(masks), static_cast<float>(options.most_box_overlap));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
