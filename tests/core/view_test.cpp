#include "core/view.h"

#include <gtest/gtest.h>

#include <random>

namespace lockstep {
namespace {

// A view beside the values it must show: positions in the source, or -1 where it shows the fill value.
struct Modelled {
  View view;
  std::vector<std::int64_t> values;  // row-major
};

std::vector<std::int64_t> values_of(const View& view) {
  std::vector<std::int64_t> values;
  const std::int64_t count = view.shape.numel();
  for (std::int64_t linear = 0; linear < count; ++linear) {
    std::int64_t index[Shape::kCapacity];
    std::int64_t rest = linear;
    for (int d = view.rank() - 1; d >= 0; --d) {
      index[d] = rest % view.shape[d];
      rest /= view.shape[d];
    }
    values.push_back(view.address(index));
  }
  return values;
}

// The same operation on values: result[index] = source[map(index)], -1 outside.
template <typename Map>
std::vector<std::int64_t> remap(const Modelled& source, const Shape& shape, Map map) {
  std::vector<std::int64_t> result;
  for (std::int64_t linear = 0; linear < shape.numel(); ++linear) {
    Shape index = shape;
    std::int64_t rest = linear;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    const Shape from = map(index);
    std::int64_t position = 0;
    bool inside = true;
    for (int d = 0; d < from.rank(); ++d) {
      inside = inside && from[d] >= 0 && from[d] < source.view.shape[d];
      position = position * source.view.shape[d] + from[d];
    }
    result.push_back(inside ? source.values[static_cast<std::size_t>(position)] : -1);
  }
  return result;
}

class RandomViews {
 public:
  explicit RandomViews(std::uint64_t seed) : random_(seed) {}

  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  // One random operation; false where the view says that the source has to be stored first.
  bool step(Modelled& m) {
    const Shape shape = m.view.shape;
    const int rank = shape.rank();
    const int dim = rank == 0 ? 0 : static_cast<int>(number(0, rank - 1));
    std::optional<View> next;
    std::vector<std::int64_t> values;
    switch (number(0, 8)) {
      case 0: {  // permute
        Shape dims;
        for (int d = 0; d < rank; ++d) dims.push_back(d);
        std::shuffle(dims.begin(), dims.end(), random_);
        next = m.view.permuted(dims);
        values = remap(m, next->shape, [&](const Shape& i) {
          Shape from = i;
          for (int d = 0; d < rank; ++d) from[static_cast<int>(dims[d])] = i[d];
          return from;
        });
        break;
      }
      case 1: {  // slice
        if (rank == 0 || shape[dim] == 0) return true;
        const std::int64_t start = number(0, shape[dim] - 1);
        const bool back = number(0, 1) == 1;
        const std::int64_t step = number(1, 3);
        const std::int64_t room = back ? start : shape[dim] - 1 - start;
        const std::int64_t size = number(0, room / step + 1);
        next = m.view.sliced(dim, start, back ? -step : step, size);
        values = remap(m, next->shape, [&](Shape i) {
          i[dim] = start + (back ? -step : step) * i[dim];
          return i;
        });
        break;
      }
      case 2: {  // pad
        if (rank == 0) return true;
        const std::int64_t before = number(-std::min<std::int64_t>(1, shape[dim]), 2);
        const std::int64_t after = number(0, 2);
        next = m.view.padded(dim, before, after, 0);
        if (!next) return false;
        values = remap(m, next->shape, [&](Shape i) {
          i[dim] -= before;
          return i;
        });
        break;
      }
      case 7: {  // diagonal
        if (rank < 2) return true;
        int other = static_cast<int>(number(0, rank - 2));
        if (other >= dim) ++other;
        if (shape[dim] == 0 || shape[other] == 0) return true;
        const std::int64_t first = number(0, shape[dim] - 1);
        const std::int64_t second = number(0, shape[other] - 1);
        const std::int64_t size = std::min(shape[dim] - first, shape[other] - second);
        next = m.view.diagonal(dim, other, first, second, size);
        values = remap(m, next->shape, [&](const Shape& i) {
          Shape from = i.slice(0, rank - 2);
          from.insert(std::min(dim, other), 0);
          from.insert(std::max(dim, other), 0);
          from[dim] = first + i.back();
          from[other] = second + i.back();
          return from;
        });
        break;
      }
      case 8: {  // embed
        if (rank == 0 || rank + 1 > 6) return true;
        const std::int64_t offset = number(-2, 2);
        next = m.view.embedded(offset, 0);
        if (!next) return false;
        values = remap(m, next->shape, [&](const Shape& i) {
          Shape from = i.slice(0, rank);
          from[rank - 1] = i[rank] - i[rank - 1] == offset ? std::min(i[rank], i[rank - 1]) : -1;
          return from;
        });
        break;
      }
      case 3: {  // window
        if (rank == 0 || rank + 1 > 6 || shape[dim] == 0) return true;
        const std::int64_t dilation = number(1, 2);
        const std::int64_t kernel = number(1, std::min<std::int64_t>(3, (shape[dim] - 1) / dilation + 1));
        const std::int64_t stride = number(1, 2);
        const std::int64_t count = (shape[dim] - (dilation * (kernel - 1) + 1)) / stride + 1;
        next = m.view.windowed(dim, kernel, count, stride, dilation);
        values = remap(m, next->shape, [&](const Shape& i) {
          Shape from = i.slice(0, rank);
          from[dim] = i[dim] * stride + i[rank] * dilation;
          return from;
        });
        break;
      }
      case 4: {  // dilate
        if (rank == 0 || shape[dim] > 5) return true;
        const std::int64_t step = number(1, 3);
        next = m.view.dilated(dim, step, 0);
        if (!next) return false;
        values = remap(m, next->shape, [&](Shape i) {
          i[dim] = i[dim] % step == 0 ? i[dim] / step : -1;
          return i;
        });
        break;
      }
      case 5: {  // expand
        if (rank + 1 > 6) return true;
        Shape to = shape;
        for (std::int64_t& size : to) size = size == 1 ? number(1, 3) : size;
        to.insert(0, number(1, 2));
        next = m.view.expanded(to);
        values = remap(m, to, [&](const Shape& i) {
          Shape from = i.slice(1, rank + 1);
          for (int d = 0; d < rank; ++d) from[d] = shape[d] == 1 ? 0 : from[d];
          return from;
        });
        break;
      }
      default: {  // reshape: merge two neighbours or split one
        Shape to = shape;
        if (rank >= 2 && number(0, 1) == 1) {
          const int first = static_cast<int>(number(0, rank - 2));
          to[first] *= to[first + 1];
          to.erase(first + 1);
        } else if (rank >= 1 && rank + 1 <= 6 && shape[dim] % 2 == 0) {
          to[dim] /= 2;
          to.insert(dim + 1, 2);
        }
        next = m.view.reshaped(to);
        if (!next) return false;
        values = m.values;  // row-major order is what reshaping keeps
      }
    }
    if (next->shape.numel() > 5000) return true;
    m = {*next, values};
    return true;
  }

 private:
  std::mt19937_64 random_;
};

TEST(View, EveryChainOfOperationsShowsTheRightElements) {
  int stored = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    RandomViews random(seed);
    Shape shape;
    for (std::int64_t d = random.number(0, 3); d > 0; --d) shape.push_back(random.number(1, 6));
    Modelled m{View::contiguous(shape), {}};
    m.values = values_of(m.view);
    for (int step = 0; step < 6; ++step) {
      stored += random.step(m) ? 0 : 1;
      ASSERT_EQ(values_of(m.view), m.values) << "seed " << seed << ", step " << step;
    }
  }
  // Where a chain is no view it says so; most are.
  EXPECT_LT(stored, 3000);
}

TEST(View, ReshapeOfTransposedNeedsStorage) {
  EXPECT_FALSE(View::contiguous({2, 3}).permuted({1, 0}).reshaped({6}).has_value());
}

TEST(View, PadWithAnotherFillNeedsStorage) {
  const View padded = *View::contiguous({4}).padded(0, 1, 1, 0);
  EXPECT_FALSE(padded.padded(0, 1, 1, 5).has_value());
  EXPECT_TRUE(padded.padded(0, 1, 1, 0).has_value());
}

TEST(View, CroppingAwayThePaddingDropsTheBound) {
  const View padded = *View::contiguous({4}).padded(0, 1, 1, 0);
  EXPECT_TRUE(padded.sliced(0, 1, 1, 4).bounds.empty());
}

TEST(View, FoldedFindsTheWindowsOfAnElement) {
  for (const std::int64_t stride : {1, 2, 3}) {
    for (const std::int64_t dilation : {1, 2}) {
      for (const std::int64_t kernel : {1, 2, 3}) {
        for (const std::int64_t before : {0, 1}) {
          const std::int64_t size = 9;
          const std::int64_t count = (size + 2 * before - dilation * (kernel - 1) - 1) / stride + 1;
          // [positions, 2, taps]: the dimension between stays as it is.
          const View view = *View::contiguous({count, 2, kernel}).folded(0, 2, size, before, stride, dilation, 0);
          EXPECT_EQ(view.shape, (Shape{size, 2, kernel}));
          std::vector<std::int64_t> expected;
          for (std::int64_t i = 0; i < size; ++i) {
            for (std::int64_t c = 0; c < 2; ++c) {
              for (std::int64_t t = 0; t < kernel; ++t) {
                const std::int64_t start = i + before - t * dilation;
                const bool found = start >= 0 && start % stride == 0 && start / stride < count;
                expected.push_back(found ? (start / stride * 2 + c) * kernel + t : -1);
              }
            }
          }
          EXPECT_EQ(values_of(view), expected) << stride << " " << dilation << " " << kernel << " " << before;
        }
      }
    }
  }
  EXPECT_FALSE(View::contiguous({4, 2}).padded(0, 1, 1, 0)->folded(0, 1, 9, 0, 2, 1, 0).has_value());
}

TEST(View, CollapseMergesWhatAllViewsAllow) {
  View a = View::contiguous({2, 3, 4});
  View b = View::contiguous({3, 4}).expanded({2, 3, 4});
  std::vector<int> first_of;
  EXPECT_EQ(collapse_dims({&a, &b}, {2, 3, 4}, {}, &first_of), (Shape{2, 12}));
  EXPECT_EQ(a.strides, (Shape{12, 1}));
  EXPECT_EQ(b.strides, (Shape{0, 1}));
  EXPECT_EQ(first_of, (std::vector<int>{0, 1, 2}));
}

TEST(View, CollapseKeepsBoundaries) {
  View a = View::contiguous({2, 3, 4});
  EXPECT_EQ(collapse_dims({&a}, {2, 3, 4}, {2}), (Shape{6, 4}));
}

}  // namespace
}  // namespace lockstep
