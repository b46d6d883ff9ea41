// Recurrent cells and layers. Values are compared with PyTorch's in tests/data/cases.
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include "support/tensors.h"

namespace lockstep {
namespace {

Tensor small_random(const Shape& shape, std::uint64_t seed, Device device = {}, DType dtype = DType::f32) {
  return random_tensor(shape, dtype, seed, device) * 0.3;
}

RecurrentWeights weights(std::int64_t gates, std::int64_t in, std::int64_t hidden, Device device = {},
                         DType dtype = DType::f32) {
  return {small_random({gates * hidden, in}, 1, device, dtype),
          small_random({gates * hidden, hidden}, 2, device, dtype), small_random({gates * hidden}, 3, device, dtype),
          small_random({gates * hidden}, 4, device, dtype)};
}

TEST(Recurrent, EqualBitsEverywhere) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const auto x = [&](Device d) { return small_random({7, 3, 5}, 9, d, dtype); };
    same_everywhere([&](Device d) { return lstm(x(d), {weights(4, 5, 6, d, dtype)}).output; });
    same_everywhere([&](Device d) { return gru(x(d), {weights(3, 5, 6, d, dtype)}).output; });
    same_everywhere([&](Device d) {
      return rnn_tanh(x(d), {weights(1, 5, 6, d, dtype), weights(1, 5, 6, d, dtype)}, std::nullopt,
                      {.bidirectional = true})
          .output;
    });
    same_everywhere([&](Device d) { return rnn_relu(x(d), {weights(1, 5, 6, d, dtype)}).hidden; });
  }
}

TEST(Recurrent, LayersAreTheirCellsStepByStep) {
  const Tensor x = small_random({5, 2, 3}, 9);
  const RecurrentWeights w = weights(4, 3, 6);
  const LstmResult result = lstm(x, {w});
  LstmState state{zeros({2, 6}), zeros({2, 6})};
  for (std::int64_t step = 0; step < 5; ++step) {
    state = lstm_cell(x.select(0, step), state, w);
    EXPECT_BITS_EQ(result.output.select(0, step), state.hidden);
  }
  EXPECT_BITS_EQ(result.hidden.select(0, 0), state.hidden);
  EXPECT_BITS_EQ(result.cell.select(0, 0), state.cell);
  // A single sequence has no batch; a vector is a batch of one.
  EXPECT_BITS_EQ(lstm(x.select(1, 1), {w}).output, result.output.select(1, 1));
  EXPECT_BITS_EQ(lstm_cell(x.select(0, 0).select(0, 1), {zeros({6}), zeros({6})}, w).hidden,
                 result.output.select(0, 0).select(0, 1));
}

TEST(Recurrent, BackwardDirectionReadsFromTheEnd) {
  const Tensor x = small_random({5, 2, 3}, 9);
  const RecurrentWeights w = weights(3, 3, 6);
  const RecurrentResult both = gru(x, {w, w}, std::nullopt, {.bidirectional = true});
  EXPECT_BITS_EQ(both.output.narrow(2, 0, 6), gru(x, {w}).output);
  EXPECT_BITS_EQ(both.output.narrow(2, 6, 6), gru(x.flip({0}), {w}).output.flip({0}));
  EXPECT_BITS_EQ(gru(x.transpose(0, 1), {w, w}, std::nullopt, {.bidirectional = true, .batch_first = true}).output,
                 both.output.transpose(0, 1));
}

TEST(Recurrent, ManyStepsAreFewPlans) {
  const RecurrentWeights w = weights(4, 8, 8);
  const auto run = [&] { return lstm(small_random({512, 1, 8}, 9), {w}).output.hash(); };
  const std::uint64_t first = run();
  run();
  const graph::WindowStatistics before = graph::window_statistics({});
  EXPECT_EQ(run(), first);
  EXPECT_EQ(graph::window_statistics({}).plans_made, before.plans_made);
}

TEST(Recurrent, WrongArguments) {
  const Tensor x = ones({5, 2, 3});
  const RecurrentWeights w = weights(4, 3, 6);
  expect_error<ShapeError>([&] { lstm(ones({5, 2, 4}), {w}); }, {"lstm", "weight_ih_l0"});
  expect_error<ShapeError>([&] { gru(x, {w}); }, {"gru", "weights"});
  expect_error<ValueError>([&] { lstm(x, {}); }, {"lstm"});
  expect_error<ValueError>([&] { lstm(x, {w}, std::nullopt, {.bidirectional = true}); }, {"lstm", "direction"});
  expect_error<ShapeError>([&] { lstm(x, {w}, LstmState{zeros({1, 3, 6}), zeros({1, 2, 6})}); }, {"initial hidden"});
  expect_error<DTypeError>([&] { lstm(x.to(DType::f16), {w}); }, {"lstm", "dtypes"});
  expect_error<ShapeError>([&] { lstm_cell(ones({2, 3}), {zeros({2, 5}), zeros({2, 6})}, w); }, {"hidden state"});
  expect_error<ValueError>([&] { lstm(x, {RecurrentWeights{}}); }, {"undefined"});
}

}  // namespace
}  // namespace lockstep
