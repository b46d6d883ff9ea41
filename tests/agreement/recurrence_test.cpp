// Recurrent layers whose steps are one kernel (RecurrenceKernel) have the bits of their composition, which the
// reference runs: with each set of instructions, for sizes of state that fill vectors and that do not, for batches of
// one thread's rows and of more, and for the values that arithmetic treats as no others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <lockstep/autograd.h>
#include <lockstep/ops.h>
#include <lockstep/shadow.h>

#include "agreement/isa_backend.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

struct Sizes {
  std::int64_t steps, batch, inputs, hidden;
};

// Numbers, among them some of those that are special.
Tensor numbers(const Shape& shape, std::uint64_t seed, bool special, Device device) {
  const Tensor plain = random_tensor(shape, DType::f32, seed) * 0.4;
  if (!special) return plain.to(device);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> specials{1e-40f, -1e-40f, -0.0f, 90, -90, kInfinity, -kInfinity, std::nanf("")};
  std::vector<float> values = plain.to_vector<float>();
  for (std::size_t i = 0; i < values.size(); i += 37) values[i] = specials[(i / 37 + seed) % specials.size()];
  return Tensor::from(values, shape).to(device);
}

std::vector<RecurrentWeights> both_ways(std::int64_t gates, const Sizes& s, bool special, bool biases, Device device) {
  std::vector<RecurrentWeights> all;
  for (std::uint64_t seed = 1; seed <= 11; seed += 10) {
    const std::int64_t rows = gates * s.hidden;
    RecurrentWeights& w = all.emplace_back(RecurrentWeights{numbers({rows, s.inputs}, seed, false, device),
                                                            numbers({rows, s.hidden}, seed + 1, special, device)});
    if (biases) w.input_bias = numbers({rows}, seed + 2, false, device);
    if (biases) w.hidden_bias = numbers({rows}, seed + 3, special, device);
  }
  return all;
}

std::vector<Tensor> results_on(Device device, const Sizes& s, bool special, bool biases) {
  const NoGrad no_gradients;
  const Tensor x = numbers({s.steps, s.batch, s.inputs}, 31, special, device);
  const Tensor hidden = numbers({2, s.batch, s.hidden}, 32, special, device);
  const Tensor memory = numbers({2, s.batch, s.hidden}, 33, special, device);
  const RecurrentOptions options{.bidirectional = true};
  const auto w = [&](std::int64_t gates) { return both_ways(gates, s, special, biases, device); };
  const LstmResult l = lstm(x, w(4), LstmState{hidden, memory}, options);
  const RecurrentResult g = gru(x, w(3), hidden, options);
  const RecurrentResult t = rnn_tanh(x, w(1), hidden, options);
  const RecurrentResult r = rnn_relu(x, w(1), hidden, options);
  return {l.output, l.hidden, l.cell, g.output, g.hidden, t.output, t.hidden, r.output, r.hidden};
}

void expect_the_composition(const Sizes& s, bool special, bool biases) {
  SCOPED_TRACE(testing::Message() << s.steps << " steps of " << s.batch << " x " << s.hidden << ", special " << special
                                  << ", biases " << biases);
  const std::vector<Tensor> expected = results_on({DeviceKind::ref}, s, special, biases);
  for (const Device device : isa_devices()) {
    const std::vector<Tensor> results = results_on(device, s, special, biases);
    for (std::size_t i = 0; i < results.size(); ++i) EXPECT_BITS_EQ(results[i].to(Device()), expected[i].to(Device()));
  }
}

TEST(Recurrence, AllStepsHaveTheBitsOfEach) {
  for (const std::int64_t hidden : {1, 7, 16, 32, 33, 50, 96}) {
    expect_the_composition({5, 1, 4, hidden}, false, true);
    expect_the_composition({4, 3, 4, hidden}, false, false);
  }
  for (const std::int64_t batch : {2, 4, 5, 11}) expect_the_composition({4, batch, 3, 20}, false, true);
  for (const std::int64_t batch : {1, 6}) expect_the_composition({1, batch, 3, 20}, false, true);
}

TEST(Recurrence, SpecialValues) {
  expect_the_composition({5, 1, 4, 32}, true, true);
  expect_the_composition({4, 6, 4, 21}, true, false);
}

// More than one block of k, for the cells whose weights are small enough (kMostWeights).
TEST(Recurrence, LongStates) {
  const auto output = [](Device device) {
    const NoGrad no_gradients;
    const Sizes s{4, 2, 3, 300};
    return rnn_tanh(numbers({4, 2, 3}, 5, false, device), both_ways(1, s, false, true, device), std::nullopt,
                    {.bidirectional = true})
        .output.to(Device());
  };
  const Tensor expected = output({DeviceKind::ref});
  for (const Device device : isa_devices()) EXPECT_BITS_EQ(output(device), expected);
}

TEST(Recurrence, IsOneKernelUnlessAGradientIsWantedOrKernelsAreWatched) {
  const Sizes s{12, 1, 4, 8};
  const auto recurrences = [&](const Tensor& x, bool ready = false) {
    auto weights = both_ways(3, s, false, true, isa_devices().back());
    for (RecurrentWeights& w : weights) {
      if (!ready) w.hidden = w.hidden * 2.0;
    }
    const std::vector<std::string> kernels = plan({gru(x, weights, std::nullopt, {.bidirectional = true}).output});
    return std::count_if(kernels.begin(), kernels.end(), [](const std::string& k) { return k.starts_with("gru["); });
  };
  const Tensor x = numbers({12, 1, 4}, 1, false, isa_devices().back());
  EXPECT_EQ(recurrences(x), 1);
  EXPECT_EQ(recurrences(x.clone().requires_grad_(true)), 0);
  // One step is worth it where the form of the weights may be kept.
  EXPECT_EQ(recurrences(x.narrow(0, 0, 1)), 0);
  EXPECT_EQ(recurrences(x.narrow(0, 0, 1), true), 1);
  const Shadow shadow({DeviceKind::ref});
  EXPECT_EQ(recurrences(x), 0);
}

}  // namespace
}  // namespace lockstep::test
