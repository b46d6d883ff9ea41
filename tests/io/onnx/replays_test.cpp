// Runs of a model that are run again without its nodes.
#include "nn/replays.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <lockstep/lockstep.h>

#include "io/onnx/one_node.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::io::onnx {
namespace {

// Embeddings, which check indices, and products with weights.
struct Small : nn::Layer {
  nn::Embedding table{*this, "table", 5, 4};
  nn::Linear first{*this, "first", 4, 3};
  nn::Linear second{*this, "second", 3, 2};
  Small() { eval(); }
  Tensor forward(const Operand& x) const override { return softmax(second(tanh(first(table(x)))), -1); }
};

class Replay : public ::testing::Test {
 protected:
  Replay() {
    const Small layer;
    save_onnx(folder_.path("net.onnx"), layer, {indices(1)}, {.dynamic = {{0, 1, "batch"}}});
  }

  static Tensor indices(std::uint64_t seed, std::int64_t batch = 2) {
    return remainder(random_tensor({6, batch}, DType::i64, seed), 5).eval();
  }
  std::unique_ptr<OnnxModel> load() const { return load_onnx(folder_.path("net.onnx")); }
  Tensor expected(const Tensor& x) const { return load()->forward(x); }
  static std::uint64_t kernels() {
    return graph::window_statistics({}).plans_reused + graph::window_statistics({}).plans_made;
  }

  const test::TemporaryFolder folder_;
  std::optional<NoGrad> no_grad_{std::in_place};
};

TEST_F(Replay, GivesTheBitsOfTheFirstRun) {
  const auto model = load();
  for (std::uint64_t seed = 1; seed < 8; ++seed) {
    const Tensor x = indices(seed), y = indices(seed, 3);
    EXPECT_BITS_EQ(model->forward(x), expected(x));
    EXPECT_BITS_EQ(model->forward(y), expected(y));  // another size
  }
}

TEST_F(Replay, FindsNoPlanFromTheFourthRunOn) {
  const auto model = load();
  for (std::uint64_t seed = 1; seed < 4; ++seed) model->forward(indices(seed)).eval();
  const Tensor x = indices(9);
  const std::uint64_t before = kernels();
  model->forward(x).eval();
  EXPECT_EQ(kernels(), before);
}

TEST_F(Replay, FollowsItsWeights) {
  const auto model = load();
  const Tensor x = indices(1);
  for (int run = 0; run < 5; ++run) model->forward(x).eval();
  const Tensor before = model->forward(x);
  TensorMap state = model->state_dict();
  for (auto& [name, tensor] : state) tensor = (tensor * 0.5).eval();
  model->load_state_dict(state);
  const auto other = load();
  other->load_state_dict(state);
  const Tensor after = other->forward(x);
  EXPECT_NE(after.hash(), before.hash());
  for (int run = 0; run < 5; ++run) EXPECT_BITS_EQ(model->forward(x), after);
}

TEST_F(Replay, NamesABadIndex) {
  const auto model = load();
  for (std::uint64_t seed = 1; seed < 6; ++seed) model->forward(indices(seed)).eval();
  expect_error<IndexError>([&] { model->forward((indices(1) + 3).eval()).eval(); }, {});
  EXPECT_BITS_EQ(model->forward(indices(2)), expected(indices(2)));
}

TEST_F(Replay, LetsGradientsThrough) {
  const auto model = load();
  const Tensor x = indices(1);
  for (int run = 0; run < 5; ++run) model->forward(x).eval();
  no_grad_.reset();
  const auto gradient = [&](const OnnxModel& one) {
    sum(one.forward(x)).backward();
    return one.parameters().front().grad();
  };
  EXPECT_BITS_EQ(gradient(*model), gradient(*load()));
}

// What it computes without nodes would be a constant to those who note nodes.
TEST_F(Replay, IsAPartOfAnotherThatComesAgain) {
  struct Outer : nn::Layer {
    explicit Outer(const OnnxModel& inside) : model(inside) { eval(); }
    Tensor forward(const Operand& x) const override { return model.forward(x) * 2.0; }
    const OnnxModel& model;
  };
  const auto model = load();
  for (std::uint64_t seed = 1; seed < 6; ++seed) model->forward(indices(seed)).eval();
  const Outer outer(*model);
  const nn::Replayed replayed(outer);
  for (std::uint64_t seed = 11; seed < 17; ++seed) {
    EXPECT_BITS_EQ(replayed(indices(seed)), expected(indices(seed)) * 2.0);
  }
}

// Sizes that elements decide: those that are there in each of a few runs, and others after that.
TEST(ReplayOfSizes, FollowsElements) {
  const auto given = [](std::vector<float> values) { return io::TensorMap{{"x", Tensor::from(values, {6})}}; };
  const test::TemporaryFolder folder;
  const test::OneNode node{"NonZero", {"x"}, {"y"}, {}, ""};
  folder.write("nonzero.onnx", test::model_of(node, given({1, 0, 0, 1, 0, 1})));
  const auto model = load_onnx(folder.path("nonzero.onnx"));
  const std::vector<std::vector<float>> all = {
      {1, 0, 0, 1, 0, 1}, {2, 0, 0, 2, 0, 2}, {3, 0, 0, 1, 0, 1}, {4, 0, 0, 1, 0, 1}, {5, 0, 0, 5, 0, 1},
      {1, 1, 0, 1, 0, 1}, {1, 0, 0, 1, 0, 1}, {0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1}, {1, 0, 0, 1, 0, 1}};
  const NoGrad no_grad;
  for (const std::vector<float>& values : all) {
    EXPECT_BITS_EQ(model->run(given(values)).at("y"), nonzero(Tensor::from(values, {6})).transpose(0, 1));
  }
}

TEST_F(Replay, RunsOnSeveralThreads) {
  const auto model = load();
  for (std::uint64_t seed = 1; seed < 5; ++seed) model->forward(indices(seed)).eval();
  std::vector<Tensor> results(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      const NoGrad no_grad;
      for (int run = 0; run < 20; ++run) results[t] = model->forward(indices(10 + t)).eval();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < results.size(); ++t) EXPECT_BITS_EQ(results[t], expected(indices(10 + t)));
}

}  // namespace
}  // namespace lockstep::io::onnx
