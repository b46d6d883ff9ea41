#include "models/language/cache.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "core/checked.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr std::array<std::string_view, 4> kCacheTypes = {"f32", "f16", "bf16", "q8_0"};

// As io::quantize packs Q8_0: the scale is the largest element / 127, codes are rounded half away from zero by the
// scale before it is rounded to f16.
std::vector<Tensor> blocks_of(const Tensor& x) {
  const Tensor blocks = x.unflatten(-1, {-1, kCacheBlock});
  const Tensor scale = amax(abs(blocks), {-1}, true) / 127;
  const Tensor scaled = blocks * where(scale > 0, 1 / scale, 0);
  const Tensor size = abs(scaled);
  const Tensor whole = floor(size);
  const Tensor rounded = whole + floor((size - whole) * 2);
  const Tensor codes = where(scaled < 0, -rounded, rounded).to(DType::i8);
  return {codes.flatten(-2, -1), scale.squeeze(-1).to(DType::f16)};
}

Tensor out_of_blocks(const std::vector<Tensor>& parts) {
  const Tensor codes = parts[0].unflatten(-1, {-1, kCacheBlock}).to(DType::f32);
  return (codes * parts[1].to(DType::f32).unsqueeze(-1)).flatten(-2, -1);
}

constexpr std::int64_t kBlockPlaces = 256;  // as many as attention takes at once

std::int64_t in_whole_blocks(std::int64_t places) {
  return (places + kBlockPlaces - 1) / kBlockPlaces * kBlockPlaces;
}

Tensor with_places(const Tensor& held, std::int64_t count) {
  const std::int64_t there = held.size(2);
  if (count == there) return held;
  if (count < there) return held.narrow(2, 0, count).clone();
  Shape shape = held.shape();
  shape[2] = count - there;
  const Tensor empty = zeros(shape, {held.dtype(), held.device()});
  return there == 0 ? empty : cat({held, empty}, 2);
}

}  // namespace

LanguageCache::~LanguageCache() = default;

void LanguageCache::truncate(std::int64_t length) {
  if (!truncates()) throw ValueError("LanguageCache: a state cannot go back to an earlier token");
  throw ValueError(fmt::format("LanguageCache: {} tokens are asked for, and {} are remembered", length, length_));
}

std::unique_ptr<LanguageCache> LanguageCache::clone() const {
  throw ValueError("LanguageCache: that of this model cannot be copied");
}

std::string_view cache_type_name(CacheType type) {
  return kCacheTypes.at(static_cast<std::size_t>(type));
}

CacheType parse_cache_type(std::string_view name) {
  const auto found = std::find(kCacheTypes.begin(), kCacheTypes.end(), name);
  if (found == kCacheTypes.end()) {
    throw ValueError(fmt::format("a cache is of f32, f16, bf16 or q8_0, not {}", in_quotes(name)));
  }
  return static_cast<CacheType>(found - kCacheTypes.begin());
}

void LanguageModel::set_cache_type(CacheType type) {
  if (type != CacheType::f32) {
    throw ValueError(fmt::format("{} has no cache of keys and values that could be of {}\n  fix: leave the type out",
                                 family(), cache_type_name(type)));
  }
}

std::vector<Tensor> HeldHeads::encoded(const Tensor& more) const {
  switch (type_) {
    case CacheType::f32: return {more};
    case CacheType::f16: return {more.to(DType::f16)};
    case CacheType::bf16: return {more.to(DType::bf16)};
    case CacheType::q8_0: return blocks_of(more);
  }
  return {};
}

Tensor HeldHeads::first(std::int64_t count) const {
  std::vector<Tensor> read = parts_;
  for (Tensor& part : read) {
    if (count < places()) part = part.narrow(2, 0, count);
  }
  if (type_ == CacheType::q8_0) return out_of_blocks(read);
  return type_ == CacheType::f32 ? read.front() : read.front().to(DType::f32);
}

std::int64_t HeldHeads::bytes() const {
  std::int64_t sum = 0;
  for (const Tensor& part : parts_) sum += part.numel() * static_cast<std::int64_t>(size_of(part.dtype()));
  return sum;
}

std::vector<Tensor*> LayerMemory::tensors() {
  std::vector<Tensor*> all;
  for (std::vector<Tensor>* const parts : {&keys.parts(), &values.parts(), &state}) {
    for (Tensor& part : *parts) {
      if (part.defined()) all.push_back(&part);
    }
  }
  return all;
}

std::int64_t LayerMemory::bytes() const {
  std::int64_t sum = keys.bytes() + values.bytes();
  for (const Tensor& part : state) {
    if (part.defined()) sum += part.numel() * static_cast<std::int64_t>(size_of(part.dtype()));
  }
  return sum;
}

std::int64_t room_for(std::int64_t count) {
  std::int64_t room = kBlockPlaces;
  while (room < count) room *= 2;
  return room;
}

void HeldHeads::reserve(std::int64_t count) {
  if (defined() && count > places()) resize(in_whole_blocks(std::max(count, places() + places() / 2)));
}

void HeldHeads::resize(std::int64_t places) {
  for (Tensor& part : parts_) part = with_places(part, places);
}

std::vector<Tensor> HeldHeads::copy(Positions positions) const {
  std::vector<Tensor> result;
  for (const Tensor& part : parts_) result.push_back(part.narrow(2, positions.first, positions.length).clone());
  return result;
}

void HeldHeads::join(const std::vector<std::vector<Tensor>>& copies) {
  parts_.clear();
  for (std::size_t i = 0; i < copies.front().size(); ++i) {
    std::vector<Tensor> pieces;
    for (const std::vector<Tensor>& copy : copies) pieces.push_back(copy[i]);
    parts_.push_back(cat(pieces, 2));
  }
}

void HeldHeads::put(Positions positions, const Tensor& more) {
  const std::vector<Tensor> added = encoded(more);
  if (!defined()) {
    for (const Tensor& part : added) parts_.push_back(part.narrow(2, 0, 0));
  }
  reserve(positions.end());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i] = slice_scatter(parts_[i], added[i], 2, {.start = positions.first, .stop = positions.end()});
  }
}

void HeldHeads::put_rows(const Tensor& index, const Tensor& more) {
  const std::vector<Tensor> added = encoded(more);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i] = scatter(parts_[i], 2, index.reshape({-1, 1, 1, 1}).expand(added[i].shape()), added[i]);
  }
}

void HeldHeads::clear(Positions positions) {
  if (positions.length == 0) return;
  for (Tensor& part : parts_) {
    Shape shape = part.shape();
    shape[2] = positions.length;
    const Tensor empty = zeros(shape, {part.dtype(), part.device()});
    part = slice_scatter(part, empty, 2, {.start = positions.first, .stop = positions.end()});
  }
}

Tensor rows_of(const Tensor& all, const std::vector<std::int64_t>& rows) {
  std::vector<Tensor> kept;
  for (const std::int64_t row : rows) kept.push_back(all.narrow(0, row, 1));
  return cat(kept, 0);
}

void HeldHeads::eval() {
  for (Tensor& part : parts_) part.eval();
}

BandPlaces::BandPlaces(std::int64_t first, const std::vector<std::int64_t>& positions, const std::vector<bool>& taken,
                       Device device)
    : first_(first), keys_(in_whole_blocks(*std::max_element(positions.begin(), positions.end()) + 1)) {
  const auto count = static_cast<std::int64_t>(positions.size());
  index_ = Tensor::from(positions, {count}, device);
  if (std::find(taken.begin(), taken.end(), false) == taken.end()) return;
  taken_ = Tensor::from(std::vector<std::int64_t>(taken.begin(), taken.end()), {count}, device) > 0;
}

std::vector<Tensor> BandPlaces::inputs() const {
  std::vector<Tensor> all{index_};
  if (taken_.defined()) all.push_back(taken_);
  return all;
}

const Tensor& BandPlaces::visible(std::int64_t window) {
  Tensor& result = visible_[window];
  if (result.defined()) return result;
  const Tensor own = index_.reshape({-1, 1, 1, 1});
  const Tensor columns = arange(static_cast<double>(keys_), {.dtype = DType::i64, .device = index_.device()});
  result = columns <= own;
  if (window > 0) result = bitwise_and(result, columns > own - window);
  return result;
}

void BandPlaces::choose(State& state, const State& after) const {
  if (!taken_.defined()) {
    state = after;
    return;
  }
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (!after[i].defined()) continue;
    Shape shape = after[i].shape();
    for (int d = 1; d < shape.rank(); ++d) shape[d] = 1;
    state[i] = where(taken_.reshape(shape), after[i], state[i]);
  }
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
