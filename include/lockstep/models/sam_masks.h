// Masks as a program wants them: run lengths, area and box; all masks of a picture at once; and masks drawn.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/models/sam.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// A mask, column by column from the left and from the top of each: how many pixels are outside, inside, outside, ...
/// The first number may be 0. COCO's uncompressed form.
struct RunLengths {
  int width = 0;
  int height = 0;
  std::vector<std::uint32_t> counts;

  friend bool operator==(const RunLengths&, const RunLengths&) = default;
};

/// `mask` has height rows of width bytes, of which 0 is outside. Throws ValueError if their number is another.
LOCKSTEP_API RunLengths encode_runs(std::span<const std::uint8_t> mask, int width, int height);
/// The mask as bytes 0 and 1. Throws ValueError if the counts are not those of so many pixels.
LOCKSTEP_API std::vector<std::uint8_t> decode_runs(const RunLengths& runs);

/// From the first to the last pixel inside, both included; all 0 for an empty mask.
struct PixelBox {
  int x0 = 0;
  int y0 = 0;
  int x1 = 0;
  int y1 = 0;

  friend bool operator==(const PixelBox&, const PixelBox&) = default;
};

/// A mask of a picture as runs of pixels, and what is said of it.
struct SamMask {
  RunLengths runs;
  std::int64_t area = 0;  ///< pixels inside
  PixelBox box;
  float iou = 0;        ///< predicted overlap with the truth
  float stability = 0;  ///< of generate_masks: how little the mask depends on the threshold, 0 to 1
  std::optional<SamPoint> point = std::nullopt;  ///< of generate_masks: what it was asked for
};

/// The masks of a prediction, in their order.
LOCKSTEP_API std::vector<SamMask> masks_of(const SamPrediction& prediction);

/// The defaults are those of segment_anything's SamAutomaticMaskGenerator. Crops of the picture, and the removal of
/// small regions, which are off there by default, do not exist here.
struct GenerateMasksOptions {
  int points_per_side = 32;  ///< of a grid over the picture
  /// Points computed at a time; no result depends on it. Each takes some 40 MB.
  int points_per_batch = 16;
  double least_iou = 0.88;        ///< predicted; masks must exceed it
  double least_stability = 0.95;  ///< overlap of the masks at thresholds stability_offset above and below 0
  double stability_offset = 1;
  double most_box_overlap = 0.7;  ///< of masks whose boxes overlap (IoU) more than this, the best is kept
  /// Called with how many points are done.
  std::function<void(std::size_t done, std::size_t total)> progress = {};
};

/// Everything in the picture: the network asked at every point of a grid, good and different masks kept, best first.
/// Throws ValueError for counts below 1.
LOCKSTEP_API std::vector<SamMask> generate_masks(const Sam& model, const SamEmbedding& embedding,
                                                 const GenerateMasksOptions& options = {}, CallSite site = {});

/// White inside, black outside.
LOCKSTEP_API io::Image draw_mask(const SamMask& mask);
/// Each mask in a colour of its own on black, smaller ones over larger ones. A picture without masks is black.
LOCKSTEP_API io::Image draw_segments(int width, int height, const std::vector<SamMask>& masks);
/// The picture with tinted and outlined masks and the marks of a prompt. Throws ValueError where sizes differ.
LOCKSTEP_API io::Image draw_overlay(const io::Image& picture, const std::vector<SamMask>& masks,
                                    const SamPrompt& prompt = {});

}  // namespace models
}  // namespace v0
}  // namespace lockstep
