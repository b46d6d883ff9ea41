// What a row's result may depend on: the row. Row i of a batch equals the row computed alone, in place, and in a larger
// batch, for ops of every kind (for every op: tests/cli/row_invariance_test.cpp) and for whole models; the gradients of
// parts of a batch are accumulated in the documented order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include <lockstep/lockstep.h>
#include <lockstep/parallel.h>

#include "support/ranks.h"
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

// docs/numerics.md section 7: accumulation adds whole gradients in the order of the calls.
struct SmallNet : nn::Module {
  nn::Conv2d conv{*this, "conv", 1, 4, 3};
  nn::GroupNorm norm{*this, "norm", 2, 4};
  nn::Linear out{*this, "out", 4 * 6 * 6, 5};
  nn::Parameter scale{*this, "scale", full({5}, 1.5, {.dtype = DType::bf16})};
  Tensor forward(const Tensor& x) { return out(gelu(norm(conv(x))).flatten(1)) * scale.tensor().to(DType::f32); }
};

struct Pictures {
  Tensor input = random_tensor({12, 1, 8, 8}, DType::f32, 7, Device{});
  Tensor target = Tensor::from(std::vector<std::int64_t>{0, 4, 2, 1, 3, 3, 0, 1, 4, 2, 2, 0}, {12});
  Tensor loss(SmallNet& net, std::int64_t from, std::int64_t count) const {
    return cross_entropy(net.forward(input.narrow(0, from, count)), target.narrow(0, from, count));
  }
};

std::vector<Tensor> gradients_of(SmallNet& net) {
  std::vector<Tensor> gradients;
  for (const nn::Parameter& parameter : net.parameters()) gradients.push_back(parameter.grad().clone().eval());
  return gradients;
}

TEST(GradientAccumulation, AddsTheBatchesInTheOrderOfTheCalls) {
  manual_seed(6);
  SmallNet net;
  const Pictures pictures;
  for (const std::int64_t parts : {2, 3}) {
    const std::int64_t size = 12 / parts;
    std::vector<std::vector<Tensor>> alone;
    for (std::int64_t part = 0; part < parts; ++part) {
      net.zero_grad();
      backward(pictures.loss(net, part * size, size));
      alone.push_back(gradients_of(net));
    }
    net.zero_grad();
    for (std::int64_t part = 0; part < parts; ++part) backward(pictures.loss(net, part * size, size));
    const std::vector<Tensor> together = gradients_of(net);
    bool other_order_differs = false;
    for (std::size_t i = 0; i < together.size(); ++i) {
      Tensor expected = alone[0][i];
      for (std::size_t part = 1; part < alone.size(); ++part) expected = expected + alone[part][i];
      EXPECT_BITS_EQ(together[i], expected) << "parameter " << i << " of " << parts << " parts";
      if (parts == 3) other_order_differs |= !equal(together[i], alone[0][i] + (alone[1][i] + alone[2][i]));
    }
    EXPECT_EQ(other_order_differs, parts == 3);  // so that an order can be told from another
  }
}

// Section 11: with two shards it is what a shard's loss is worth, accumulated.
TEST(GradientAccumulation, OfTwoHalvesIsAStepOfTwoShards) {
  const Pictures pictures;
  manual_seed(6);
  SmallNet accumulated;
  optim::SGD optimizer(accumulated.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    backward(pictures.loss(accumulated, 0, 6) * 0.5);
    backward(pictures.loss(accumulated, 6, 6) * 0.5);
    optimizer.step();
  }
  const std::uint64_t expected = nn::state_hash(accumulated.state_dict());
  test::expect_success(test::run_ranks(1, [&](const dist::Group& group) {
    manual_seed(6);
    SmallNet net;
    optim::SGD own(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    dist::Parallel parallel(net, own, group, {.shards = 2});
    for (int step = 0; step < 3; ++step) {
      parallel.step({.input = pictures.input, .target = pictures.target},
                    [&](const data::Batch& shard) { return cross_entropy(net.forward(shard.input), shard.target); });
    }
    EXPECT_EQ(nn::state_hash(net.state_dict()), expected);
  }));
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
