// Autocast: every listed op against the same op on explicit casts, by bits; gradients, checkpoints, and what a scope
// leaves alone.
#include <lockstep/autocast.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using Compute = std::function<Tensor(const Tensor& a, const Tensor& b, const Tensor& c)>;
struct AutocastCase {
  std::string name;
  std::vector<Shape> shapes;
  Compute compute;
};

Tensor input(const AutocastCase& listed, std::size_t i, DType dtype) {
  if (i >= listed.shapes.size()) return {};
  return random_tensor(listed.shapes[i], dtype, i + 1);
}

// In the scope on operands of `given`, outside on casts of them to `to`.
void expect_casts(const AutocastCase& listed, DType scope, DType given, DType to) {
  Tensor operands[3], cast[3];
  for (std::size_t i = 0; i < listed.shapes.size(); ++i) {
    operands[i] = input(listed, i, given);
    cast[i] = operands[i].to(to);
  }
  const Tensor expected = listed.compute(cast[0], cast[1], cast[2]);
  const Tensor found = [&] {
    const Autocast inside(scope);
    return listed.compute(operands[0], operands[1], operands[2]);
  }();
  EXPECT_EQ(found.dtype(), to) << listed.name;
  EXPECT_BITS_EQ(found, expected) << listed.name;
}

const RecurrentWeights weights_of(const Tensor& b, const Tensor& c) {
  return {b, c};
}

const std::vector<AutocastCase>& narrow_cases() {
  static const auto& cases = *new std::vector<AutocastCase>{
      {"matmul", {{3, 5}, {5, 4}}, [](auto& a, auto& b, auto&) { return matmul(a, b); }},
      {"mm", {{3, 5}, {5, 4}}, [](auto& a, auto& b, auto&) { return mm(a, b); }},
      {"bmm", {{2, 3, 5}, {2, 5, 4}}, [](auto& a, auto& b, auto&) { return bmm(a, b); }},
      {"mv", {{3, 5}, {5}}, [](auto& a, auto& b, auto&) { return mv(a, b); }},
      {"dot", {{7}, {7}}, [](auto& a, auto& b, auto&) { return dot(a, b); }},
      {"vdot", {{7}, {7}}, [](auto& a, auto& b, auto&) { return vdot(a, b); }},
      {"inner", {{3, 5}, {4, 5}}, [](auto& a, auto& b, auto&) { return inner(a, b); }},
      {"linear", {{3, 5}, {4, 5}, {4}}, [](auto& a, auto& b, auto& c) { return linear(a, b, c); }},
      {"addmm", {{3, 4}, {3, 5}, {5, 4}}, [](auto& a, auto& b, auto& c) { return addmm(a, b, c); }},
      {"addmv", {{3}, {3, 5}, {5}}, [](auto& a, auto& b, auto& c) { return addmv(a, b, c); }},
      {"baddbmm", {{2, 3, 4}, {2, 3, 5}, {2, 5, 4}}, [](auto& a, auto& b, auto& c) { return baddbmm(a, b, c); }},
      {"addbmm", {{3, 4}, {2, 3, 5}, {2, 5, 4}}, [](auto& a, auto& b, auto& c) { return addbmm(a, b, c); }},
      {"addr", {{3, 4}, {3}, {4}}, [](auto& a, auto& b, auto& c) { return addr(a, b, c); }},
      {"tensordot", {{3, 5}, {5, 4}}, [](auto& a, auto& b, auto&) { return tensordot(a, b, 1); }},
      {"tensordot of dims", {{3, 5}, {4, 5}}, [](auto& a, auto& b, auto&) { return tensordot(a, b, {1}, {1}); }},
      {"einsum",
       {{3, 5}, {5, 4}},
       [](auto& a, auto& b, auto&) {
         return einsum("ik,kj->ij", {a, b});
       }},
      {"multi_dot",
       {{3, 5}, {5, 4}, {4, 2}},
       [](auto& a, auto& b, auto& c) {
         return multi_dot({a, b, c});
       }},
      {"bilinear", {{3, 5}, {3, 4}, {2, 5, 4}}, [](auto& a, auto& b, auto& c) { return bilinear(a, b, c); }},
      {"conv1d", {{2, 3, 9}, {4, 3, 3}, {4}}, [](auto& a, auto& b, auto& c) { return conv1d(a, b, c); }},
      {"conv2d", {{2, 3, 9, 8}, {4, 3, 3, 3}, {4}}, [](auto& a, auto& b, auto& c) { return conv2d(a, b, c); }},
      {"conv3d", {{1, 2, 4, 5, 4}, {3, 2, 2, 2, 2}}, [](auto& a, auto& b, auto&) { return conv3d(a, b); }},
      {"conv_transpose1d", {{2, 3, 6}, {3, 4, 3}}, [](auto& a, auto& b, auto&) { return conv_transpose1d(a, b); }},
      {"conv_transpose2d",
       {{2, 3, 5, 6}, {3, 4, 3, 2}, {4}},
       [](auto& a, auto& b, auto& c) { return conv_transpose2d(a, b, c); }},
      {"conv_transpose3d",
       {{1, 2, 3, 3, 3}, {2, 3, 2, 2, 2}},
       [](auto& a, auto& b, auto&) { return conv_transpose3d(a, b); }},
      {"attention",
       {{2, 2, 7, 8}, {2, 2, 9, 8}, {2, 2, 9, 4}},
       [](auto& a, auto& b, auto& c) { return scaled_dot_product_attention(a, b, c); }},
      {"gru_cell",
       {{2, 3}, {12, 3}, {12, 4}},
       [](auto& a, auto& b, auto& c) {
         return gru_cell(a, zeros({2, 4}, {.dtype = a.dtype()}), weights_of(b, c));
       }},
      {"lstm",
       {{5, 2, 3}, {16, 3}, {16, 4}},
       [](auto& a, auto& b, auto& c) { return lstm(a, {weights_of(b, c)}).output; }},
  };
  return cases;
}

const std::vector<AutocastCase>& wide_cases() {
  static const auto& cases = *new std::vector<AutocastCase>{
      {"sum", {{3, 5}}, [](auto& a, auto&, auto&) { return sum(a, 1); }},
      {"prod", {{3, 5}}, [](auto& a, auto&, auto&) { return prod(a); }},
      {"mean", {{3, 5}}, [](auto& a, auto&, auto&) { return mean(a, {0}); }},
      {"var", {{3, 5}}, [](auto& a, auto&, auto&) { return var(a); }},
      {"std", {{3, 5}}, [](auto& a, auto&, auto&) { return lockstep::std(a); }},
      {"norm", {{3, 5}}, [](auto& a, auto&, auto&) { return norm(a); }},
      {"vector_norm", {{3, 5}}, [](auto& a, auto&, auto&) { return vector_norm(a, 3); }},
      {"nansum", {{3, 5}}, [](auto& a, auto&, auto&) { return nansum(a); }},
      {"nanmean", {{3, 5}}, [](auto& a, auto&, auto&) { return nanmean(a); }},
      {"logsumexp", {{3, 5}}, [](auto& a, auto&, auto&) { return logsumexp(a, {1}); }},
      {"softmax", {{3, 5}}, [](auto& a, auto&, auto&) { return softmax(a, -1); }},
      {"log_softmax", {{3, 5}}, [](auto& a, auto&, auto&) { return log_softmax(a, -1); }},
      {"softmin", {{3, 5}}, [](auto& a, auto&, auto&) { return softmin(a, -1); }},
      {"cumsum", {{3, 5}}, [](auto& a, auto&, auto&) { return cumsum(a, 1); }},
      {"cumprod", {{3, 5}}, [](auto& a, auto&, auto&) { return cumprod(a, 1); }},
      {"logcumsumexp", {{3, 5}}, [](auto& a, auto&, auto&) { return logcumsumexp(a, 1); }},
      {"layer_norm", {{3, 5}, {5}, {5}}, [](auto& a, auto& b, auto& c) { return layer_norm(a, {5}, b, c); }},
      {"rms_norm", {{3, 5}, {5}}, [](auto& a, auto& b, auto&) { return rms_norm(a, {5}, b); }},
      {"group_norm", {{2, 4, 3}, {4}, {4}}, [](auto& a, auto& b, auto& c) { return group_norm(a, 2, b, c); }},
      {"local_response_norm", {{2, 4, 3}}, [](auto& a, auto&, auto&) { return local_response_norm(a, 3); }},
      {"normalize", {{3, 5}}, [](auto& a, auto&, auto&) { return normalize(a); }},
      {"batch_norm_training",
       {{3, 4, 5}, {4}, {4}},
       [](auto& a, auto& b, auto& c) { return batch_norm_training(a, {}, {}, b, c, 0.1, 1e-5).output; }},
      {"instance_norm", {{3, 4, 5}, {4}, {4}}, [](auto& a, auto& b, auto& c) { return instance_norm(a, b, c, 1e-5); }},
      {"mse_loss", {{3, 5}, {3, 5}}, [](auto& a, auto& b, auto&) { return mse_loss(a, b); }},
      {"l1_loss", {{3, 5}, {3, 5}}, [](auto& a, auto& b, auto&) { return l1_loss(a, b); }},
      {"smooth_l1_loss", {{3, 5}, {3, 5}}, [](auto& a, auto& b, auto&) { return smooth_l1_loss(a, b); }},
      {"huber_loss", {{3, 5}, {3, 5}}, [](auto& a, auto& b, auto&) { return huber_loss(a, b); }},
      {"binary_cross_entropy_with_logits",
       {{3, 5}, {3, 5}},
       [](auto& a, auto& b, auto&) { return binary_cross_entropy_with_logits(a, b); }},
      {"kl_div", {{3, 5}, {3, 5}}, [](auto& a, auto& b, auto&) { return kl_div(a, b); }},
      {"nll_loss", {{3, 5}}, [](auto& a, auto&, auto&) { return nll_loss(a, arange(0, 3, 1, {.dtype = DType::i64})); }},
      {"cross_entropy",
       {{3, 5}},
       [](auto& a, auto&, auto&) { return cross_entropy(a, arange(0, 3, 1, {.dtype = DType::i64})); }},
      {"cross_entropy of distributions", {{3, 5}, {3, 5}}, [](auto& a, auto& b, auto&) { return cross_entropy(a, b); }},
      {"cdist", {{3, 5}, {4, 5}}, [](auto& a, auto& b, auto&) { return cdist(a, b); }},
      {"pairwise_distance", {{3, 5}, {3, 5}}, [](auto& a, auto& b, auto&) { return pairwise_distance(a, b); }},
      {"cosine_similarity", {{3, 5}, {3, 5}}, [](auto& a, auto& b, auto&) { return cosine_similarity(a, b); }},
      {"exp", {{3, 5}}, [](auto& a, auto&, auto&) { return exp(a); }},
      {"expm1", {{3, 5}}, [](auto& a, auto&, auto&) { return expm1(a); }},
      {"log", {{3, 5}}, [](auto& a, auto&, auto&) { return log(a); }},
      {"log1p", {{3, 5}}, [](auto& a, auto&, auto&) { return log1p(a); }},
      {"log2", {{3, 5}}, [](auto& a, auto&, auto&) { return log2(a); }},
      {"log10", {{3, 5}}, [](auto& a, auto&, auto&) { return log10(a); }},
      {"pow", {{3, 5}, {3, 5}}, [](auto& a, auto& b, auto&) { return pow(a, b); }},
      {"pow 2", {{3, 5}}, [](auto& a, auto&, auto&) { return pow(a, 2); }},
      {"rsqrt", {{3, 5}}, [](auto& a, auto&, auto&) { return rsqrt(a); }},
      {"reciprocal", {{3, 5}}, [](auto& a, auto&, auto&) { return reciprocal(a); }},
      {"tan", {{3, 5}}, [](auto& a, auto&, auto&) { return tan(a); }},
      {"asin", {{3, 5}}, [](auto& a, auto&, auto&) { return asin(a); }},
      {"acos", {{3, 5}}, [](auto& a, auto&, auto&) { return acos(a); }},
      {"sinh", {{3, 5}}, [](auto& a, auto&, auto&) { return sinh(a); }},
      {"cosh", {{3, 5}}, [](auto& a, auto&, auto&) { return cosh(a); }},
      {"erfinv", {{3, 5}}, [](auto& a, auto&, auto&) { return erfinv(a); }},
  };
  return cases;
}

TEST(Autocast, ContractionsAreThoseOfExplicitCasts) {
  for (const AutocastCase& listed : narrow_cases()) {
    for (const DType scope : {DType::bf16, DType::f16}) expect_casts(listed, scope, DType::f32, scope);
    expect_casts(listed, DType::bf16, DType::f16, DType::bf16);
    expect_casts(listed, DType::bf16, DType::f64, DType::f64);  // is left alone
  }
}

TEST(Autocast, WhatNeedsPrecisionIsInF32) {
  for (const AutocastCase& listed : wide_cases()) {
    expect_casts(listed, DType::bf16, DType::bf16, DType::f32);
    expect_casts(listed, DType::f16, DType::f16, DType::f32);
    expect_casts(listed, DType::bf16, DType::f32, DType::f32);
  }
}

TEST(Autocast, MixedOperandsMeetInF32) {
  const Tensor wide = random_tensor({3, 4}, DType::f32, 1);
  const Tensor narrow = random_tensor({3, 4}, DType::bf16, 2);
  const Tensor half = random_tensor({3, 4}, DType::f16, 3);
  EXPECT_THROW(wide + narrow, DTypeError);
  const Autocast scope(DType::bf16);
  const auto is = [&](const Tensor& found, const std::function<Tensor()>& expected) {
    const Autocast off(DType::f32);
    EXPECT_BITS_EQ(found, expected());
  };
  is(wide + narrow, [&] { return wide + narrow.to(DType::f32); });
  is(half * narrow, [&] { return half.to(DType::f32) * narrow.to(DType::f32); });
  is(maximum(narrow, wide), [&] { return maximum(narrow.to(DType::f32), wide); });
  is(where(wide > 0, narrow, wide), [&] { return where(wide > 0, narrow.to(DType::f32), wide); });
  is(lerp(narrow, wide, 0.25), [&] { return lerp(narrow.to(DType::f32), wide, 0.25); });
  is(cat({narrow, wide}, 0), [&] { return cat({narrow.to(DType::f32), wide}, 0); });
  is(stack({narrow, half}), [&] { return stack({narrow.to(DType::f32), half.to(DType::f32)}); });
  // Of one dtype: as they are.
  EXPECT_EQ((narrow + narrow).dtype(), DType::bf16);
  EXPECT_EQ(relu(narrow).dtype(), DType::bf16);
  EXPECT_EQ(sum(narrow, {0}, false, DType::f16).dtype(), DType::f16);
  EXPECT_THROW(wide + random_tensor({3, 4}, DType::f64, 1), DTypeError);
}

TEST(Autocast, GradientsFlowBackToF32) {
  const auto gradients_of = [](bool scoped) {
    const Tensor x = random_tensor({6, 5}, DType::f32, 1);
    const Tensor w = requires_grad(random_tensor({4, 5}, DType::f32, 2));
    const Tensor b = requires_grad(random_tensor({4}, DType::f32, 3));
    const Tensor v = requires_grad(random_tensor({4}, DType::f32, 4));
    const auto narrow = [&](const Tensor& t) { return scoped ? t : t.to(DType::bf16); };
    const auto wide = [&](const Tensor& t) { return scoped ? t : t.to(DType::f32); };
    std::optional<Autocast> scope;
    if (scoped) scope.emplace(DType::bf16);
    const Tensor hidden = relu(linear(narrow(x), narrow(w), narrow(b)));
    const Tensor normed = layer_norm(wide(hidden), {4}, v);
    const Tensor loss = sum(square(normed) + wide(hidden));
    return gradients(loss, {w, b, v});  // in the scope or outside: the same
  };
  const std::vector<Tensor> found = gradients_of(true);
  const std::vector<Tensor> expected = gradients_of(false);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].dtype(), DType::f32);
    EXPECT_BITS_EQ(found[i], expected[i]);
  }
}

TEST(Autocast, ACheckpointComputesAgainInItsScope) {
  const auto gradient = [](bool with_checkpoint) {
    const Tensor x = requires_grad(random_tensor({6, 5}, DType::f32, 1));
    const Tensor w = random_tensor({5, 5}, DType::f32, 2);
    const auto layer = [&](const std::vector<Tensor>& in) { return exp(matmul(in[0], w)) + in[0]; };
    Tensor y;
    {
      const Autocast scope(DType::bf16);
      y = with_checkpoint ? checkpoint(layer, {x}) : layer({x});
    }
    return gradients(sum(y), {x})[0];
  };
  EXPECT_BITS_EQ(gradient(true), gradient(false));
}

TEST(Autocast, ScopesNestAndEnd) {
  const Tensor a = random_tensor({3, 3}, DType::f32, 1);
  {
    const Autocast outer(DType::bf16);
    EXPECT_EQ(matmul(a, a).dtype(), DType::bf16);
    {
      const Autocast off(DType::f32);
      EXPECT_EQ(matmul(a, a).dtype(), DType::f32);
      const Autocast inner(DType::f16);
      EXPECT_EQ(matmul(a, a).dtype(), DType::f16);
    }
    EXPECT_EQ(matmul(a, a).dtype(), DType::bf16);
  }
  EXPECT_EQ(matmul(a, a).dtype(), DType::f32);
  EXPECT_THROW(Autocast{DType::f64}, DTypeError);
  EXPECT_THROW(Autocast{DType::i32}, DTypeError);
}

TEST(Autocast, BatchNormsGiveSixteenBitsInFastNumericsAlone) {
  const Tensor x = random_tensor({2, 3, 4, 4}, DType::bf16, 1);
  const Tensor mean = random_tensor({3}, DType::f32, 2);
  const Tensor variance = abs(random_tensor({3}, DType::f32, 3));
  const Autocast scope(DType::bf16);
  const Tensor wide = batch_norm(x, mean, variance);
  EXPECT_EQ(wide.dtype(), DType::f32);
  const NumericsScope fast(Numerics::fast);
  EXPECT_BITS_EQ(batch_norm(x, mean, variance), wide.to(DType::bf16));
  EXPECT_EQ(batch_norm_training(x, mean, variance).output.dtype(), DType::bf16);
  EXPECT_EQ(batch_norm(x.to(DType::f32), mean, variance).dtype(), DType::f32);
}

TEST(Autocast, IntegersAndErrorsAreAsOutside) {
  const Autocast scope(DType::bf16);
  const Tensor i = arange(0, 6, 1, {.dtype = DType::i64}).reshape({2, 3});
  EXPECT_EQ(sum(i).dtype(), DType::i64);
  EXPECT_EQ(matmul(i, i.transpose(0, 1)).dtype(), DType::i64);
  expect_error<ShapeError>([] { matmul(zeros({2, 3}), zeros({2, 3})); }, {"matmul", "autocast_test.cpp"});
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
