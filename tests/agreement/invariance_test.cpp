// What a row's result may depend on: the row. Row i of a batch equals the row computed alone, for ops of every kind and
// for whole models; two halves of a batch, their gradients accumulated, equal the documented order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include <lockstep/lockstep.h>

#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

struct BatchOp {
  const char* name;
  Shape shape;  ///< of the batch
  std::function<Tensor(const Tensor&)> run;
};

Tensor weights(const Shape& shape, std::uint64_t seed) {
  return random_tensor(shape, DType::f32, seed, Device{});
}

std::vector<BatchOp> batch_ops() {
  const Shape matrix{5, 37};
  const Shape image{5, 4, 9, 11};
  const Shape signal{5, 4, 33};
  const Shape volume{3, 2, 5, 6, 7};
  const Shape heads{5, 2, 7, 8};
  return {
      {"exp", matrix, [](const Tensor& x) { return exp(x); }},
      {"gelu of a sum", matrix, [](const Tensor& x) { return gelu(x * 1.5 + x); }},
      {"add a row", matrix, [](const Tensor& x) { return x + weights({37}, 1); }},
      {"sum", matrix, [](const Tensor& x) { return sum(x, {1}); }},
      {"prod", matrix, [](const Tensor& x) { return prod(x, {1}); }},
      {"mean", matrix, [](const Tensor& x) { return mean(x, {-1}); }},
      {"var", matrix, [](const Tensor& x) { return var(x, {-1}); }},
      {"amax", matrix, [](const Tensor& x) { return amax(x, {1}); }},
      {"argmax", matrix, [](const Tensor& x) { return argmax(x, 1); }},
      {"logsumexp", matrix, [](const Tensor& x) { return logsumexp(x, {1}); }},
      {"softmax", matrix, [](const Tensor& x) { return softmax(x, 1); }},
      {"log_softmax", matrix, [](const Tensor& x) { return log_softmax(x, 1); }},
      {"cumsum", matrix, [](const Tensor& x) { return cumsum(x, 1); }},
      {"sort", matrix, [](const Tensor& x) { return sort(x, 1).values; }},
      {"topk", matrix, [](const Tensor& x) { return topk(x, 3, 1).values; }},
      {"linear", matrix,
       [](const Tensor& x) {
         return linear(x, weights({19, 37}, 2), weights({19}, 3));
       }},
      {"linear of halves", matrix,
       [](const Tensor& x) {
         return linear(x.to(DType::f16), weights({19, 37}, 2).to(DType::f16));
       }},
      {"matmul", matrix,
       [](const Tensor& x) {
         return matmul(x, weights({37, 130}, 4));
       }},
      {"layer_norm", matrix, [](const Tensor& x) { return layer_norm(x, {37}); }},
      {"rms_norm", matrix, [](const Tensor& x) { return rms_norm(x, {37}); }},
      {"index_select", matrix,
       [](const Tensor& x) {
         return index_select(x, 1, Tensor::from(std::vector<std::int64_t>{3, 36, 0}, {3}));
       }},
      {"batched matmul", heads, [](const Tensor& x) { return matmul(x, x.transpose(-1, -2)); }},
      {"attention", heads, [](const Tensor& x) { return scaled_dot_product_attention(x, x, x, {.causal = true}); }},
      {"conv1d", signal,
       [](const Tensor& x) {
         return conv1d(x, weights({6, 4, 3}, 5), {}, {.padding = {1}});
       }},
      {"conv2d", image,
       [](const Tensor& x) {
         return conv2d(x, weights({6, 4, 3, 3}, 6), {}, {.padding = {1, 1}});
       }},
      {"strided conv2d", image,
       [](const Tensor& x) {
         return conv2d(x, weights({6, 4, 3, 3}, 6), {}, {.stride = {2, 2}});
       }},
      {"grouped conv2d", image,
       [](const Tensor& x) {
         return conv2d(x, weights({4, 1, 3, 3}, 7), {}, {.groups = 4});
       }},
      {"conv3d", volume,
       [](const Tensor& x) {
         return conv3d(x, weights({3, 2, 2, 2, 2}, 8));
       }},
      {"conv_transpose2d", image,
       [](const Tensor& x) {
         return conv_transpose2d(x, weights({4, 3, 2, 2}, 9), {}, {.stride = {2, 2}});
       }},
      {"max_pool2d", image, [](const Tensor& x) { return max_pool2d(x, 2); }},
      {"avg_pool2d", image, [](const Tensor& x) { return avg_pool2d(x, 3); }},
      {"group_norm", image, [](const Tensor& x) { return group_norm(x, 2); }},
      {"pad", image,
       [](const Tensor& x) {
         return pad(x, {1, 2});
       }},
  };
}

TEST(BatchInvariance, ARowOfABatchIsTheRowAlone) {
  std::uint64_t seed = 100;
  for (const BatchOp& op : batch_ops()) {
    SCOPED_TRACE(op.name);
    const Tensor x = random_tensor(op.shape, DType::f32, seed++, Device{});
    const Tensor whole = op.run(x);
    for (std::int64_t i = 0; i < op.shape[0]; ++i)
      EXPECT_BITS_EQ(whole.narrow(0, i, 1), op.run(x.narrow(0, i, 1).contiguous()));
    EXPECT_BITS_EQ(whole.narrow(0, 1, 2), op.run(x.narrow(0, 1, 2)));  // and as a part of the batch in place
    const Tensor twice = op.run(cat({x, x}, 0));                       // a larger batch
    EXPECT_BITS_EQ(whole, twice.narrow(0, op.shape[0], op.shape[0]));
  }
}

TEST(BatchInvariance, OfWholeModels) {
  const NoGrad no_grad;
  for (const char* name : {"lenet", "resnet20-cifar"}) {
    SCOPED_TRACE(name);
    manual_seed(4);
    ASSERT_NE(models::find_model<models::ImageClassifier>(name), nullptr);
    const auto model = models::find_model<models::ImageClassifier>(name)->create(10);
    model->eval();
    const bool gray = std::string(name) == "lenet";
    const Shape shape = gray ? Shape{4, 1, 28, 28} : Shape{4, 3, 32, 32};
    const Tensor x = random_tensor(shape, DType::f32, 5, Device{});
    const Tensor whole = (*model)(x);
    for (std::int64_t i = 0; i < 4; ++i) EXPECT_BITS_EQ(whole.narrow(0, i, 1), (*model)(x.narrow(0, i, 1)));
  }
}

// docs/numerics.md: gradients of a parameter are sums over the batch in one order; accumulation adds whole gradients,
// in the order of the calls.
TEST(GradientAccumulation, TwoHalvesAreTheirSum) {
  manual_seed(6);
  nn::Linear layer(12, 4);
  const Tensor x = random_tensor({8, 12}, DType::f32, 7, Device{});
  const auto gradient = [&](std::int64_t from, std::int64_t count) {
    layer.zero_grad();
    backward(sum(gelu(layer(x.narrow(0, from, count)))));
    return layer.weight.grad().clone().eval();
  };
  const Tensor first = gradient(0, 4);
  const Tensor second = gradient(4, 4);
  layer.zero_grad();
  backward(sum(gelu(layer(x.narrow(0, 0, 4)))));
  backward(sum(gelu(layer(x.narrow(0, 4, 4)))));
  EXPECT_BITS_EQ(layer.weight.grad(), first + second);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
