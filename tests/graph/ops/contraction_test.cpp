// Products, einsum and (transposed) convolutions: equal bits everywhere, and bits where the law fixes an order. Values
// are compared with PyTorch's in tests/data/cases.
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

class ProductOps : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, ProductOps,
                         ::testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8, DType::i64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(ProductOps, EqualBitsEverywhere) {
  const DType dtype = GetParam();
  const auto r = [&](const Shape& shape, std::uint64_t seed, Device device) {
    return random(shape, seed, device, dtype);
  };
  same_everywhere([&](Device d) { return mm(r({7, 300}, 1, d), r({300, 5}, 2, d)); });
  same_everywhere([&](Device d) { return bmm(r({3, 7, 30}, 1, d), r({3, 30, 5}, 2, d)); });
  same_everywhere([&](Device d) { return mv(r({7, 300}, 1, d), r({300}, 2, d)); });
  same_everywhere([&](Device d) { return dot(r({1000}, 1, d), r({1000}, 2, d)); });
  same_everywhere([&](Device d) { return inner(r({3, 4, 40}, 1, d), r({5, 40}, 2, d)); });
  same_everywhere([&](Device d) { return outer(r({40}, 1, d), r({50}, 2, d)); });
  same_everywhere([&](Device d) { return kron(r({3, 4}, 1, d), r({2, 5, 6}, 2, d)); });
  same_everywhere([&](Device d) { return tensordot(r({3, 4, 5, 6}, 1, d), r({5, 7, 4}, 2, d), {2, 1}, {0, -1}); });
  same_everywhere([&](Device d) {
    return multi_dot({r({9}, 1, d), r({9, 30}, 2, d), r({30, 2}, 3, d), r({2, 8}, 4, d)});
  });
  same_everywhere([&](Device d) { return bilinear(r({6, 4}, 1, d), r({6, 5}, 2, d), r({3, 4, 5}, 3, d)); });
}

TEST(Products, ScalesAreSeparateRoundings) {
  const Tensor a = random({5, 300}, 1);
  const Tensor b = random({300, 6}, 2);
  const Tensor c = random({6}, 3);
  EXPECT_BITS_EQ(addmm(c, a, b), matmul(a, b) + c);
  EXPECT_BITS_EQ(addmm(c, a, b, {.beta = 0.3, .alpha = 1.7}), matmul(a, b) * 1.7 + c * 0.3);
  EXPECT_BITS_EQ(addmv(c, b.transpose(0, 1), a.select(0, 0), {.beta = 2}),
                 matmul(b.transpose(0, 1), a.select(0, 0)) + c * 2);
  const Tensor x = random({4, 5, 70}, 4);
  const Tensor y = random({4, 70, 6}, 5);
  EXPECT_BITS_EQ(baddbmm(c, x, y, {.alpha = 0.5}), matmul(x, y) * 0.5 + c);
  // The batch is the outermost part of k.
  EXPECT_BITS_EQ(addbmm(c, x, y, {.beta = 0}), matmul(x.permute({1, 0, 2}).reshape({5, 280}), y.reshape({280, 6})));
  EXPECT_BITS_EQ(addmm(full({6}, kInfinity), a, b, {.beta = 0}), matmul(a, b));
}

TEST(Products, HalvesRoundOnce) {
  const Tensor a = random({5, 300}, 1, {}, DType::f16);
  const Tensor b = random({300, 6}, 2, {}, DType::f16);
  const Tensor c = random({5, 6}, 3, {}, DType::f16);
  const auto w = [](const Tensor& t) { return t.to(DType::f32); };
  EXPECT_BITS_EQ(addmm(c, a, b, {.beta = 3, .alpha = 0.3}), (matmul(w(a), w(b)) * 0.3 + w(c) * 3).to(DType::f16));
}

TEST(Products, IntegersAreWideAndMixedTypesNameTheCast) {
  const Tensor a = Tensor::from<std::int8_t>(std::vector<std::int8_t>(400, 127), {1, 400});
  EXPECT_EQ(mm(a, a.transpose(0, 1)).item<std::int32_t>(), 400 * 127 * 127);
  EXPECT_EQ(addmm(full({1, 1}, 5, {.dtype = DType::i32}), a, a.transpose(0, 1)).item<std::int32_t>(),
            400 * 127 * 127 + 5);
  EXPECT_EQ(einsum("ij,ij,ij->", {a, a, a}).item<std::int32_t>(), 400 * 127 * 127 * 127);
  expect_error<DTypeError>([&] { mm(a, a.transpose(0, 1).to(DType::f32)); }, {"mm", ".to(DType::i8)"});
  expect_error<DTypeError>([&] { addmm(a, a, a.transpose(0, 1)); }, {"addmm", ".to(DType::i32)"});
  expect_error<DTypeError>(
      [&] {
        addmm(full({1, 1}, 5, {.dtype = DType::i32}), a, a.transpose(0, 1), {.alpha = 0.5});
      },
      {"addmm", "0.5"});
}

TEST(Products, WrongShapes) {
  const Tensor a = ones({2, 3});
  const Tensor x = ones({2, 2, 3});
  expect_error<ShapeError>([&] { mm(a, a); }, {"mm", "3 and 2"});
  expect_error<ShapeError>([&] { mm(x, a); }, {"mm", "dimensions"});
  expect_error<ShapeError>([&] { bmm(x, ones({3, 3, 2})); }, {"bmm", "batch"});
  expect_error<ShapeError>([&] { dot(ones({2}), ones({3})); }, {"dot"});
  expect_error<ShapeError>([&] { addmm(ones({4}), a, ones({3, 2})); }, {"addmm"});
  expect_error<ShapeError>([&] { addmm(ones({5, 2, 2}), a, ones({3, 2})); }, {"addmm"});
  expect_error<ValueError>([&] { tensordot(a, a, {0, 1}, {0}); }, {"tensordot"});
  expect_error<ShapeError>([&] { tensordot(a, a, {0}, {1}); }, {"tensordot"});
  expect_error<IndexError>([&] { tensordot(a, a, {2}, {1}); }, {"tensordot"});
  expect_error<ShapeError>([&] { outer(a, a); }, {"outer"});
  expect_error<ValueError>([&] { multi_dot({a}); }, {"multi_dot"});
  expect_error<ShapeError>([&] { bilinear(a, a, ones({1, 3, 2})); }, {"bilinear"});
}

TEST(Einsum, EqualBitsEverywhere) {
  const auto check = [](const std::string& equation, const std::vector<Shape>& shapes, DType dtype = DType::f32) {
    SCOPED_TRACE(equation);
    same_everywhere([&](Device device) {
      std::vector<Tensor> operands;
      for (std::size_t i = 0; i < shapes.size(); ++i) operands.push_back(random(shapes[i], i + 1, device, dtype));
      return einsum(equation, operands);
    });
  };
  check("ij,jk->ik", {{4, 300}, {300, 5}});
  check("ij,jk", {{4, 300}, {300, 5}}, DType::f16);
  check("bhqd,bhkd->bhqk", {{2, 3, 4, 5}, {2, 3, 6, 5}});
  check("ii->i", {{5, 5}});
  check("ii", {{70, 70}});
  check("iji,jj->j", {{5, 6, 5}, {6, 6}});
  check("...ij,...jk->...ik", {{2, 1, 3, 4}, {5, 4, 6}});
  check("i...,i...", {{3, 4, 5}, {3, 4, 5}});
  check("ab,bc,cd,de->ae", {{2, 3}, {3, 4}, {4, 5}, {5, 6}});
  check("i,j,k->kji", {{2}, {3}, {4}});
  check("abcdefg,gfedcba->", {{2, 1, 2, 3, 2, 1, 2}, {2, 1, 2, 3, 2, 1, 2}});
  check("abcdef,abcdef->fedcba", {{2, 3, 2, 1, 2, 3}, {2, 3, 2, 1, 2, 3}});
  check("ij,k->ik", {{4, 50}, {3}}, DType::bf16);
  check("ij->", {{4, 50}}, DType::i32);
}

TEST(Einsum, IsTheContractionThatItSpells) {
  const Tensor a = random({3, 4, 300}, 1);
  const Tensor b = random({3, 300, 5}, 2);
  EXPECT_BITS_EQ(einsum("bij,bjk->bik", {a, b}), matmul(a, b));
  EXPECT_BITS_EQ(einsum("BIJ , BJk", {a, b}), matmul(a.permute({1, 0, 2}).reshape({4, 900}), b.reshape({900, 5})));
  // A label that occurs once is summed by R before.
  EXPECT_BITS_EQ(einsum("bij,c->bc", {a, ones({2})}), matmul(sum(a, {1, 2}).reshape({3, 1}), ones({1, 2})));
  EXPECT_BITS_EQ(einsum("bij->jb", {a}), sum(a, {1}).transpose(0, 1));
  const Tensor square = random({6, 6}, 3).transpose(0, 1);
  EXPECT_BITS_EQ(einsum("ii->i", {square.flip({0})}),
                 Tensor::from(
                     [&] {
                       std::vector<float> values;
                       for (int i = 0; i < 6; ++i) values.push_back(square.select(0, 5 - i).select(0, i).item<float>());
                       return values;
                     }(),
                     {6}));
}

TEST(Einsum, WrongEquations) {
  const Tensor a = ones({2, 3});
  expect_error<ValueError>([&] { einsum("ij,jk->ik", {a}); }, {"einsum", "2 operands"});
  expect_error<ValueError>([&] { einsum("i1->i", {a}); }, {"einsum", "no label"});
  expect_error<ValueError>([&] { einsum("ij->ik", {a}); }, {"einsum", "label k"});
  expect_error<ValueError>([&] { einsum("ij->ii", {a}); }, {"einsum", "twice"});
  expect_error<ValueError>([&] { einsum("ij->...i", {a}); }, {"einsum", "ellipsis"});
  expect_error<ShapeError>([&] { einsum("ijk->i", {a}); }, {"einsum", "dimensions"});
  expect_error<ShapeError>([&] { einsum("ii->i", {a}); }, {"einsum", "label i"});
  expect_error<ShapeError>([&] { einsum("ij,jk->ik", {a, a}); }, {"einsum", "label j"});
  expect_error<ValueError>([&] { einsum("", {}); }, {"einsum"});
}

TEST(Convolution, SameAndAsymmetricPaddingAreThePaddingTheySpell) {
  const Tensor x = random({2, 3, 9, 8}, 1);
  const Tensor w = random({4, 3, 4, 3}, 2);
  EXPECT_BITS_EQ(conv2d(x, w, std::nullopt, {.dilation = {1, 2}, .auto_padding = AutoPadding::same}),
                 conv2d(pad(x, {2, 2, 1, 2}), w, std::nullopt, {.dilation = {1, 2}}));
  EXPECT_BITS_EQ(conv2d(x, w, std::nullopt, {.padding = {0, 1}, .padding_after = {3, 2}}),
                 conv2d(pad(x, {1, 2, 0, 3}), w));
  EXPECT_BITS_EQ(conv2d(x, w, std::nullopt, {.padding = {7}, .auto_padding = AutoPadding::valid}), conv2d(x, w));
  expect_error<ValueError>([&] { conv2d(x, w, std::nullopt, {.stride = {2}, .auto_padding = AutoPadding::same}); },
                           {"conv2d", "same"});
  expect_error<ValueError>([&] { conv2d(x, w, std::nullopt, {.padding = {1}, .padding_after = {-1}}); },
                           {"padding_after"});
}

class Transposed : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, Transposed,
                         ::testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64, DType::i32),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(Transposed, EqualBitsEverywhere) {
  for (const std::int64_t stride : {1, 2, 3, 4}) {
    for (const std::int64_t dilation : {1, 2, 3}) {
      for (const std::int64_t padding : {0, 1, 2}) {
        const ConvTransposeOptions options{
            .stride = {stride}, .padding = {padding}, .groups = 2, .dilation = {dilation}};
        same_everywhere([&](Device device) {
          return conv_transpose1d(random({2, 4, 6}, 1, device, GetParam()), random({4, 3, 3}, 2, device, GetParam()),
                                  random({6}, 3, device, GetParam()), options);
        });
      }
    }
  }
  same_everywhere([&](Device device) {
    return conv_transpose3d(random({1, 2, 3, 4, 2}, 1, device, GetParam()),
                            random({2, 3, 3, 2, 4}, 2, device, GetParam()), std::nullopt,
                            {.stride = {2, 1, 3}, .padding = {1, 0, 1}, .output_padding = {1, 0, 2}});
  });
}

// What a transposed convolution means, element by element in f64.
Tensor scattered(const Tensor& x, const Tensor& w, std::int64_t stride, std::int64_t padding, std::int64_t dilation,
                 std::int64_t size) {
  const auto xs = x.to_vector<double>();
  const auto ws = w.to_vector<double>();
  const std::int64_t channels = x.shape()[1];
  const std::int64_t length = x.shape()[2];
  const std::int64_t outputs = w.shape()[1];
  const std::int64_t taps = w.shape()[2];
  std::vector<double> ys(static_cast<std::size_t>(outputs * size));
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t u = 0; u < size; ++u) {
      double total = 0;
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t t = 0; t < taps; ++t) {
          const std::int64_t place = u + padding - t * dilation;
          if (place < 0 || place % stride != 0 || place / stride >= length) continue;
          total = std::fma(ws[static_cast<std::size_t>((c * outputs + o) * taps + t)],
                           xs[static_cast<std::size_t>(c * length + place / stride)], total);
        }
      }
      ys[static_cast<std::size_t>(o * size + u)] = total;
    }
  }
  return Tensor::from(ys, {1, outputs, size});
}

TEST(ConvTranspose, SumsTheTapsThatFallOnDataInTheOrderOfTheWeight) {
  for (const std::int64_t kernel : {1, 2, 3, 5, 8}) {
    for (const std::int64_t stride : {1, 2, 3, 4, 5}) {
      for (const std::int64_t dilation : {1, 2, 3, 4}) {
        for (const std::int64_t padding : {0, 1, 3}) {
          for (const std::int64_t more : {0, 1, 2}) {
            if (more >= std::max(stride, dilation)) continue;
            const std::int64_t size = 6 * stride - 2 * padding + dilation * (kernel - 1) + more + 1;
            if (size < 1) continue;
            SCOPED_TRACE(testing::Message() << "kernel " << kernel << " stride " << stride << " dilation " << dilation
                                            << " padding " << padding << " output_padding " << more);
            const Tensor x = random({1, 3, 7}, 1, {}, DType::f64);
            const Tensor w = random({3, 2, kernel}, 2, {}, DType::f64);
            EXPECT_BITS_EQ(
                conv_transpose1d(
                    x, w, std::nullopt,
                    {.stride = {stride}, .padding = {padding}, .output_padding = {more}, .dilation = {dilation}}),
                scattered(x, w, stride, padding, dilation, size));
          }
        }
      }
    }
  }
}

TEST(ConvTranspose, InsertedZerosDoNotExist) {
  // Every second tap of a kernel of 3 would meet an inserted zero: infinity times that would be NaN.
  const Tensor w = Tensor::from<float>({1, kInfinity, 2}, {1, 1, 3});
  const Tensor y = conv_transpose1d(ones({1, 1, 3}), w, std::nullopt, {.stride = {2}, .padding = {1}});
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{kInfinity, 3, kInfinity, 3, kInfinity}));
}

TEST(ConvTranspose, UnbatchedAndWrongArguments) {
  const Tensor x = random({4, 5, 6}, 1);
  const Tensor w = random({4, 2, 3, 3}, 2);
  EXPECT_BITS_EQ(conv_transpose2d(x, w).unsqueeze(0), conv_transpose2d(x.unsqueeze(0), w));
  expect_error<ShapeError>([&] { conv_transpose2d(x, ones({3, 2, 3, 3})); }, {"conv_transpose2d", "weight"});
  expect_error<ShapeError>([&] { conv_transpose2d(x, w, std::nullopt, {.groups = 3}); },
                           {"conv_transpose2d", "groups"});
  expect_error<ShapeError>([&] { conv_transpose2d(x, w, std::nullopt, {.groups = 0}); },
                           {"conv_transpose2d", "groups"});
  expect_error<ShapeError>([&] { conv_transpose2d(x, w, ones({3})); }, {"bias"});
  expect_error<ShapeError>([&] { conv_transpose2d(x, w, std::nullopt, {.padding = {9}}); }, {"padding"});
  expect_error<ValueError>([&] { conv_transpose2d(x, w, std::nullopt, {.output_padding = {1}}); }, {"output_padding"});
  expect_error<ValueError>([&] { conv_transpose2d(x, w, std::nullopt, {.stride = {0}}); }, {"stride"});
}

// A decoder block whose transposed convolution hung GPUs elsewhere: stride 5 to an output of [384, 1605].
TEST(Incidents, ConvTranspose1dStride5To1605x384) {
  const auto compute = [](Device device) {
    return conv_transpose1d(random({1, 16, 320}, 1, device), random({16, 384, 10}, 2, device), random({384}, 3, device),
                            {.stride = {5}});
  };
  const Tensor y = same_everywhere(compute);
  EXPECT_EQ(y.shape(), (Shape{1, 384, 1605}));
  // With all channels, in bounded time: it is 2.5 G multiply-adds, not 400 G.
  const auto start = std::chrono::steady_clock::now();
  conv_transpose1d(random({1, 768, 320}, 1), random({768, 384, 10}, 2), std::nullopt, {.stride = {5}}).eval();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace lockstep
