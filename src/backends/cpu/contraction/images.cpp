#include "backends/cpu/contraction/images.h"

#include <algorithm>
#include <cstddef>

#include "backends/cpu/contraction/plan.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// What of a position's address its checked coordinates do not explain.
std::int64_t plain_address(const std::optional<PaddedCopy>& copy, const Position& position) {
  std::int64_t address = position.address;
  if (!copy) return address;
  for (const PaddedCopy::Axis& axis : copy->axes) {
    address -= position.coordinates[static_cast<std::size_t>(axis.limit)] * axis.source_stride;
  }
  return address;
}

bool has_coordinates(const Position& position) {
  return std::any_of(position.coordinates.begin(), position.coordinates.end(), [](std::int64_t c) { return c != 0; });
}

bool find_sources(const Geometry& geometry, std::int64_t count, std::int64_t pixels, Images& images) {
  Walk walk(geometry.outer, geometry.bounds());
  for (std::int64_t image = 0; image < count; ++image) {
    walk.seek(image * pixels);
    if (has_coordinates(walk.position())) return false;
    images.sources.push_back(walk.position().address);
  }
  return true;
}

void find_terms(const Geometry& geometry, std::int64_t count, Images& images) {
  Walk walk(geometry.k, geometry.bounds());
  walk.seek(0);
  for (std::int64_t k = 0; k < count; ++k, walk.advance(1)) {
    const Position& position = walk.position();
    if (!images.copy) {
      images.k_address.push_back(position.address);
      continue;
    }
    // Neighbouring terms are taps of one plane.
    const std::int64_t plane = plain_address(images.copy, position);
    auto found = !images.planes.empty() && images.planes.back() == plane
                     ? images.planes.end() - 1
                     : std::find(images.planes.begin(), images.planes.end(), plane);
    if (found == images.planes.end()) found = images.planes.insert(found, plane);
    const std::int64_t tap = images.copy->term_address(position);
    images.k_address.push_back((found - images.planes.begin()) * images.copy->plane + tap);
    images.taps.push_back(tap);
  }
  std::sort(images.taps.begin(), images.taps.end());
  images.taps.erase(std::unique(images.taps.begin(), images.taps.end()), images.taps.end());
}

}  // namespace

std::optional<std::int64_t> Images::address(const Position& pixel) const {
  if (!copy) return pixel.address;
  if (plain_address(copy, pixel) != 0) return std::nullopt;
  return copy->address(pixel);
}

void Images::narrow(std::int64_t reach) {
  if (!copy) return;
  // Lines are written as wholes.
  std::int64_t line = 0;
  for (const PaddedCopy::Line& each : lines) line = std::max(line, each.size);
  // Planes an odd number of cache lines apart lie in all sets of a cache.
  const auto spread = [](std::int64_t size) { return round_up(size, kCacheLine) | kCacheLine; };
  const std::int64_t narrowed = spread(std::min(copy->plane, reach + taps.back() - taps.front() + 2 * line));
  for (std::int64_t& address : k_address) address = address / plane * narrowed + address % plane;
  plane = narrowed;
}

const float* Images::write_copy(const Side& side, const Position& batch, std::int64_t image, std::int64_t first,
                                std::int64_t last, const std::byte* data, CopyFunction copy_lines, float* to) const {
  std::vector<PaddedCopy::Line> wanted;
  wanted.reserve(lines.size());
  for (const PaddedCopy::Line& line : lines) {
    const auto tap = std::lower_bound(taps.begin(), taps.end(), line.to - last);
    if (tap != taps.end() && first + *tap < line.to + line.size) wanted.push_back(line);
  }
  std::int64_t begin = 0;
  if (plane < copy->plane) {
    begin = std::min_element(wanted.begin(), wanted.end(), [](const auto& a, const auto& b) { return a.to < b.to; })->to;
    for (PaddedCopy::Line& line : wanted) line.to -= begin;
  }
  const float* const origin = to - begin;
  const auto size = static_cast<std::int64_t>(size_of(side.dtype));
  const std::byte* const start = data + (batch.address + sources[static_cast<std::size_t>(image)]) * size;
  for (std::size_t i = 0; i < planes.size(); ++i) {
    const std::byte* const from = start + planes[i] * size;
    if (side.is_plain_f32()) {
      const std::byte* const next = i + 1 < planes.size() ? start + planes[i + 1] * size : nullptr;
      copy_lines({.lines = wanted.data(),
                  .count = wanted.size(),
                  .from = reinterpret_cast<const float*>(from),
                  .to = to,
                  .next = reinterpret_cast<const float*>(next),
                  .flush = side.flush});
    } else {
      write_decoded(wanted, side.dtype, side.flush, from, to);
    }
    to += plane;
  }
  return origin;
}

bool has_images(const Side& side) {
  const Geometry& geometry = side.geometry;
  const bool copied = geometry.bounds() > 0;
  const bool has_taps = copied || geometry.k.sizes.rank() > 1;
  const bool is_decoded =
      copied && side.encoding == Encoding::dense && (side.dtype == DType::f16 || side.dtype == DType::bf16);
  return (side.is_plain_f32() || is_decoded) && side.order == Side::Order::along_outer && has_taps &&
         !geometry.stepped() && geometry.bounds() <= 3 && !geometry.bounded_in_batch() &&
         (copied ? side.fill == 0 : !side.flush);
}

std::optional<Images> make_images(const Geometry& geometry, std::int64_t count, std::int64_t pixels, std::int64_t k,
                                  Phases phases) {
  Images images;
  if (geometry.bounds() > 0) {
    images.copy = make_padded_copy(geometry, phases);
    if (!images.copy) return std::nullopt;
    images.lines = images.copy->lines(geometry.batch_position(0));  // not bounded in the batch (has_images)
    images.plane = images.copy->plane;
  }
  if (count > kMaxTable || !find_sources(geometry, count, pixels, images)) return std::nullopt;
  find_terms(geometry, k, images);
  return images;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
