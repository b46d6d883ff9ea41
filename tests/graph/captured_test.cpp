// Computations that are recorded once and run again on other inputs.
#include "graph/captured.h"

#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "core/device.h"
#include "graph/make.h"
#include "graph/window.h"
#include "support/tensors.h"

namespace lockstep::graph {
namespace {

using TensorsFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

std::unique_ptr<Captured> captured(const TensorsFunction& function, const std::vector<Tensor>& inputs,
                                   Steers steers = Steers::refused) {
  for (const Tensor& input : inputs) input.eval();
  Capture capture(inputs, steers);
  const std::vector<Tensor> outputs = function(inputs);
  return capture.finish(outputs);
}

Tensor input(const Shape& shape, std::uint64_t seed, Device device = {}) {
  return random_tensor(shape, DType::f32, seed).to(device).eval();
}

Tensor indices(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

TEST(Captured, GivesTheBitsOfARecordedRunOnEveryDevice) {
  for (const Device device : test_devices()) {
    const Tensor weight = input({6, 5}, 1, device);
    const TensorsFunction function = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      const Tensor y = gelu(matmul(in[0], weight) + in[1]);
      return {softmax(y, 1), y.transpose(0, 1), sum(y), in[0].narrow(0, 1, 2), weight, in[1]};
    };
    const auto again = captured(function, {input({4, 6}, 2, device), input({5}, 3, device)});
    ASSERT_NE(again, nullptr) << device.to_string();
    for (std::uint64_t seed = 10; seed < 13; ++seed) {
      const std::vector<Tensor> inputs = {input({4, 6}, seed, device), input({5}, seed + 100, device)};
      const std::vector<Tensor> expected = function(inputs);
      const auto results = again->run(inputs);
      ASSERT_TRUE(results) << device.to_string();
      ASSERT_EQ(results->size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_BITS_EQ((*results)[i], expected[i]);
    }
  }
}

// A large source that nobody has computed is no constant of the recording, but part of it, and a flush of the other
// thread drops what it is made of.
TEST(Captured, ReadsSourcesThatAnotherThreadComputes) {
  constexpr std::int64_t kMany = 2048;
  const Tensor x = input({kMany}, 1);
  const auto make = [](int i) { return cast(arange(kMany), DType::f32) * 2.0 + double(i); };
  for (int round = 0; round < 50; ++round) {
    std::vector<Tensor> sources;
    for (int i = 0; i < 64; ++i) sources.push_back(make(i));
    std::thread other([&] {
      for (Tensor& source : sources) source.eval();
    });
    const auto again = captured(
        [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
          std::vector<Tensor> results;
          for (const Tensor& source : sources) results.push_back(in[0] * source);
          return results;
        },
        {x});
    other.join();
    ASSERT_NE(again, nullptr);
    const auto results = again->run(std::vector<Tensor>{x});
    ASSERT_TRUE(results);
    for (int i = 0; i < 64; ++i) EXPECT_BITS_EQ((*results)[static_cast<std::size_t>(i)], x * make(i));
  }
}

TEST(Captured, HoldsNoValuesOfTheRunThatItRecords) {
  const Tensor x = input({100}, 1);
  for (const bool refused : {false, true}) {
    Capture capture({x});
    Tensor y = x * 2.0;
    std::weak_ptr<Node> node = node_of(y);
    if (refused) {  // by who reads a value: no run that can come again
      EXPECT_EQ(y.to_vector<float>().size(), 100u);
    }
    const Tensor z = y + 1.0;
    z.eval();
    y = Tensor();
    EXPECT_TRUE(node.expired()) << refused;
  }
}

TEST(Captured, MakesNoNodesAndNoPlans) {
  const TensorsFunction function = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {exp(in[0]) * 2.0};
  };
  const auto again = captured(function, {input({8}, 1)});
  const Tensor x = input({8}, 2);
  const WindowStatistics before = window_statistics({});
  const auto results = again->run(std::vector<Tensor>{x});
  const WindowStatistics after = window_statistics({});
  ASSERT_TRUE(results);
  EXPECT_EQ(after.pending, before.pending);
  EXPECT_EQ(after.plans_made, before.plans_made);
  EXPECT_EQ(after.kernels, before.kernels + 1);
}

// The signs of a rotation, which its kernel reads, are the same in every run.
TEST(Captured, HasFewElementsThatAreMadeOfSourcesAtHand) {
  for (const Device device : test_devices()) {
    const RopeTables tables = rope_tables(3, 8, {}, {.device = device});
    const TensorsFunction function = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      return {rope(in[0], tables)};
    };
    const auto again = captured(function, {input({2, 3, 8}, 1, device)});
    ASSERT_NE(again, nullptr) << device.to_string();
    const Tensor x = input({2, 3, 8}, 2, device);
    const std::uint64_t before = window_statistics(device).kernels;
    const auto results = again->run(std::vector<Tensor>{x});
    EXPECT_EQ(window_statistics(device).kernels, before + 1) << device.to_string();
    ASSERT_TRUE(results);
    EXPECT_BITS_EQ((*results)[0].to(Device()), rope(x, tables).to(Device()));
  }
}

// More values than one plan takes, of which later pieces read some of earlier ones, and windows that flush themselves.
TEST(Captured, IsCutIntoPieces) {
  const TensorsFunction function = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    Tensor x = in[0];
    const Tensor early = tanh(x);
    for (int i = 0; i < 500; ++i) x = matmul(x * 0.5, in[1]) + early;
    return {x, early};
  };
  const auto again = captured(function, {input({2, 4}, 1), input({4, 4}, 2) * 0.25});
  ASSERT_NE(again, nullptr);
  const std::vector<Tensor> other = {input({2, 4}, 3), (input({4, 4}, 4) * 0.25).eval()};
  const std::vector<Tensor> expected = function(other);
  const auto results = again->run(other);
  ASSERT_TRUE(results);
  EXPECT_BITS_EQ((*results)[0], expected[0]);
  EXPECT_BITS_EQ((*results)[1], expected[1]);
}

TEST(Captured, LeavesItsInputsAndResultsAlone) {
  const TensorsFunction function = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    Tensor x = in[0];
    x[0] = 7.0;
    return {x};
  };
  const auto again = captured(function, {input({4}, 1)});
  ASSERT_NE(again, nullptr);
  const Tensor x = input({4}, 2);
  const std::uint64_t hash = x.hash();
  const Tensor first = again->run(std::vector<Tensor>{x}).value()[0];
  const std::uint64_t first_hash = first.hash();
  EXPECT_EQ(x.hash(), hash);
  EXPECT_NE(again->run(std::vector<Tensor>{input({4}, 3)}).value()[0].hash(), first_hash);
  EXPECT_EQ(first.hash(), first_hash);
  EXPECT_EQ(first.to_vector<float>()[0], 7.0f);
}

TEST(Captured, RefusesWhatLooksAtElementsOrDrawsNumbers) {
  const std::vector<Tensor> inputs = {input({4}, 1)};
  const auto refuses = [&](const TensorsFunction& function) { return captured(function, inputs) == nullptr; };
  EXPECT_TRUE(
      refuses([](const auto& in) -> std::vector<Tensor> { return {in[0] * max(in[0]).template item<float>()}; }));
  EXPECT_TRUE(refuses([](const auto& in) -> std::vector<Tensor> { return {in[0] + rand({4})}; }));
  EXPECT_TRUE(refuses([](const auto& in) -> std::vector<Tensor> { return {nonzero(in[0])}; }));
  EXPECT_FALSE(refuses([](const auto& in) -> std::vector<Tensor> { return {in[0] * ones({4}).sum().item<float>()}; }));
  const Tensor x = inputs[0];
  const Capture twice({x, x});
  EXPECT_EQ(captured([](const auto& in) -> std::vector<Tensor> { return {in[0]}; }, {x.narrow(0, 0, 2)}), nullptr);
}

// The first so many of the elements as there are positive ones, and the places of all of these.
std::vector<Tensor> first_positive(const std::vector<Tensor>& in) {
  const Tensor positive = gt(in[0], 0);
  return {exp(in[0].narrow(0, 0, sum(positive).item<std::int64_t>())), nonzero(positive)};
}

TEST(Captured, ComesAgainWhereWhatItReadsIsTheSame) {
  for (const Device device : test_devices()) {
    const auto given = [&](const std::vector<float>& values) {
      return std::vector<Tensor>{Tensor::from(values, {4}).to(device).eval()};
    };
    const auto again = captured(first_positive, given({1, -2, 3, -4}), Steers::allowed);
    ASSERT_NE(again, nullptr) << device.to_string();
    for (const std::vector<float>& values : {std::vector<float>{2, -1, 7, -1}, {0.5, 0, 1, -9}}) {
      const auto results = again->run(given(values));
      ASSERT_TRUE(results) << device.to_string();
      const std::vector<Tensor> expected = first_positive(given(values));
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_BITS_EQ((*results)[i], expected[i]);
    }
    EXPECT_FALSE(again->run(given({1, 2, 3, -4})));  // one more
    EXPECT_FALSE(again->has_missed());
    EXPECT_TRUE(again->run(given({1, -1, 3, -4})));
    EXPECT_FALSE(again->run(given({1, 2, -3, -4})));  // as many elsewhere
    EXPECT_FALSE(again->has_missed());
    EXPECT_FALSE(again->run(given({-1, -2, -3, -4})));
    EXPECT_TRUE(again->has_missed());
  }
}

TEST(Captured, LooksAtInputsThatAreRead) {
  const TensorsFunction function = [](const auto& in) -> std::vector<Tensor> {
    return {in[0] * in[1].template item<float>()};
  };
  const auto given = [](std::uint64_t seed, float number) {
    return std::vector<Tensor>{input({4}, seed), full({1}, number)};
  };
  const auto again = captured(function, given(1, 3), Steers::allowed);
  ASSERT_NE(again, nullptr);
  EXPECT_BITS_EQ(again->run(given(2, 3)).value()[0], function(given(2, 3))[0]);
  EXPECT_FALSE(again->run(given(2, 4)));
}

// What is read in the middle of more values than one plan takes ends a piece.
TEST(Captured, ReadsBetweenItsPieces) {
  const TensorsFunction function = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    Tensor x = in[0];
    for (int i = 0; i < 900; ++i) {
      x = matmul(x * 0.5, in[1]) + in[0];
      if (i % 70 == 0 && max(gt(x, 1e6)).item<bool>()) x = -x;
    }
    return {x};
  };
  const Tensor weight = (input({4, 4}, 2) * 0.25).eval();
  const auto again = captured(function, {input({2, 4}, 1), weight}, Steers::allowed);
  ASSERT_NE(again, nullptr);
  const std::vector<Tensor> other = {input({2, 4}, 3), weight};
  const auto results = again->run(other);
  ASSERT_TRUE(results);
  EXPECT_BITS_EQ((*results)[0], function(other)[0]);
  EXPECT_FALSE(again->run(std::vector<Tensor>{(input({2, 4}, 3) * 1e8).eval(), weight}));
}

TEST(Captured, DrawsTheNumbersOfARecordedRun) {
  for (const Device device : test_devices()) {
    const TensorsFunction function = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      const TensorOptions options{.device = device};
      const Tensor first = in[0] + randn({4}, options);
      return {first * rand({4}, options), dropout(in[0], 0.5, true)};
    };
    manual_seed(1);
    const auto again = captured(function, {input({4}, 1, device)}, Steers::allowed);
    ASSERT_NE(again, nullptr) << device.to_string();
    const std::vector<Tensor> other = {input({4}, 2, device)};
    for (const std::uint64_t seed : {1, 5}) {
      manual_seed(seed);
      rand({1});
      const std::vector<Tensor> expected = function(other);
      const std::uint64_t after = default_generator().draws();
      manual_seed(seed);
      rand({1});
      const auto results = again->run(other);
      ASSERT_TRUE(results) << device.to_string();
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_BITS_EQ((*results)[i], expected[i]);
      EXPECT_EQ(default_generator().draws(), after);
    }
  }
}

TEST(Captured, LeavesTheGeneratorWhereItComesToNothing) {
  const TensorsFunction function = [](const auto& in) -> std::vector<Tensor> {
    const Tensor x = in[0] + rand({4});
    return {x * (max(in[0]).template item<float>() > 0 ? 2.0 : 3.0)};
  };
  const auto again = captured(function, {full({4}, 1)}, Steers::allowed);
  ASSERT_NE(again, nullptr);
  const std::uint64_t before = default_generator().draws();
  EXPECT_FALSE(again->run(std::vector<Tensor>{full({4}, 2).eval()}));
  EXPECT_EQ(default_generator().draws(), before);
}

// Even one that has the numbers of the thread's.
TEST(Captured, RefusesNumbersOfAnotherGenerator) {
  manual_seed(3);
  Generator mine(3);
  EXPECT_EQ(captured([&](const auto& in) -> std::vector<Tensor> { return {in[0] + rand({4}) + rand({4}, {}, &mine)}; },
                     {input({4}, 1)}, Steers::allowed),
            nullptr);
  const auto seeds = [](const auto& in) -> std::vector<Tensor> {
    manual_seed(9);
    return {in[0] + rand({4})};
  };
  EXPECT_EQ(captured(seeds, {input({4}, 1)}, Steers::allowed), nullptr);
}

TEST(Captured, LeavesOtherInputsToARecordedRun) {
  const auto again = captured([](const auto& in) -> std::vector<Tensor> { return {in[0] + 1.0}; }, {input({4}, 1)});
  const auto fits = [&](const Tensor& x) { return again->run(std::vector<Tensor>{x}).has_value(); };
  EXPECT_TRUE(fits(input({4}, 2)));
  EXPECT_TRUE(fits(input({4}, 2) * 3.0));  // not computed yet
  EXPECT_FALSE(fits(input({5}, 2)));
  EXPECT_FALSE(fits(input({4}, 2).to(DType::f64)));
  EXPECT_FALSE(fits(input({8}, 2).narrow(0, 0, 4)));
  EXPECT_FALSE(fits(Tensor::from(std::vector<float>{1, 2, std::numeric_limits<float>::denorm_min(), 4}, {4})));
}

TEST(Captured, LeavesBadIndicesToARecordedRun) {
  const Tensor table = input({3, 2}, 1);
  const auto again = captured([&](const auto& in) -> std::vector<Tensor> { return {index_select(table, 0, in[0])}; },
                              {indices({0, 2})});
  ASSERT_NE(again, nullptr);
  const auto good = again->run(std::vector<Tensor>{indices({1, 1})});
  ASSERT_TRUE(good);
  EXPECT_BITS_EQ((*good)[0], index_select(table, 0, indices({1, 1})));
  EXPECT_FALSE(again->run(std::vector<Tensor>{indices({1, 3})}));
}

// As a cache that takes a token: written over where nobody else holds it, and only there.
TEST(Captured, WritesOverWhatIsGivenUp) {
  for (const Device device : test_devices()) {
    const auto put = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      const Tensor after = scatter(in[2], 0, in[0].reshape({1, 1}).expand({1, 3}), in[1]);
      return {after, sum(after)};
    };
    const Tensor at = indices({1}).to(device);
    const Tensor more = (input({1, 3}, 1, device) * 2.0).eval();  // as what is given might not be, free of subnormals
    Tensor cache = zeros({4, 3}, {.device = device}) + 1.0;
    const auto again = captured(put, {at, more, cache});
    ASSERT_NE(again, nullptr);
    const std::byte* const memory = node_of(cache)->buffer->data();
    for (const std::int64_t place : {2, 0, 3}) {
      const Tensor index = indices({place}).to(device);
      const std::vector<Tensor> expected = put({index, more, cache.clone().eval()});
      const std::uint64_t hash = expected[0].hash();
      const std::vector<Tensor> given_up = {std::exchange(cache, Tensor())};
      const auto results = again->run(std::vector<Tensor>{index, more}, given_up);
      ASSERT_TRUE(results);
      cache = (*results)[0];
      EXPECT_EQ(node_of(cache)->buffer->data(), memory);
      EXPECT_EQ(cache.hash(), hash);
      EXPECT_BITS_EQ((*results)[1], expected[1]);
      EXPECT_THROW(given_up[0].eval(), BackendError);
    }
    const std::uint64_t hash = cache.hash();
    const std::vector<Tensor> shared = {cache};
    ASSERT_TRUE(again->run(std::vector<Tensor>{at, more}, shared));
    EXPECT_EQ(cache.hash(), hash);
    const std::vector<float> numbers(12, 2);
    const std::vector<Tensor> users = {Tensor::from_blob(numbers.data(), {4, 3}, DType::f32).to(device)};
    EXPECT_EQ(again->run(std::vector<Tensor>{at, more}, users).has_value(), is_host(device));
    EXPECT_EQ(numbers, std::vector<float>(12, 2));
  }
}

// Devices that run ahead of the host do not wait: the error comes when a result is read.
TEST(Captured, SaysLaterThatAnIndexWasBadWhereTheDeviceRunsAhead) {
  for (const Device device : test_devices()) {
    if (is_host(device)) continue;
    const Tensor table = input({3, 2}, 1, device);
    const TensorsFunction look_up = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      return {embedding(table, in[0].reshape({1, 2})) * 2.0};
    };
    const auto again = captured(look_up, {indices({0, 2}).to(device)});
    ASSERT_NE(again, nullptr);
    const auto run = [&](const std::vector<std::int64_t>& at) {
      return again->run(std::vector<Tensor>{indices(at).to(device)}).value()[0];
    };
    const Tensor good = run({1, 1});
    const Tensor bad = run({1, 3});
    const Tensor after = run({2, 2});
    expect_error<IndexError>([&] { (bad + 1.0).eval(); }, {"index 3", "size 3", "from 0 to 2"});
    EXPECT_BITS_EQ(good, look_up({indices({1, 1}).to(device)})[0]);
    EXPECT_BITS_EQ(after, look_up({indices({2, 2}).to(device)})[0]);
  }
}

TEST(Captured, HasNoGradients) {
  const Tensor weight = input({4}, 1).requires_grad_();
  EXPECT_EQ(captured([&](const auto& in) -> std::vector<Tensor> { return {in[0] * weight}; }, {input({4}, 2)}),
            nullptr);
}

}  // namespace
}  // namespace lockstep::graph
