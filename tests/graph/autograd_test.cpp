// Reverse mode: every primitive against central differences in f64, on plain, strided, expanded and reused operands;
// and the rules of the tape.
#include <lockstep/autograd.h>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "graph/make.h"
#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

// d sum(f(x) * c) / dx for a fixed random c, by differences.
void check_gradients(const std::string& name, const Function& f, const Shape& shape, double tolerance = 1e-5) {
  SCOPED_TRACE(name);
  const Tensor x = random_tensor(shape, DType::f64, 11) * 0.7 + 0.2;
  const Tensor c = random_tensor(f(x).shape(), DType::f64, 12);
  const auto value = [&](const Tensor& at) { return sum(f(at) * c); };
  const Tensor leaf = requires_grad(x.eval());
  const Tensor g = gradients(value(leaf), {leaf})[0];
  ASSERT_EQ(g.shape(), shape);
  const std::vector<double> analytic = g.to_vector<double>();
  const double step = 1e-5;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::vector<double> up = x.to_vector<double>();
    std::vector<double> down = up;
    up[static_cast<std::size_t>(i)] += step;
    down[static_cast<std::size_t>(i)] -= step;
    const double difference =
        value(Tensor::from(up, shape)).item<double>() - value(Tensor::from(down, shape)).item<double>();
    EXPECT_NEAR(analytic[static_cast<std::size_t>(i)], difference / (2 * step), tolerance) << "element " << i;
  }
}

TEST(Autograd, OfViews) {
  check_gradients("permute", [](const Tensor& x) { return x.permute({2, 0, 1}) * 1.5; }, {2, 3, 4});
  check_gradients("reshape of a transpose", [](const Tensor& x) { return x.transpose(0, 1).reshape({6}); }, {2, 3});
  check_gradients("expand", [](const Tensor& x) { return x.unsqueeze(1).expand({3, 4, 2}); }, {3, 2});
  check_gradients("slice", [](const Tensor& x) { return x.slice(0, {.start = 1, .step = 2}).slice(1, {.step = -1}); },
                  {5, 3});
  check_gradients("pad", [](const Tensor& x) { return pad(x, {1, -1, 2, 0}, 3.0); }, {3, 4});
  check_gradients("views of views",
                  [](const Tensor& x) {
                    return pad(x.flip({0}).slice(0, {.step = 2}), {1, 1}).transpose(0, 1);
                  },
                  {5, 3});
  check_gradients("windows", [](const Tensor& x) { return avg_pool1d(x, 3, {.stride = {1}, .padding = {1}}); },
                  {1, 2, 6});
  check_gradients("dilated windows", [](const Tensor& x) { return max_pool2d(x, 2, {.stride = {1}, .dilation = {2}}); },
                  {1, 1, 4, 5});
  check_gradients("cat", [](const Tensor& x) { return cat({x, x * 2.0, x.flip({0})}, 0); }, {3, 2});
  check_gradients("select", [](const Tensor& x) { return x.select(1, 2) * x.select(1, 0); }, {3, 4});
}

TEST(Autograd, OfReductions) {
  check_gradients("sum", [](const Tensor& x) { return sum(x * x, {0, 2}); }, {2, 3, 4});
  check_gradients("mean", [](const Tensor& x) { return mean(x * x, {-1}, true); }, {3, 4});
  check_gradients("prod", [](const Tensor& x) { return prod(x, {1}); }, {3, 4});
  check_gradients("amax", [](const Tensor& x) { return amax(x, {1}); }, {3, 4});
  check_gradients("var", [](const Tensor& x) { return var(x, {1}); }, {3, 5});
  check_gradients("norm", [](const Tensor& x) { return norm(x, {0}); }, {3, 4});
  check_gradients("logsumexp", [](const Tensor& x) { return logsumexp(x, {1}); }, {3, 4});
  check_gradients("softmax", [](const Tensor& x) { return softmax(x, 1); }, {3, 4});
  check_gradients("log_softmax", [](const Tensor& x) { return log_softmax(x, 0); }, {3, 4});
  check_gradients("layer_norm", [](const Tensor& x) { return layer_norm(x, {4}); }, {3, 4});
}

TEST(Autograd, OfComputedPlaces) {
  check_gradients("gather", [](const Tensor& x) { return gather(x, 1, ids({2, 0, 2, 1}, {2, 2})); }, {2, 3});
  check_gradients("embedding", [](const Tensor& x) { return embedding(x, ids({2, 0, 2}, {3})); }, {3, 2});
  check_gradients("scatter_add",
                  [](const Tensor& x) {
                    return scatter_add(x, 0, ids({1, 1, 0}, {1, 3}), x * x);
                  },
                  {3, 3});
  check_gradients("scatter", [](const Tensor& x) { return scatter(x, 1, ids({2, 0}, {2, 1}), x * 2.0); }, {2, 3});
  check_gradients("scatter_reduce",
                  [](const Tensor& x) {
                    return scatter_reduce(x, 1, ids({0, 0, 2}, {1, 3}), x * 1.5, ReduceMode::amax);
                  },
                  {2, 3});
  check_gradients("sort", [](const Tensor& x) { return sort(x, 0).values * arange(1, 5, 1, {.dtype = DType::f64}); },
                  {4});
  check_gradients("topk", [](const Tensor& x) { return topk(x, 2).values; }, {3, 5});
  check_gradients("index", [](const Tensor& x) { return index(x, {ids({1, -1, 1}, {3})}); }, {3, 2});
  check_gradients("index_put", [](const Tensor& x) { return index_put(x, {ids({1}, {1})}, x.select(0, 0) * 3.0); },
                  {3, 2});
  check_gradients("cumsum", [](const Tensor& x) { return graph::scan(ScanOp::sum, x, 1); }, {2, 5});
  check_gradients("cummax", [](const Tensor& x) { return graph::scan(ScanOp::max, x, 0); }, {5});
  check_gradients("update",
                  [](const Tensor& x) {
                    const View region = View::contiguous({3, 4}).sliced(1, 1, 2, 2);
                    return graph::update(x, region, (x * x).slice(1, {.stop = 2}));
                  },
                  {3, 4});
}

TEST(Autograd, OfProductsWithZeros) {
  const auto with_zeros = [](const Function& f) {
    return [f](const Tensor& x) { return f(x * Tensor::from<double>({1, 0, 1, 0, 1, 1, 1, 1, 1, 0}, {2, 5})); };
  };
  check_gradients("cumprod", [](const Tensor& x) { return cumprod(x, 1); }, {2, 5});
  check_gradients("cumprod of zeros", with_zeros([](const Tensor& x) { return cumprod(x + 0.0, 1); }), {2, 5});
  // Moved by the difference itself, zeros are seen by their own derivative.
  const Tensor zero = requires_grad(Tensor::from<double>({2, 0, 3, 0, 5}, {5}));
  EXPECT_EQ(gradients(sum(cumprod(zero, 0)), {zero})[0].to_vector<double>(), (std::vector<double>{1, 8, 0, 0, 0}));
  const Tensor to = ids({0, 1, 1, 0, 1}, {5});
  for (const bool include_self : {true, false}) {
    check_gradients("scatter_prod",
                    [&](const Tensor& x) {
                      return scatter_reduce(x.narrow(0, 0, 3), 0, to, x.narrow(0, 3, 5), ReduceMode::prod,
                                            include_self);
                    },
                    {8});
    const Tensor self = requires_grad(Tensor::from<double>({3, 0}, {2}));
    const Tensor values = requires_grad(Tensor::from<double>({0, 2, 0, 7, 0}, {5}));
    const Tensor product = scatter_reduce(self, 0, to, values, ReduceMode::prod, include_self);
    const std::vector<Tensor> g = gradients(sum(product), {self, values});
    EXPECT_EQ(g[0].to_vector<double>(), (std::vector<double>{0, 0}));
    EXPECT_EQ(g[1].to_vector<double>(), (std::vector<double>{include_self ? 21.0 : 7.0, 0, 0, 0, 0}));
  }
}

TEST(Autograd, MaxPoolsGiveAllToTheFirstOfEqualElements) {
  const Tensor x = requires_grad(ones({1, 1, 4, 4}));
  const auto of = [&](const Tensor& y) { return gradients(sum(y), {x})[0].to_vector<float>(); };
  EXPECT_EQ(of(max_pool2d(x, 2)), (std::vector<float>{1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(of(max_pool2d(x, 3, {.stride = {1}})),
            (std::vector<float>{1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(of(max_pool2d_with_indices(x, 2, {.stride = {2}, .padding = {1}}).values),
            (std::vector<float>{1, 1, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1}));
  EXPECT_EQ(of(adaptive_max_pool2d(x, {1})), (std::vector<float>{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(of(adaptive_max_pool2d_with_indices(x, {3, 1}).values),
            (std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Autograd, MaxPoolsGiveAllToTheFirstNaN) {
  const Tensor x = requires_grad(Tensor::from<float>({1, NAN, NAN, 5, NAN, 2, -0.0f, 0}, {1, 8}));
  EXPECT_EQ(gradients(sum(max_pool1d(x, 4)), {x})[0].to_vector<float>(), (std::vector<float>{0, 1, 0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(gradients(sum(max_pool1d(x, 2)), {x})[0].to_vector<float>(), (std::vector<float>{0, 1, 1, 0, 1, 0, 1, 0}));
}

TEST(Autograd, OfMaxPools) {
  const auto pool = [](const Shape& kernel, const PoolOptions& options = {}) {
    return [kernel, options](const Tensor& x) { return max_pool2d(x, kernel, options); };
  };
  check_gradients("apart", pool({2, 3}), {1, 2, 4, 6});
  check_gradients("apart, rest left over", pool(2), {1, 1, 5, 7});
  check_gradients("apart, reaching over", pool(2, {.padding = {1}, .ceil_mode = true}), {1, 1, 5, 4});
  check_gradients("overlapping", pool(3, {.stride = {2}, .padding = {1}}), {2, 1, 6, 5});
  check_gradients("with holes", pool(2, {.stride = {3}, .dilation = {2}}), {1, 1, 7, 8});
  check_gradients("many taps", pool(9, {.stride = {2}, .padding = {4}}), {1, 1, 10, 9});
  check_gradients("windows smaller than the stride", pool({1, 2}, {.stride = {3, 1}}), {1, 1, 8, 5});
  check_gradients("volume", [](const Tensor& x) { return max_pool3d(x, 2, {.stride = {1}}); }, {1, 1, 3, 3, 2});
  check_gradients("line", [](const Tensor& x) { return max_pool1d(x, 3, {.stride = {1}, .ceil_mode = true}); }, {2, 7});
  check_gradients("adaptive", [](const Tensor& x) { return adaptive_max_pool1d(x, {3}); }, {1, 2, 7});
  const auto again = [](const Shape& kernel, const PoolOptions& options = {}) {
    return [kernel, options](const Tensor& x) {
      const Tensor leaf = is_tracked(x) ? x : requires_grad(x);
      const Tensor y = max_pool1d(leaf, kernel, options);
      return gradients(sum(y * y), {leaf}, {.create_graph = true})[0];
    };
  };
  check_gradients("gradient of the gradient", again(3, {.stride = {2}}), {1, 9});
  check_gradients("gradient of the gradient", again(3), {1, 9});
  same_everywhere([](Device device) {
    const Tensor x = requires_grad(random_tensor({2, 3, 9, 8}, DType::f32, 1, device));
    const Tensor overlapping = sum(exp(max_pool2d(x, 3, {.stride = {2}, .padding = {1}})));
    return gradients(overlapping + sum(exp(max_pool2d(x, 2))), {x})[0];
  });
}

TEST(Autograd, OfProducts) {
  const Tensor w = random_tensor({4, 3}, DType::f64, 5);
  check_gradients("matmul", [&](const Tensor& x) { return matmul(x, w); }, {2, 4});
  check_gradients("matmul of itself", [](const Tensor& x) { return matmul(x, x.transpose(0, 1)); }, {3, 2});
  check_gradients("broadcast batches",
                  [](const Tensor& x) {
                    return matmul(x.reshape({1, 2, 3}), x.reshape({2, 3, 1}));
                  },
                  {6});
  check_gradients("batch of many",
                  [](const Tensor& x) {
                    return matmul(random_tensor({4, 2, 3}, DType::f64, 6), x);
                  },
                  {3, 2});
  check_gradients("linear", [&](const Tensor& x) { return linear(x.reshape({2, 3}), w, w.select(1, 0)); }, {6});
  check_gradients("linear weight", [&](const Tensor& x) { return linear(w, x, x.select(1, 0)); }, {2, 3});
  check_gradients("einsum", [&](const Tensor& x) { return einsum("ij,jk->k", {x, w}); }, {2, 4});
  const Tensor image = random_tensor({2, 4, 5, 4}, DType::f64, 7);
  const Tensor filter = random_tensor({6, 2, 3, 2}, DType::f64, 8);
  const ConvOptions options{.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2};
  check_gradients(
      "conv2d input", [&](const Tensor& x) { return conv2d(x, filter, {}, options); }, image.shape(), 1e-4);
  check_gradients(
      "conv2d weight", [&](const Tensor& x) { return conv2d(image, x, {}, options); }, filter.shape(), 1e-4);
  const Tensor spread = random_tensor({6, 2, 3}, DType::f64, 9);
  const ConvTransposeOptions back{.stride = {3}, .padding = {1}, .output_padding = {1}, .groups = 2, .dilation = {2}};
  check_gradients(
      "conv_transpose1d input", [&](const Tensor& x) { return conv_transpose1d(x, spread, {}, back); }, {2, 6, 4},
      1e-4);
  check_gradients(
      "conv_transpose1d weight",
      [&](const Tensor& x) {
        return conv_transpose1d(random_tensor({2, 6, 4}, DType::f64, 10), x, x.reshape({-1}).narrow(0, 0, 4), back);
      },
      spread.shape(), 1e-4);
}

// x holds query [2, 4, 3, 2], key [2, 2, 5, 2] and value [2, 2, 5, 3].
Tensor attention_of(const Tensor& x, AttentionOptions options) {
  options.enable_gqa = true;
  return scaled_dot_product_attention(x.narrow(0, 0, 48).reshape({2, 4, 3, 2}),
                                      x.narrow(0, 48, 40).reshape({2, 2, 5, 2}),
                                      x.narrow(0, 88, 60).reshape({2, 2, 5, 3}), options);
}

TEST(Autograd, OfAttention) {
  const Tensor seen = gt(random_tensor({3, 5}, DType::f64, 21), -0.5);
  const Tensor bias = random_tensor({2, 1, 3, 5}, DType::f64, 22);
  const auto with = [](const AttentionOptions& options) {
    return [options](const Tensor& x) { return attention_of(x, options); };
  };
  check_gradients("plain", with({}), {148});
  check_gradients("causal", with({.causal = true}), {148});
  check_gradients("causal at the end", with({.causal = true, .alignment = CausalAlignment::bottom_right}), {148});
  check_gradients("window", with({.window_left = 1, .window_right = 1}), {148});
  check_gradients("mask and softcap", with({.mask = seen, .softcap = 2}), {148});
  check_gradients("bias", with({.mask = bias, .scale = 0.7}), {148});
  const Tensor x = random_tensor({148}, DType::f64, 23);
  check_gradients("the bias itself",
                  [&](const Tensor& b) {
                    return attention_of(x, {.mask = b.reshape({4, 1, 5})});
                  },
                  {20});
  check_gradients("one batch of keys for all",
                  [](const Tensor& y) {
                    const Tensor keys = y.narrow(0, 12, 6).reshape({3, 2});
                    return scaled_dot_product_attention(y.narrow(0, 0, 12).reshape({3, 2, 2}), keys, keys);
                  },
                  {18});
  check_gradients(
      "its gradient",
      [](const Tensor& y) {
        const Tensor leaf = is_tracked(y) ? y : requires_grad(y);
        return gradients(sum(exp(attention_of(leaf, {.causal = true}))), {leaf}, {.create_graph = true})[0];
      },
      {148}, 1e-4);
}

TEST(Autograd, OfAttentionInBlocks) {
  // 1100 keys and rows of 4 batches are more than a block; the batches' gradients do not depend on each other.
  const Tensor q = requires_grad(random_tensor({4, 1100, 8}, DType::f32, 1));
  const Tensor g = random_tensor({4, 1100, 8}, DType::f32, 2);
  const Tensor all = gradients(scaled_dot_product_attention(q, q, q, {.causal = true}), {q}, {.seed = g})[0];
  for (std::int64_t i = 0; i < 4; i += 3) {
    const Tensor one = requires_grad(detach(q).narrow(0, i, 1));
    const Tensor alone = scaled_dot_product_attention(one, one, one, {.causal = true});
    EXPECT_BITS_EQ(gradients(alone, {one}, {.seed = g.narrow(0, i, 1)})[0], all.narrow(0, i, 1));
  }
}

TEST(Autograd, OfGradients) {
  // The gradient of the sum of a gradient.
  const auto second = [](const Function& f) {
    return [f](const Tensor& x) {
      const Tensor leaf = is_tracked(x) ? x : requires_grad(x);
      return gradients(sum(f(leaf)), {leaf}, {.create_graph = true})[0];
    };
  };
  check_gradients("x^3", second([](const Tensor& x) { return x * x * x; }), {4});
  check_gradients("exp", second([](const Tensor& x) { return exp(x * x); }), {4});
  check_gradients("softmax", second([](const Tensor& x) { return softmax(x, 0) * x; }), {4});
  check_gradients("matmul", second([](const Tensor& x) { return matmul(matmul(x, x), x); }), {3, 3}, 1e-4);
  check_gradients(
      "conv", second([](const Tensor& x) {
        return tanh(conv1d(x.reshape({1, 2, 6}), x.reshape({2, 2, 3}), {}, {.stride = {2}, .padding = {1}}));
      }),
      {12}, 1e-4);
  check_gradients("gather", second([](const Tensor& x) { return tanh(gather(x, 0, ids({1, 1, 0}, {3}))); }), {3});
}

TEST(Autograd, IsTheSameOnEveryDevice) {
  same_everywhere([](Device device) {
    const Tensor x = requires_grad(random_tensor({2, 3, 9, 8}, DType::f32, 1, device));
    const Tensor w = requires_grad(random_tensor({4, 3, 3, 3}, DType::f32, 2, device));
    const Tensor y = max_pool2d(relu(conv2d(x, w, {}, {.padding = {1}})), 2);
    const Tensor loss = mean(logsumexp(y.flatten(1), {1}));
    const std::vector<Tensor> found = gradients(loss, {x, w});
    return cat({found[0].reshape({-1}), found[1].reshape({-1})});
  });
}

TEST(Autograd, AccumulatesInLeaves) {
  const Tensor x = requires_grad(ones({3}));
  backward(sum(x * 2.0));
  backward(sum(x * x));
  EXPECT_EQ(grad(x).to_vector<float>(), (std::vector<float>{4, 4, 4}));
  zero_grad(x);
  EXPECT_FALSE(grad(x).defined());
}

TEST(Autograd, KeepsItsTermsInOrder) {
  // Consumers are added in descending order of their creation.
  const Tensor x = requires_grad(full({1}, 1.0));
  const Tensor small = x * 0x1p-24;
  const Tensor big = x * 1.0;
  const Tensor last = x * 0x1p-24;
  EXPECT_EQ(gradients(small + big + last, {x})[0].item<float>(), 1.0f);  // (2^-24 + 1) + 2^-24
}

TEST(Autograd, DetachedAndUntrackedValuesEndTheWay) {
  const Tensor x = requires_grad(full({2}, 3.0));
  EXPECT_FALSE(is_tracked(detach(x * 2.0)));
  EXPECT_EQ(gradients(sum(detach(x) * x), {x})[0].to_vector<float>(), (std::vector<float>{3, 3}));
  const NoGrad scope;
  EXPECT_FALSE(is_tracked(x * 2.0));
}

TEST(Autograd, HooksMayChangeGradients) {
  const Tensor x = requires_grad(ones({2}));
  const Tensor y = x * 3.0;
  register_hook(y, [](const Tensor& g) { return g * 10.0; });
  EXPECT_EQ(gradients(sum(y), {x})[0].to_vector<float>(), (std::vector<float>{30, 30}));
}

TEST(Autograd, CheckpointsRecomputeWithTheSameRandomNumbers) {
  manual_seed(5);
  const Tensor x = requires_grad(ones({8}));
  const auto noisy = [](const std::vector<Tensor>& in) { return exp(in[0] * rand({8})); };
  const Tensor y = checkpoint(noisy, {x});
  const Tensor next = rand({1});
  const Tensor g = gradients(sum(y), {x})[0];
  manual_seed(5);
  const Tensor again = requires_grad(ones({8}));
  EXPECT_BITS_EQ(g, gradients(sum(noisy({again})), {again})[0]);
  EXPECT_BITS_EQ(next, rand({1}));
}

TEST(Autograd, CheckpointsHaveGradientsOfAllThatTheyRead) {
  const Tensor x = requires_grad(random_tensor({3, 4}, DType::f32, 1));
  const Tensor weight = requires_grad(random_tensor({4, 4}, DType::f32, 2));
  const Tensor bias = requires_grad(random_tensor({4}, DType::f32, 3));
  const Tensor unread = requires_grad(ones({4}));
  const auto value_of = [&](bool with_checkpoint, const Tensor& input) {
    const auto layer = [&, scale = exp(bias)](const std::vector<Tensor>& in) {  // which is no leaf
      const Tensor inner =
          checkpoint([&](const std::vector<Tensor>& h) { return tanh(matmul(h[0], weight)); }, {in[0]});
      return inner * scale + detach(unread);
    };
    return sum(with_checkpoint ? checkpoint(layer, {input}) : layer({input}));
  };
  const auto found = [&](bool with_checkpoint, const Tensor& input) {
    return gradients(value_of(with_checkpoint, input), {weight, bias, unread}, {.allow_unused = true});
  };
  for (const Tensor& input : {x, detach(x)}) {  // which may be the data themselves
    const std::vector<Tensor> expected = found(false, input);
    const std::vector<Tensor> values = found(true, input);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_BITS_EQ(values[i], expected[i]);
  }
  backward(value_of(true, x));
  EXPECT_BITS_EQ(grad(weight), found(false, x)[0]);
  EXPECT_FALSE(grad(unread).defined());
  const NoGrad scope;
  EXPECT_FALSE(is_tracked(value_of(true, x)));
}

TEST(Autograd, CheckpointsReadWhatDependsOnEachOther) {
  const Tensor x = requires_grad(random_tensor({4}, DType::f32, 1));
  const Tensor bias = requires_grad(random_tensor({4}, DType::f32, 2));
  register_hook(bias, [](const Tensor& g) { return g * 2.0; });  // once, as without a checkpoint
  const auto gradients_of = [&](bool with_checkpoint) {
    const auto layer = [&, scale = exp(bias)](const std::vector<Tensor>& in) { return in[0] * scale + bias; };
    return gradients(sum(with_checkpoint ? checkpoint(layer, {x}) : layer({x})), {x, bias});
  };
  const std::vector<Tensor> expected = gradients_of(false);
  const std::vector<Tensor> values = gradients_of(true);
  EXPECT_BITS_EQ(values[0], expected[0]);
  EXPECT_BITS_EQ(values[1], expected[1]);
  const Tensor same = checkpoint([&](const std::vector<Tensor>&) { return bias; }, {x});
  EXPECT_BITS_EQ(gradients(sum(same), {bias})[0], Tensor::from<float>({2, 2, 2, 2}, {4}));
  const auto detached = [&](const std::vector<Tensor>& in) { return in[0] + detach(bias * 2.0); };
  backward(sum(checkpoint(detached, {detach(x)}) * x));
  EXPECT_FALSE(grad(bias).defined());
}

TEST(Autograd, OfSeveralSourcesForOnePlaceOnlyTheLastHasAGradient) {
  const Tensor self = requires_grad(Tensor::from<double>({1, 2, 3}, {3}));
  const Tensor values = requires_grad(Tensor::from<double>({4, 5, 6, 7}, {4}));
  const Tensor index = ids({2, 0, 2, 2}, {4});
  const Tensor seed = Tensor::from<double>({10, 20, 30}, {3});
  for (const Tensor& result :
       {scatter(self, 0, index, values), index_copy(self, 0, index, values), index_put(self, {index}, values)}) {
    EXPECT_EQ(result.to_vector<double>(), (std::vector<double>{5, 2, 7}));
    const std::vector<Tensor> g = gradients(result, {self, values}, {.seed = seed});
    EXPECT_EQ(g[0].to_vector<double>(), (std::vector<double>{0, 20, 0}));
    EXPECT_EQ(g[1].to_vector<double>(), (std::vector<double>{0, 10, 0, 30}));
  }
  // Windows that overlap put one maximum twice: it has the gradient of its place once.
  const Tensor x = requires_grad(Tensor::from<double>({1, 2, 9, 4, 5}, {1, 1, 5}));
  const ValuesIndices pooled = max_pool1d_with_indices(x, 3, {.stride = 2});
  const Tensor unpooled = max_unpool1d(pooled.values, pooled.indices, 3, {.stride = 2});
  EXPECT_EQ(gradients(sum(unpooled), {x})[0].to_vector<double>(), (std::vector<double>{0, 0, 1, 0, 0}));
}

TEST(Autograd, DeviationsAndLengthsOfZeroHaveGradientZero) {
  const Tensor x = requires_grad(zeros({2, 3}));
  for (const Tensor& result : {lockstep::std(x, {1}), std_mean(x, {1}).first, norm(x, {1}), vector_norm(x, 2),
                               vector_norm(x, 3, {1}), vector_norm(x, 0.5, {1}), vector_norm(x, -1, {1}), cdist(x, x),
                               cdist(x, x, 3), pairwise_distance(x, x, 3, {.eps = 0})}) {
    EXPECT_EQ(result.to_vector<float>(), std::vector<float>(static_cast<std::size_t>(result.numel()), 0));
    EXPECT_EQ(gradients(sum(result), {x})[0].to_vector<float>(), std::vector<float>(6, 0));
  }
  // One zero among others.
  const Tensor y = requires_grad(Tensor::from<double>({0, 1, 4}, {3}));
  const std::vector<double> g = gradients(vector_norm(y, 0.5), {y})[0].to_vector<double>();
  EXPECT_EQ(g[0], 0);
  EXPECT_NEAR(g[1], 3, 1e-12);
  EXPECT_NEAR(g[2], 1.5, 1e-12);
  // Divided by eps, not by zero.
  EXPECT_EQ(gradients(sum(normalize(x, 2, 1, 0.5)), {x})[0].to_vector<float>(), std::vector<float>(6, 2));
  EXPECT_EQ(
      gradients(sum(cosine_similarity(x, Tensor::from<float>({0, 3, 0}, {3}), 1, 0.5)), {x})[0].to_vector<float>(),
      (std::vector<float>{0, 2, 0, 0, 2, 0}));
}

TEST(Autograd, MistakesAreNamed) {
  const Tensor x = requires_grad(ones({2}));
  const Tensor y = sum(x * x);
  gradients(y, {x});
  expect_error<ValueError>([&] { gradients(y, {x}); }, {"released", "retain_graph"});
  expect_error<ValueError>([&] { gradients(x * 2.0, {x}); }, {"one element", "seed"});
  expect_error<ValueError>([&] { gradients(sum(ones({2})), {x}); }, {"not tracked"});
  expect_error<ValueError>([&] { gradients(sum(x), {requires_grad(ones({1}))}); }, {"does not depend", "allow_unused"});
  expect_error<DTypeError>([&] { requires_grad(ones({2}, {.dtype = DType::i64})); }, {"requires_grad"});
  expect_error<ShapeError>([&] { gradients(x * 2.0, {x}, {.seed = ones({3})}); }, {"seed"});
}

TEST(Autograd, LongChainsNeedNoStack) {
  Tensor x = requires_grad(ones({1}));
  Tensor y = x;
  for (int i = 0; i < 50000; ++i) y = y + 1e-6;
  EXPECT_EQ(gradients(y, {x})[0].item<float>(), 1.0f);
}

}  // namespace
}  // namespace lockstep::test
