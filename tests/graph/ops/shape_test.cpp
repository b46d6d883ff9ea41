// Shape ops: where each element goes, on every device and layout; PyTorch's own results are in tests/data/cases.
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include <numeric>

#include "support/tensors.h"

namespace lockstep {
namespace {

// 0, 1, 2, ... in row-major order.
Tensor counting(const Shape& shape, Device device = {}) {
  return arange(0, static_cast<double>(shape.numel()), 1, {.dtype = DType::i64, .device = device}).reshape(shape);
}

std::vector<std::int64_t> values(const Tensor& tensor) {
  return tensor.to_vector<std::int64_t>();
}
using Values = std::vector<std::int64_t>;

// The same elements as an offset, flipped view of something larger.
Tensor as_view(const Tensor& tensor) {
  if (tensor.rank() == 0) return tensor;
  const Tensor larger = cat({tensor, tensor, tensor}, 0).flip({0});
  const std::int64_t size = tensor.shape()[0];
  return larger.narrow(0, size, size).flip({0});
}

using ShapeOp = std::function<Tensor(const Tensor&)>;

// `op` gives the same bits for every dtype's words, on every device, for dense and viewed inputs.
void check_moves(const Shape& shape, const ShapeOp& op) {
  for (const DType dtype : {DType::boolean, DType::u8, DType::bf16, DType::f32, DType::i64}) {
    const Tensor dense =
        same_everywhere([&](Device device) { return op(random_tensor(shape, dtype, 3, device, true)); });
    const Tensor viewed =
        same_everywhere([&](Device device) { return op(as_view(random_tensor(shape, dtype, 3, device, true))); });
    EXPECT_BITS_EQ(dense, viewed);
  }
}

TEST(ShapeOps, MoveEveryDtypeAndLayout) {
  check_moves({2, 3, 4}, [](const Tensor& x) { return x.repeat({2, 1, 3, 2}); });
  check_moves({2, 3, 4}, [](const Tensor& x) { return tile(x, {3, 2}); });
  check_moves({2, 3, 4}, [](const Tensor& x) { return repeat_interleave(x, 3, -2); });
  check_moves({2, 3, 4}, [](const Tensor& x) {
    return repeat_interleave(x, Tensor::from<std::int64_t>({2, 0, 5}, {3}, x.device()), 1);
  });
  check_moves({2, 3, 4}, [](const Tensor& x) { return roll(x, {-1, 6}, {0, 2}); });
  check_moves({2, 3, 4}, [](const Tensor& x) { return roll(x, {7}); });
  check_moves({2, 3, 4}, [](const Tensor& x) { return rot90(x, 3, {2, 0}); });
  check_moves({2, 3, 4}, [](const Tensor& x) { return pad(x, {3, 2, 1, 1}, PadMode::reflect); });
  check_moves({2, 3, 4}, [](const Tensor& x) { return pad(x, {9, 2, 0, 3, 1, 0}, PadMode::replicate); });
  check_moves({2, 3, 4}, [](const Tensor& x) { return pad(x, {4, 2, 3, 1}, PadMode::circular); });
  check_moves({2, 9}, [](const Tensor& x) { return x.unfold(1, 4, 3); });
  check_moves({3, 4, 5}, [](const Tensor& x) { return x.diagonal(-1, 2, 0); });
  check_moves({3, 4}, [](const Tensor& x) { return diag_embed(x, -2, 0, 2); });
  check_moves({2, 12, 2, 3}, [](const Tensor& x) { return pixel_shuffle(x, 2); });
  check_moves({2, 3, 4, 6}, [](const Tensor& x) { return pixel_unshuffle(x, 2); });
  check_moves({2, 6, 3}, [](const Tensor& x) { return channel_shuffle(x, 3); });
  check_moves({1, 2, 6, 7}, [](const Tensor& x) {
    return unfold(x, {2, 3}, {.dilation = {2, 1}, .padding = {1, 2}, .stride = {1, 2}});
  });
  check_moves({4, 3, 2}, [](const Tensor& x) { return x.index({Slice{1, 4, 2}, kNone, kEllipsis, -1}); });
  check_moves({4, 3}, [](const Tensor& x) { return slice_scatter(x, x.narrow(0, 0, 2), 0, {3, 0, -2}); });
  check_moves({4, 3}, [](const Tensor& x) { return select_scatter(x, x.select(0, 3), 0, 1); });
  check_moves({4, 3}, [](const Tensor& x) { return diagonal_scatter(x, x.select(1, 0).narrow(0, 1, 3), -1); });
}

TEST(ShapeOps, ViewNeverCopies) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(x.view({6, -1}).shape(), (Shape{6, 4}));
  EXPECT_EQ(x.transpose(1, 2).view({2, 4, 3, 1}).shape(), (Shape{2, 4, 3, 1}));
  expect_error<ShapeError>([&] { x.transpose(0, 1).view({24}); }, {"view", "[24]", "reshape"});
  expect_error<ShapeError>([&] { x.view({5}); }, {"[5]"});
}

TEST(ShapeOps, Unflatten) {
  EXPECT_EQ(counting({2, 6}).unflatten(1, {3, -1}).shape(), (Shape{2, 3, 2}));
  expect_error<ShapeError>([] { counting({2, 6}).unflatten(1, {4, -1}); }, {"unflatten", "[4, -1]"});
  expect_error<ShapeError>([] { counting({2, 6}).unflatten(1, {}); }, {"unflatten"});
  expect_error<IndexError>([] { counting({2, 6}).unflatten(2, {3, 2}); }, {"2"});
}

TEST(ShapeOps, SqueezeOfAllOrSeveral) {
  const Tensor x = ones({1, 3, 1, 2, 1});
  EXPECT_EQ(x.squeeze().shape(), (Shape{3, 2}));
  EXPECT_EQ(x.squeeze({0, 1, -1}).shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(x.squeeze(0).shape(), (Shape{3, 1, 2, 1}));
  EXPECT_EQ(ones({}).squeeze().shape(), (Shape{}));
  expect_error<IndexError>([&] { x.squeeze({0, 7}); }, {"7"});
}

TEST(ShapeOps, MovedimKeepsTheOrderOfTheRest) {
  EXPECT_EQ(ones({2, 3, 4, 5}).movedim({0, 1}, {-1, 0}).shape(), (Shape{3, 4, 5, 2}));
  expect_error<ShapeError>([] { ones({2, 3}).movedim({0}, {0, 1}); }, {"movedim"});
  EXPECT_THROW(ones({2, 3}).movedim({0, 0}, {0, 1}), Error);
}

TEST(ShapeOps, SplitsCoverTheDimension) {
  const Tensor x = counting({7, 2});
  const auto sizes = [](const std::vector<Tensor>& pieces) {
    Values result;
    for (const Tensor& piece : pieces) result.push_back(piece.shape()[0]);
    return result;
  };
  EXPECT_EQ(sizes(x.split(3)), (Values{3, 3, 1}));
  EXPECT_EQ(sizes(x.split({1, 0, 6})), (Values{1, 0, 6}));
  EXPECT_EQ(sizes(x.chunk(3)), (Values{3, 3, 1}));
  EXPECT_EQ(sizes(x.chunk(5)), (Values{2, 2, 2, 1}));
  EXPECT_EQ(sizes(x.tensor_split(3)), (Values{3, 2, 2}));
  EXPECT_EQ(sizes(x.tensor_split({2, 5, 1, -1})), (Values{2, 3, 0, 5, 1}));
  EXPECT_EQ(sizes(x.narrow(0, 0, 0).split(0)), (Values{0}));
  EXPECT_EQ(sizes(x.narrow(0, 0, 0).chunk(3)), (Values{0, 0, 0}));
  EXPECT_EQ(x.unbind(1).size(), 2u);
  EXPECT_EQ(values(x.unbind(1)[1]), (Values{1, 3, 5, 7, 9, 11, 13}));
  EXPECT_BITS_EQ(cat(x.tensor_split(4)), x);
  expect_error<ValueError>([&] { x.split(0); }, {"split"});
  expect_error<ValueError>([&] { x.split(-1); }, {"-1"});
  expect_error<ShapeError>([&] { x.split({3, 3}); }, {"7"});
  expect_error<ShapeError>([&] { x.split({9, -2}); }, {"negative"});
  expect_error<ValueError>([&] { x.chunk(0); }, {"chunk"});
  expect_error<ValueError>([&] { x.tensor_split(0); }, {"tensor_split"});
  expect_error<IndexError>([&] { x.split(1, 2); }, {"2"});
}

TEST(ShapeOps, RepeatInEveryDimensionOfRankEight) {
  const Tensor x = counting({2, 1, 2, 3, 1, 2, 2, 2});
  const Tensor all = x.repeat({2, 2, 1, 2, 3, 2, 2, 2});
  EXPECT_EQ(all.shape(), (Shape{4, 2, 2, 6, 3, 4, 4, 4}));
  Tensor expected = x;
  const Shape counts{2, 2, 1, 2, 3, 2, 2, 2};
  for (int d = 0; d < 8; ++d) expected = cat(std::vector<Tensor>(static_cast<std::size_t>(counts[d]), expected), d);
  EXPECT_BITS_EQ(all, expected);
}

TEST(ShapeOps, RepeatErrors) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(x.repeat({0, 2}).shape(), (Shape{0, 6}));
  expect_error<ShapeError>([&] { x.repeat({2}); }, {"[2]"});
  expect_error<ShapeError>([&] { x.repeat({2, -1}); }, {"-1"});
  expect_error<ShapeError>([&] { x.repeat({std::int64_t{1} << 62, 4}); }, {"repeat"});
  expect_error<ValueError>([&] { repeat_interleave(x, -1, 0); }, {"-1"});
  expect_error<ValueError>(
      [&] {
        repeat_interleave(x, Tensor::from<std::int64_t>({1, -2}, {2}), 0);
      },
      {"slice 1", "-2"});
  expect_error<ShapeError>([&] { repeat_interleave(x, Tensor::from<std::int64_t>({1, 2, 3}, {3}), 0); }, {"2"});
  expect_error<DTypeError>([&] { repeat_interleave(x, ones({2}), 0); }, {"i64"});
}

TEST(ShapeOps, RollTakesAnyShift) {
  const Tensor x = counting({5});
  EXPECT_EQ(values(roll(x, {7})), (Values{3, 4, 0, 1, 2}));
  EXPECT_EQ(values(roll(x, {-6})), (Values{1, 2, 3, 4, 0}));
  EXPECT_EQ(values(roll(x, {1, 1}, {0, 0})), (Values{3, 4, 0, 1, 2}));
  EXPECT_EQ(roll(ones({0, 3}), {1}, {0}).shape(), (Shape{0, 3}));
  expect_error<ShapeError>([&] { roll(x, {1, 2}, {0}); }, {"shifts"});
  expect_error<IndexError>([&] { roll(x, {1}, {1}); }, {"1"});
}

TEST(ShapeOps, FlipsNeedTheirDimension) {
  EXPECT_EQ(values(fliplr(counting({2, 3}))), (Values{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(values(flipud(counting({2, 3}))), (Values{3, 4, 5, 0, 1, 2}));
  expect_error<ShapeError>([] { fliplr(ones({3})); }, {"fliplr"});
  expect_error<ShapeError>([] { flipud(ones({})); }, {"flipud"});
  expect_error<ShapeError>([] { rot90(ones({3, 3}), 1, {0}); }, {"rot90"});
  EXPECT_THROW(rot90(ones({3, 3}), 1, {0, 0}), Error);
}

TEST(Padding, ModesReadTheInput) {
  const Tensor x = counting({4});
  EXPECT_EQ(values(pad(x, {3, 2}, PadMode::reflect)), (Values{3, 2, 1, 0, 1, 2, 3, 2, 1}));
  EXPECT_EQ(values(pad(x, {2, 3}, PadMode::replicate)), (Values{0, 0, 0, 1, 2, 3, 3, 3, 3}));
  EXPECT_EQ(values(pad(x, {4, 1}, PadMode::circular)), (Values{0, 1, 2, 3, 0, 1, 2, 3, 0}));
  EXPECT_EQ(values(pad(x, {-1, 2}, PadMode::circular)), (Values{1, 2, 3, 1, 2}));
  EXPECT_EQ(values(pad(x, {0, 0}, PadMode::circular)), (Values{0, 1, 2, 3}));
  EXPECT_EQ(pad(ones({0, 4}), {1, 1}, PadMode::reflect).shape(), (Shape{0, 6}));
}

TEST(Padding, ModesHaveLimits) {
  const Tensor x = ones({2, 4});
  expect_error<ShapeError>([&] { pad(x, {4, 0}, PadMode::reflect); }, {"(4, 0)", "at most 3"});
  expect_error<ShapeError>([&] { pad(x, {0, 5}, PadMode::circular); }, {"at most 4"});
  expect_error<ShapeError>([&] { pad(ones({2, 0}), {1, 0}, PadMode::replicate); }, {"at most 0"});
  expect_error<ShapeError>([&] { pad(x, {-3, -3}, PadMode::replicate); }, {"(-3, -3)"});
  expect_error<ShapeError>([&] { pad(x, {1}, PadMode::reflect); }, {"pairs"});
  expect_error<ShapeError>([&] { pad(x, {1, 1, 1, 1, 1, 1}, PadMode::reflect); }, {"pairs"});
}

TEST(Windows, UnfoldAndFold) {
  const Tensor x = counting({1, 1, 3, 4});
  EXPECT_EQ(values(unfold(x, 2, {.stride = {1, 2}})), (Values{0, 2, 4, 6, 1, 3, 5, 7, 4, 6, 8, 10, 5, 7, 9, 11}));
  const UnfoldOptions options{.dilation = {1, 2}, .padding = {2, 1}, .stride = {2, 1}};
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    same_everywhere([&](Device device) {
      const Tensor image = random_tensor({2, 3, 7, 6}, dtype, 1, device, true);
      return fold(unfold(image, {3, 2}, options), {7, 6}, {3, 2}, options);
    });
  }
  // How often each pixel is covered.
  const Tensor covered = fold(unfold(ones({1, 1, 3, 3}), 2), {3, 3}, 2);
  EXPECT_BITS_EQ(covered.reshape({9}), Tensor::from<float>({1, 2, 1, 2, 4, 2, 1, 2, 1}, {9}));
}

TEST(Windows, UncoveredPixelsArePositiveZero) {
  const UnfoldOptions options{.stride = {2}};
  const Tensor folded = fold(ones({1, 1, 4}), {3, 3}, 1, options);
  EXPECT_BITS_EQ(folded.reshape({9}), Tensor::from<float>({1, 0, 1, 0, 0, 0, 1, 0, 1}, {9}));
}

TEST(Windows, Errors) {
  const Tensor x = ones({1, 2, 5, 5});
  expect_error<ShapeError>([&] { unfold(x, 6); }, {"6", "5"});
  expect_error<ValueError>([&] { unfold(x, 0); }, {"kernel"});
  expect_error<ValueError>([&] { unfold(x, 2, {.stride = {0}}); }, {"stride"});
  expect_error<ShapeError>([&] { unfold(ones({5, 5}), 2); }, {"[N, C, H, W]"});
  expect_error<ShapeError>([&] { fold(ones({1, 4, 15}), {5, 5}, 2); }, {"16"});
  expect_error<ShapeError>([&] { fold(ones({1, 5, 16}), {5, 5}, 2); }, {"C * 4"});
  expect_error<DTypeError>([&] { fold(ones({1, 4, 16}, {.dtype = DType::i32}), {5, 5}, 2); }, {"fold"});
  expect_error<ShapeError>([&] { x.unfold(2, 6, 1); }, {"6"});
  expect_error<ValueError>([&] { x.unfold(2, 2, 0); }, {"step"});
}

TEST(Diagonals, OfAndInto) {
  const Tensor x = counting({3, 4});
  EXPECT_EQ(values(x.diagonal(1)), (Values{1, 6, 11}));
  EXPECT_EQ(values(x.diagonal(-2)), (Values{8}));
  EXPECT_EQ(x.diagonal(9).shape(), (Shape{0}));
  EXPECT_EQ(x.diagonal(-9).shape(), (Shape{0}));
  EXPECT_EQ(values(diag(counting({2}) + 5, 1)), (Values{0, 5, 0, 0, 0, 6, 0, 0, 0}));
  EXPECT_EQ(values(diag(counting({2}) + 5, -1)), (Values{0, 0, 0, 5, 0, 0, 0, 6, 0}));
  EXPECT_EQ(diag_embed(ones({2, 0}), 1).shape(), (Shape{2, 1, 1}));
  expect_error<ShapeError>([] { ones({3}).diagonal(); }, {"two dimensions"});
  EXPECT_THROW(ones({3, 3}).diagonal(0, 1, 1), Error);
  expect_error<ValueError>([] { diag_embed(ones({3}), 0, 0, 0); }, {"one dimension"});
  expect_error<IndexError>([] { diag_embed(ones({3}), 0, 0, 2); }, {"2"});
  expect_error<ShapeError>([] { diag(ones({2, 2, 2})); }, {"diag"});
}

TEST(Indexing, FollowsPython) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(values(x.index({1, -1})), (Values{20, 21, 22, 23}));
  EXPECT_EQ(values(x.index({kEllipsis, 0})), (Values{0, 4, 8, 12, 16, 20}));
  EXPECT_EQ(values(x.index({0, Slice{.step = -2}, Slice{1, 3}})), (Values{9, 10, 1, 2}));
  EXPECT_EQ(x.index({kNone, kEllipsis, kNone, Slice{}}).shape(), (Shape{1, 2, 3, 1, 4}));
  EXPECT_EQ(x.index({0, kEllipsis, 1, 2}).shape(), (Shape{}));
  EXPECT_EQ(x.index({}).shape(), x.shape());
  EXPECT_EQ(x.index({Slice{1, 1}}).shape(), (Shape{0, 3, 4}));
  expect_error<IndexError>([&] { x.index({2}); }, {"2"});
  expect_error<IndexError>([&] { x.index({0, 0, 0, 0}); }, {"4 entries"});
  expect_error<IndexError>([&] { x.index({kEllipsis, kEllipsis}); }, {"ellipsis"});
}

TEST(Indexing, TensorsPickAfterTheViews) {
  const Tensor x = counting({2, 3, 4});
  const Tensor ids = Tensor::from<std::int64_t>({2, 0}, {2});
  EXPECT_BITS_EQ(x.index({1, Slice{1, 3}, ids}), x.select(0, 1).narrow(0, 1, 2).index({kEllipsis, ids}));
  EXPECT_EQ(values(x.index({1, ids, 0})), (Values{20, 12}));
  EXPECT_EQ(x.index({kNone, kEllipsis, ids}).shape(), (Shape{1, 2, 3, 2}));
  const Tensor mask = Tensor::from<bool>({true, false, false, false, true, true}, {2, 3});
  EXPECT_EQ(values(x.index({mask, -1})), (Values{3, 19, 23}));
}

TEST(Indexing, ScattersReplaceAView) {
  const Tensor x = zeros({3, 3}, {.dtype = DType::i64});
  EXPECT_EQ(values(select_scatter(x, counting({3}) + 1, 1, -1)), (Values{0, 0, 1, 0, 0, 2, 0, 0, 3}));
  EXPECT_EQ(values(diagonal_scatter(x, counting({2}) + 1, 1)), (Values{0, 1, 0, 0, 0, 2, 0, 0, 0}));
  EXPECT_EQ(values(slice_scatter(x.transpose(0, 1), counting({1, 3}) + 1, 0, {1, 2})),
            (Values{0, 0, 0, 1, 2, 3, 0, 0, 0}));
  EXPECT_EQ(values(x), Values(9, 0));
  expect_error<ShapeError>([&] { select_scatter(x, counting({2}), 0, 0); }, {"[3]"});
  expect_error<DTypeError>([&] { select_scatter(x, ones({3}), 0, 0); }, {"i64"});
  expect_error<IndexError>([&] { select_scatter(x, counting({3}), 0, 3); }, {"3"});
}

TEST(Joining, Stacks) {
  const Tensor v = counting({3});
  EXPECT_EQ(hstack({v, v}).shape(), (Shape{6}));
  EXPECT_EQ(vstack({v, v}).shape(), (Shape{2, 3}));
  EXPECT_EQ(dstack({v, v}).shape(), (Shape{1, 3, 2}));
  EXPECT_EQ(column_stack({v, counting({3, 2})}).shape(), (Shape{3, 3}));
  EXPECT_EQ(hstack({counting({}), counting({})}).shape(), (Shape{2}));
  EXPECT_EQ(atleast_3d(counting({2, 3})).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(atleast_2d(counting({})).shape(), (Shape{1, 1}));
  expect_error<ValueError>([] { hstack({}); }, {"empty"});
  expect_error<ShapeError>([&] { vstack({v, counting({4})}); }, {"vstack"});
  expect_error<DTypeError>([&] { vstack({v, ones({3})}); }, {"vstack"});
  const std::vector<Tensor> both = broadcast_tensors({ones({3, 1}), counting({2})});
  EXPECT_EQ(both[0].shape(), (Shape{3, 2}));
  EXPECT_EQ(both[1].dtype(), DType::i64);
  expect_error<ShapeError>([] { broadcast_tensors({ones({3}), ones({2})}); }, {"broadcast_tensors"});
}

TEST(Joining, ManyTensors) {
  same_everywhere([](Device device) {
    std::vector<Tensor> pieces;
    for (int i = 0; i < 40; ++i)
      pieces.push_back(random_tensor({3, i % 5, 2}, DType::f32, static_cast<std::uint64_t>(i), device));
    return cat(pieces, 1);
  });
}

TEST(Shuffles, RegroupOnlyWhatFits) {
  expect_error<ShapeError>([] { pixel_shuffle(ones({1, 6, 2, 2}), 2); }, {"pixel_shuffle"});
  expect_error<ShapeError>([] { pixel_shuffle(ones({4, 4}), 2); }, {"pixel_shuffle"});
  expect_error<ShapeError>([] { pixel_unshuffle(ones({1, 1, 3, 2}), 2); }, {"pixel_unshuffle"});
  expect_error<ShapeError>([] { channel_shuffle(ones({1, 5, 2}), 2); }, {"channel_shuffle"});
  EXPECT_EQ(pixel_shuffle(ones({2, 1, 3, 8, 2, 3}), 2).shape(), (Shape{2, 1, 3, 2, 4, 6}));
}

}  // namespace
}  // namespace lockstep
