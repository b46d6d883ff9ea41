// Padding: constants are a view; the other modes read elements of the input again.
#include <algorithm>

#include <fmt/format.h>

#include "graph/ops/take.h"
#include "graph/recording.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor pad(const Operand& a, const Shape& padding, double value) {
  const CallScope call("pad", a);
  check_defined({{"input", a}});
  if (a.is_scalar()) fail<ValueError>("needs a tensor operand", {{"input", a}});
  const Tensor& input = a.tensor();
  if (padding.rank() % 2 != 0 || padding.rank() / 2 > input.rank()) {
    fail<ShapeError>(fmt::format("{} are not pairs for the last dimensions", padding.to_string()), {{"input", input}},
                     "give (before, after) from the last dimension on");
  }
  encode_scalar(value, input.dtype());
  const std::uint64_t fill = element_bits(value, input.dtype());
  Shape target = input.shape();
  for (int pair = 0; pair < padding.rank() / 2; ++pair) {
    std::int64_t& size = target[input.rank() - 1 - pair];
    bool overflow = __builtin_add_overflow(size, padding[2 * pair], &size);
    overflow = __builtin_add_overflow(size, padding[2 * pair + 1], &size) || overflow;
    // Cropping more than there is on one side would read outside.
    const std::int64_t old = input.shape()[input.rank() - 1 - pair];
    if (overflow || size < 0 || padding[2 * pair] < -old || padding[2 * pair + 1] < -old) {
      fail<ShapeError>(fmt::format("{} leaves no valid size", padding.to_string()), {{"input", input}});
    }
  }
  check_shape(target, input.dtype());
  const Tensor result = change_view(input, [&](const View& view) {
    std::optional<View> padded = view;
    for (int pair = 0; padded && pair < padding.rank() / 2; ++pair) {
      const int dim = input.rank() - 1 - pair;
      if (padding[2 * pair] == 0 && padding[2 * pair + 1] == 0) continue;
      padded = padded->padded(dim, padding[2 * pair], padding[2 * pair + 1], fill);
    }
    return padded;
  });
  return recorded(result, "pad", {&input}, {padding}, {value});
}

namespace {

// The element that fills place `p` of a dimension of `size` elements.
std::int64_t mirrored(PadMode mode, std::int64_t p, std::int64_t size) {
  switch (mode) {
    case PadMode::reflect: return p < 0 ? -p : p >= size ? 2 * (size - 1) - p : p;
    case PadMode::replicate: return std::clamp<std::int64_t>(p, 0, size - 1);
    case PadMode::circular: break;
  }
  return p < 0 ? p + size : p >= size ? p - size : p;
}

// How much may be added on one side.
std::int64_t most(PadMode mode, std::int64_t size) {
  switch (mode) {
    case PadMode::reflect: return std::max<std::int64_t>(size - 1, 0);
    case PadMode::replicate: return size > 0 ? std::int64_t{1} << 30 : 0;
    case PadMode::circular: break;
  }
  return size;
}

}  // namespace

Tensor pad(const Operand& a, const Shape& padding, PadMode mode) {
  const CallScope call("pad", a);
  const Tensor& input = tensor_operand(a);
  const int pairs = padding.rank() / 2;
  if (padding.rank() % 2 != 0 || pairs > input.rank()) {
    fail<ShapeError>(fmt::format("{} are not pairs for the last dimensions", padding.to_string()), {{"input", input}},
                     "give (before, after) from the last dimension on");
  }
  if (mode == PadMode::circular && std::any_of(padding.begin(), padding.end(), [](std::int64_t p) { return p < 0; })) {
    // What is cropped does not come round again, as in PyTorch.
    Shape crop = padding;
    Shape rest = padding;
    for (std::int64_t& amount : crop) amount = std::min<std::int64_t>(amount, 0);
    for (std::int64_t& amount : rest) amount = std::max<std::int64_t>(amount, 0);
    return pad(pad(a, crop, 0), rest, mode);
  }
  // Outer dimensions without padding need no gather.
  int axes = 0;
  Shape target = input.shape();
  for (int pair = 0; pair < pairs; ++pair) {
    const int d = input.rank() - 1 - pair;
    const std::int64_t size = input.shape()[d];
    const std::int64_t before = padding[2 * pair];
    const std::int64_t after = padding[2 * pair + 1];
    const std::int64_t limit = most(mode, size);
    if (before > limit || after > limit || before < -size || after < -size || size + before + after < 0) {
      fail<ShapeError>(fmt::format("({}, {}) does not fit dimension {} of size {}", before, after, d, size),
                       {{"input", input}}, fmt::format("this mode adds at most {} on a side", limit));
    }
    target[d] = size + before + after;
    if (before != 0 || after != 0) axes = pair + 1;
  }
  check_shape(target, input.dtype());
  if (axes == 0) return input;
  if (target.numel() == 0) return zeros(target, {.dtype = input.dtype(), .device = input.device()});
  std::vector<std::vector<std::int64_t>> positions;
  for (int d = input.rank() - axes; d < input.rank(); ++d) {
    const std::int64_t before = padding[2 * (input.rank() - 1 - d)];
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < target[d]; ++i) places.push_back(mirrored(mode, i - before, input.shape()[d]));
    positions.push_back(std::move(places));
  }
  return take_grid(input, positions);
}

}  // namespace v0
}  // namespace lockstep
