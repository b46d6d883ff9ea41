// The situations that this project exists for (docs/design.md section 1), on every device of LOCKSTEP_TEST_DEVICES.
// Compared with the specification on `ref`, by equality of bits.
#include <lockstep/lockstep.h>

#include <gtest/gtest.h>

#include "support/tensors.h"

namespace lockstep {
namespace {

Tensor random(const Shape& shape, std::uint64_t seed, Device device, DType dtype = DType::f32) {
  return random_tensor(shape, dtype, seed, device);
}

// Ones and zeros of initial state are constants of kernels where they were made, and memory elsewhere: here they are
// memory on every device.
void move(nn::Module& model, Device device) {
  for (const Device& stop : {Device{DeviceKind::ref, 0}, Device{}, device}) model.to(stop);
}

template <typename Run> WorkStatistics work_of(Device device, const Run& run) {
  const WorkStatistics before = work_statistics(device);
  run();
  const WorkStatistics after = work_statistics(device);
  return {after.kernels - before.kernels, after.bytes - before.bytes};
}

// `pred + y` on two handles of one GPU returned `pred`.
TEST(Situations, HandlesOfOneDeviceAreThatDevice) {
  for (const Device& device : test_devices()) {
    SCOPED_TRACE(device.to_string());
    const Device again = Device::parse(device.to_string());
    EXPECT_EQ(device, again);
    const Tensor prediction = full({3}, 2.0, {.device = device});
    const Tensor y = full({3}, 5.0, {.device = again});
    EXPECT_EQ((prediction + y).to_vector<float>(), (std::vector<float>{7, 7, 7}));
  }
}

// Weights on the GPU, input on the CPU.
TEST(Situations, OperandsOnTwoDevicesAreNamed) {
  for (const Device& device : test_devices()) {
    if (device == Device{}) continue;
    SCOPED_TRACE(device.to_string());
    nn::Module root;
    const nn::Conv2d convolution(root, "conv1", 3, 8, {3});
    root.to(device);
    const Tensor image = random({1, 3, 8, 8}, 1, {});
    expect_error<DeviceError>([&] { convolution(image); }, {"conv2d", "cpu", device.to_string(), "fix"});
    EXPECT_EQ(convolution(image.to(device)).device(), device);
  }
}

TEST(Situations, LinearLayersStartDifferentlyAndAlikeOnEveryDevice) {
  same_everywhere([](Device device) {
    manual_seed(7);
    nn::Module root;
    const nn::Linear first(root, "first", 37, 19);
    const nn::Linear second(root, "second", 37, 19);
    root.to(device);
    std::vector<Tensor> all = {randn({1000}, {.device = device})};
    for (const auto& [name, tensor] : root.state_dict()) all.push_back(tensor.flatten());
    EXPECT_NE(all[1].to_vector<float>(), all[3].to_vector<float>());
    EXPECT_NE(all[2].to_vector<float>(), all[4].to_vector<float>());
    return cat(all, 0);
  });
  for (const Device& device : test_devices()) {
    Generator one;
    Generator other;
    EXPECT_NE(rand({8}, {.device = device}, &one).to_vector<float>(),
              rand({8}, {.device = device}, &other).to_vector<float>());
  }
}

// "No Metal implementation for layer-norm", nor for max_pool.
TEST(Situations, LayerNormAndMaxPoolWithGradients) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    same_everywhere([&](Device device) {
      const Tensor x = requires_grad(random({5, 384}, 1, device, dtype));
      const Tensor weight = requires_grad(random({384}, 2, device, dtype));
      const Tensor bias = requires_grad(random({384}, 3, device, dtype));
      const Tensor y = layer_norm(x, {384}, weight, bias);
      const std::vector<Tensor> of = gradients(sum(y * random({5, 384}, 4, device, dtype)), {x, weight, bias});
      return cat({detach(y).flatten(), of[0].flatten(), of[1], of[2]}, 0);
    });
    same_everywhere([&](Device device) {
      return max_pool2d(random({2, 3, 13, 17}, 5, device, dtype), 3);
    });
  }
}

// One memory that a kernel reads as two operands, which Metal allows where nothing writes there. Nobody holds x when it
// is computed.
TEST(Situations, AValueAndItsWordsMeetInOneKernel) {
  same_everywhere([](Device device) {
    const Tensor x = random({300}, 1, device);
    return where(x.bitcast(DType::i32) > 0, x * 2, 1.0);
  });
}

// Right at 10 x 10 x 3, garbage at 3000 x 128, NaN in f16.
TEST(Situations, ColumnsOfASmallImage) {
  same_everywhere([](Device device) {
    const Tensor x = random({1, 3, 10, 10}, 1, device);
    const Tensor w = random({4, 3, 3, 3}, 2, device);
    const Tensor y = conv2d(x, w, std::nullopt, {.padding = {1}});
    EXPECT_BITS_EQ(matmul(w.reshape({4, 27}), unfold(x, 3, {.padding = {1}})).reshape(y.shape()), y);
    return y;
  });
}

TEST(Situations, ColumnsOf128ChannelsOf3000) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    same_everywhere([&](Device device) {
      const Tensor x = random({1, 128, 1, 3000}, 1, device, dtype);
      return unfold(x, {1, 3}, {.padding = {0, 1}});
    });
    same_everywhere([&](Device device) {
      const Tensor x = random({1, 128, 3000}, 1, device, dtype);
      return conv1d(x, random({2, 128, 3}, 2, device, dtype), std::nullopt, {.padding = {1}});
    });
  }
}

TEST(Situations, ColumnsOf512RowsOf187WithAKernelOf11) {
  same_everywhere([](Device device) {
    return unfold(random({512, 1, 1, 187}, 1, device), {1, 11}, {.padding = {0, 5}});
  });
  same_everywhere([](Device device) {
    const Tensor x = random({1, 512, 187}, 1, device);
    return conv1d(x, random({512, 1, 11}, 2, device), std::nullopt, {.padding = {5}, .groups = 512});
  });
}

// 11.5 million columns: the reference would take too long, a slice of the input says the same.
TEST(Situations, ColumnsOf1280ChannelsOf3000) {
  for (const Device& device : test_devices()) {
    if (device.kind == DeviceKind::ref) continue;
    SCOPED_TRACE(device.to_string());
    const Tensor x = random({1, 1280, 1, 3000}, 1, device);
    const Tensor columns = unfold(x, {1, 3}, {.padding = {0, 1}});
    ASSERT_EQ(columns.shape(), (Shape{1, 3840, 3000}));
    const Tensor padded = pad(x, {1, 1}).reshape({1280, 3002});
    for (const int tap : {0, 1, 2}) {
      EXPECT_BITS_EQ(columns.reshape({1280, 3, 3000}).select(1, tap), padded.narrow(1, tap, 3000));
    }
    // 512 output channels: the first ones, and the last.
    const Tensor w = random({512, 1280, 3}, 2, device);
    const Tensor some = cat({w.narrow(0, 0, 1), w.narrow(0, 511, 1)}, 0);
    const Tensor cpu = conv1d(x.to(Device{}).squeeze(2), some.to(Device{}), std::nullopt, {.padding = {1}});
    EXPECT_BITS_EQ(conv1d(x.squeeze(2), some, std::nullopt, {.padding = {1}}).to(Device{}), cpu);
  }
}

// A hang at stride 5 and 1605 x 384 results.
TEST(Situations, TransposedConvolutionOfStride5) {
  same_everywhere([](Device device) {
    const Tensor x = random({1, 16, 320}, 1, device);
    const Tensor y = conv_transpose1d(x, random({16, 384, 10}, 2, device), std::nullopt, {.stride = {5}});
    EXPECT_EQ(y.shape(), (Shape{1, 384, 1605}));
    return y;
  });
}

TEST(Situations, ResNet20HasTheSameLogits) {
  std::vector<std::uint64_t> hashes;
  std::vector<WorkStatistics> work;
  for (const Device& device : test_devices()) {
    SCOPED_TRACE(device.to_string());
    manual_seed(20);
    models::CifarResNet model(10, 20);
    move(model, device);
    model.eval();
    const NoGrad no_grad;
    hashes.push_back(model(random({2, 3, 32, 32}, 1, device)).hash());
    EXPECT_EQ(hashes.back(), hashes.front());
    // Once more, now that the weights are there: every device runs the same kernels.
    work.push_back(work_of(device, [&] { model(random({2, 3, 32, 32}, 1, device)).eval(); }));
    EXPECT_EQ(work.back().kernels, work.front().kernels);
    EXPECT_EQ(work.back().bytes, work.front().bytes);
    RecordProperty("kernels", std::to_string(work.back().kernels));
    RecordProperty("bytes", std::to_string(work.back().bytes));
  }
}

TEST(Situations, AStepOfTrainingIsTheSameWorkEverywhere) {
  std::vector<WorkStatistics> work;
  for (const Device& device : test_devices()) {
    SCOPED_TRACE(device.to_string());
    manual_seed(20);
    models::CifarResNet model(10, 20);
    move(model, device);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    const Tensor y = Tensor::from(std::vector<std::int64_t>{1, 4}, {2}, device);
    const auto step = [&] {
      const Tensor loss = cross_entropy(model(random({2, 3, 32, 32}, 1, device)), y);
      optimizer.step(loss);
      loss.eval();
    };
    step();  // makes the optimiser's state
    work.push_back(work_of(device, step));
    EXPECT_EQ(work.back().kernels, work.front().kernels);
    EXPECT_EQ(work.back().bytes, work.front().bytes);
    RecordProperty("kernels", std::to_string(work.back().kernels));
    RecordProperty("bytes", std::to_string(work.back().bytes));
  }
}

TEST(Situations, TwentyStepsOfTrainingGiveTheSameWeights) {
  std::vector<std::vector<std::uint64_t>> hashes;
  for (const Device& device : test_devices()) {
    SCOPED_TRACE(device.to_string());
    manual_seed(21);
    models::LeNet model(10);
    model.to(device);
    optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
    std::vector<std::uint64_t> now;
    for (std::uint64_t step = 0; step < 20; ++step) {
      const Tensor x = random({4, 1, 28, 28}, 100 + step, device);
      const Tensor y =
          Tensor::from(std::vector<std::int64_t>{1, 4, 7, static_cast<std::int64_t>(step % 10)}, {4}, device);
      const Tensor loss = cross_entropy(model(x), y);
      optimizer.step(loss);
      now.push_back(loss.hash());
    }
    for (const auto& [name, tensor] : model.state_dict()) now.push_back(tensor.hash());
    hashes.push_back(now);
    EXPECT_EQ(hashes.back(), hashes.front());
  }
}

}  // namespace
}  // namespace lockstep
