// The shapes of each form, and the points made of them.
#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct Size {
  Shape shape;
  bool quick = false;
};

// 0, 1, odd, around the tile (1024), two chunks (8192) and the widest u16 (65536), large and ragged; ranks 0 to 8.
const Size kElementwise[] = {
    {{37}, true},
    {{1025}, true},
    {{3, 5, 7}, true},
    {{0}, true},
    {{}, true},
    {{2, 1, 3, 2, 1, 2, 2, 3}, true},
    {{8193}, true},
    {{1}},
    {{3, 0, 2}},
    {{1023}},
    {{1024}},
    {{8191}},
    {{8192}},
    {{65535}},
    {{65536}},
    {{65537}},
    {{37, 29}},
    {{2, 3, 4, 5}},
    {{3, 1, 2, 2, 5}},
    {{2, 2, 3, 1, 2, 5}},
    {{2, 3, 1, 2, 2, 1, 3}},
    {{409, 301}},
};
const Size kRows[] = {
    {{37}, true},
    {{5, 37}, true},
    {{3, 1025}, true},
    {{1025, 3}, true},
    {{}, true},
    {{2, 1, 3, 2, 1, 2, 2, 3}, true},
    {{2, 3, 4, 5}, true},
    {{2, 4097}, true},
    {{0, 3}},
    {{3, 0}},
    {{1}},
    {{1, 1}},
    {{3, 1023}},
    {{3, 1024}},
    {{2, 8191}},
    {{2, 8192}},
    {{2, 8193}},
    {{8193, 2}},
    {{65535}},
    {{65536}},
    {{65537}},
    {{2, 3, 2, 3, 5}},
    {{2, 2, 3, 1, 2, 5}},
    {{2, 3, 1, 2, 2, 1, 3}},
    {{65, 3, 67}},
    {{409, 301}},
};
const Size kSmall[] = {{{5}, true}, {{3, 4}, true}, {{37}, true}, {{0}}, {{1}}, {{}}, {{2, 3, 5}}, {{129}}, {{13, 11}}};
const Size kMatrix[] = {
    {{5, 7, 3}, true}, {{3, 0, 2}, true}, {{17, 257, 33}, true}, {{1, 1025, 9}, true}, {{0, 3, 2}},
    {{1, 1, 1}},       {{2, 3, 0}},       {{16, 256, 32}},       {{33, 255, 65}},      {{65, 1023, 1}},
    {{1, 37, 1025}},   {{3, 8193, 5}},    {{129, 513, 131}},     {{2, 65537, 2}},
};
const Size kSignal[] = {{{2, 4, 37}, true}, {{1, 4, 1025}, true}, {{0, 4, 9}},
                        {{1, 4, 1}},        {{3, 8, 64}},         {{2, 4, 8193}}};
const Size kImage[] = {{{2, 4, 9, 7}, true}, {{1, 4, 33, 31}}, {{0, 4, 9, 9}},
                       {{1, 4, 1, 1}},       {{2, 8, 16, 65}}, {{1, 12, 57, 129}}};
const Size kVolume[] = {{{1, 4, 5, 6, 7}, true}, {{2, 4, 9, 8, 11}}, {{1, 8, 3, 17, 33}}, {{0, 4, 5, 5, 5}}};
const Size kSequence[] = {{{5, 2, 4}, true}, {{1, 1, 2}, true}, {{37, 2, 8}}, {{3, 65, 18}}, {{2, 3, 1}}, {{2, 0, 4}}};

std::span<const Size> sizes_of(Form form) {
  switch (form) {
    case Form::elementwise: return kElementwise;
    case Form::rows: return kRows;
    case Form::small: return kSmall;
    case Form::matrix: return kMatrix;
    case Form::signal: return kSignal;
    case Form::image: return kImage;
    case Form::volume: return kVolume;
    case Form::sequence: return kSequence;
  }
  return {};
}

}  // namespace

std::vector<CheckOp> all_check_ops() {
  std::vector<CheckOp> ops;
  for (const auto& family :
       {check_activation_ops(),  check_attention_ops(), check_contraction_ops(), check_creation_ops(),
        check_elementwise_ops(), check_encoding_ops(),  check_fft_ops(),         check_image_ops(),
        check_indexing_ops(),    check_linalg_ops(),    check_loss_ops(),        check_normalization_ops(),
        check_order_ops(),       check_pointwise_ops(), check_pooling_ops(),     check_recurrent_ops(),
        check_reduction_ops(),   check_scan_ops(),      check_shape_ops(),       check_statistics_ops()}) {
    ops.insert(ops.end(), family.begin(), family.end());
  }
  return ops;
}

std::vector<Numerics> numerics_beside_exact(const CheckOp& op, DType dtype) {
  const auto is_of = [&](std::span<const CheckOp> family) {
    return std::any_of(family.begin(), family.end(),
                       [&](const CheckOp& other) { return std::string_view(op.name) == other.name; });
  };
  const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
  if (narrow && (is_of(check_attention_ops()) || is_of(check_contraction_ops()) || is_of(check_recurrent_ops()))) {
    return {Numerics::blocked};
  }
  if (dtype == DType::f32 && is_of(check_encoding_ops())) return {Numerics::q8};
  return {};
}

const char* name_of(Extent extent) {
  constexpr const char* kNames[] = {"brief", "quick", "full"};
  return kNames[static_cast<std::size_t>(extent)];
}

// The first, the middle and the last size, of another layout, variant and kind of values each.
std::vector<Point> brief_points_of(const CheckOp& op) {
  std::vector<Shape> shapes;
  for (const Size& size : sizes_of(op.form)) {
    if (size.quick) shapes.push_back(size.shape);
  }
  std::vector<Point> points;
  for (int k = 0; k < 3; ++k) {
    const Shape& shape = shapes[k * (shapes.size() - 1) / 2];
    points.push_back(
        {shape, static_cast<Layout>(k % kLayouts), k == 1 ? Values::ordinary : Values::special, k % op.variants});
  }
  return points;
}

std::vector<Point> points_of(const CheckOp& op, Extent extent) {
  if (extent == Extent::brief) return brief_points_of(op);
  const bool full = extent == Extent::full;
  constexpr std::int64_t kQuickLayouts = 200;  // elements of a shape that --quick tries in every layout
  std::vector<Point> points;
  for (const Size& size : sizes_of(op.form)) {
    if (!full && !size.quick) continue;
    const std::int64_t count = size.shape.numel();
    for (int variant = 0; variant < op.variants; ++variant) {
      for (int layout = 0; layout < kLayouts; ++layout) {
        for (const Values values : {Values::ordinary, Values::special}) {
          // --quick: large shapes once per variant; small ones in every layout, and dense with both kinds of values.
          const bool dense = layout == 0;
          const bool kept = count > kQuickLayouts ? (layout == variant % kLayouts && values == Values::special) ||
                                                        (dense && variant == 0 && values == Values::ordinary)
                                                  : dense || (values == Values::special) == (layout % 2 == 0);
          if (full || kept) points.push_back({size.shape, static_cast<Layout>(layout), values, variant});
        }
      }
    }
  }
  return points;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
