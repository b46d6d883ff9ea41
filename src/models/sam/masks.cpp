#include <lockstep/models/sam_masks.h>

#include <algorithm>

#include <fmt/format.h>

#include "models/sam/mask_bytes.h"

namespace lockstep {
inline namespace v0 {
namespace models {

RunLengths encode_runs(std::span<const std::uint8_t> mask, int width, int height) {
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  const auto rows = static_cast<std::size_t>(std::max(height, 0));
  if (width < 1 || height < 1 || mask.size() != columns * rows) {
    throw ValueError(fmt::format("encode_runs: {} bytes are no mask of {} x {}", mask.size(), width, height));
  }
  RunLengths runs{width, height, {}};
  bool inside = false;
  std::uint32_t length = 0;
  for (std::size_t x = 0; x < columns; ++x) {
    for (std::size_t y = 0; y < rows; ++y) {
      if ((mask[y * columns + x] != 0) != inside) {
        runs.counts.push_back(length);
        length = 0;
        inside = !inside;
      }
      ++length;
    }
  }
  runs.counts.push_back(length);
  return runs;
}

std::vector<std::uint8_t> decode_runs(const RunLengths& runs) {
  const auto columns = static_cast<std::size_t>(std::max(runs.width, 0));
  const auto rows = static_cast<std::size_t>(std::max(runs.height, 0));
  std::uint64_t total = 0;
  for (const std::uint32_t count : runs.counts) total += count;
  if (runs.width < 1 || runs.height < 1 || total != columns * rows) {
    throw ValueError(
        fmt::format("decode_runs: runs of {} pixels are no mask of {} x {}", total, runs.width, runs.height));
  }
  std::vector<std::uint8_t> mask(columns * rows);
  std::size_t place = 0;  // column-major
  std::uint8_t value = 0;
  for (const std::uint32_t count : runs.counts) {
    for (std::uint32_t i = 0; i < count; ++i, ++place) mask[place % rows * columns + place / rows] = value;
    value ^= 1;
  }
  return mask;
}

SamMask sam::describe(std::span<const std::uint8_t> mask, int width, int height) {
  SamMask result{.runs = encode_runs(mask, width, height)};
  const auto rows = static_cast<std::uint32_t>(height);
  PixelBox box{width, height, -1, -1};
  std::uint32_t place = 0;
  for (std::size_t i = 0; i < result.runs.counts.size(); ++i) {
    const std::uint32_t count = result.runs.counts[i];
    if (i % 2 == 1) {
      const std::uint32_t last = place + count - 1;
      const bool one_column = place / rows == last / rows;
      result.area += count;
      box.x0 = std::min(box.x0, static_cast<int>(place / rows));
      box.x1 = std::max(box.x1, static_cast<int>(last / rows));
      // A run that goes on in the next column touches the bottom and the top.
      box.y0 = one_column ? std::min(box.y0, static_cast<int>(place % rows)) : 0;
      box.y1 = one_column ? std::max(box.y1, static_cast<int>(last % rows)) : height - 1;
    }
    place += count;
  }
  if (result.area > 0) result.box = box;
  return result;
}

std::vector<SamMask> masks_of(const SamPrediction& prediction) {
  std::vector<SamMask> result;
  for (std::int64_t i = 0; i < prediction.masks.size(0); ++i) {
    const Tensor mask = prediction.masks.select(0, i);
    result.push_back(
        sam::describe(sam::bytes_of(mask), static_cast<int>(mask.size(1)), static_cast<int>(mask.size(0))));
    result.back().iou = prediction.iou[static_cast<std::size_t>(i)];
  }
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
