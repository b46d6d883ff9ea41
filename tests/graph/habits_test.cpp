// What people type who come from PyTorch, and PyTorch's values for it. Each habit is a line that must compile as it is
// written there, as far as C++ can; tests/nn/habits_test.cpp has those of modules and training.
#include <lockstep/lockstep.h>

#include <sstream>

#include <gtest/gtest.h>

#include "support/tensors.h"

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

Floats floats(const Tensor& x) { return x.to_vector<float>(); }
Integers integers(const Tensor& x) { return x.to_vector<std::int64_t>(); }

// [[0, 1, 2], [3, 4, 5]]
Tensor six() { return arange(6).to(DType::f32).reshape(2, 3); }

template <typename T> std::string printed(const T& value) {
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

// --- making --------------------------------------------------------------------------------------------------------------

TEST(Habits, MakingTensors) {
  EXPECT_EQ(integers(tensor({1, 2, 3})), (Integers{1, 2, 3}));                                // torch.tensor([1, 2, 3])
  EXPECT_EQ(floats(tensor({{1.0, 2.0}, {3.0, 4.0}})), (Floats{1, 2, 3, 4}));                  // torch.tensor([[1., 2.], ...
  EXPECT_EQ(tensor({{1.0, 2.0}, {3.0, 4.0}}).shape(), (Shape{2, 2}));
  EXPECT_EQ(tensor({true, false}).dtype(), DType::boolean);
  EXPECT_EQ(zeros(2, 3).shape(), (Shape{2, 3}));                                              // torch.zeros(2, 3)
  EXPECT_EQ(ones(3).shape(), (Shape{3}));                                                     // torch.ones(3)
  EXPECT_EQ(zeros({2}, DType::i64).dtype(), DType::i64);                                      // torch.zeros(2, dtype=torch.int64)
  EXPECT_EQ(ones({2}, Device{DeviceKind::ref, 0}).device().kind, DeviceKind::ref);            // torch.ones(2, device=...)
  EXPECT_EQ(zeros({2}, {}).dtype(), DType::f32);
  EXPECT_EQ(full({2}, 7, DType::i32).to_vector<std::int32_t>(), (std::vector<std::int32_t>{7, 7}));
  EXPECT_EQ(randn(2, 3, 4).shape(), (Shape{2, 3, 4}));                                        // torch.randn(2, 3, 4)
  EXPECT_EQ(rand({2}, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(integers(arange(3)), (Integers{0, 1, 2}));
}

TEST(Habits, NumbersAreTensors) {
  const Tensor s = 3.0f;  // torch.tensor(3.0)
  EXPECT_EQ(s.shape(), Shape{});
  EXPECT_EQ(s.dtype(), DType::f32);
  EXPECT_EQ(s.item<float>(), 3.0f);
  EXPECT_EQ(Tensor(2.5).dtype(), DType::f32);
  const Tensor large = std::int64_t{9007199254740993};
  EXPECT_EQ(large.item<std::int64_t>(), 9007199254740993);
  EXPECT_THROW(large.item(), ValueError);
  EXPECT_EQ(Tensor(true).dtype(), DType::boolean);
  EXPECT_EQ(tensor({4.0}).item(), 4.0);  // x.item()
}

// --- asking and printing -------------------------------------------------------------------------------------------------

TEST(Habits, AskingForShapesAndPrinting) {
  const Tensor x = six();
  EXPECT_EQ(x.size(), (Shape{2, 3}));   // x.size()
  EXPECT_EQ(x.size(-1), 3);             // x.size(-1)
  EXPECT_EQ(x.dim(), 2);                // x.dim()
  EXPECT_EQ(x.shape()[0], 2);           // x.shape[0]
  EXPECT_EQ(x.numel(), 6);              // x.numel()
  EXPECT_EQ(printed(x.shape()), "[2, 3]");  // print(x.shape)
  EXPECT_EQ(printed(x.dtype()), "f32");
  EXPECT_EQ(printed(x.device()), "cpu");
  EXPECT_EQ(printed(Dims{0, -1}), "[0, -1]");
}

// --- arithmetic and comparisons -------------------------------------------------------------------------------------------

TEST(Habits, Arithmetic) {
  Tensor x = tensor({1.0, 2.0, 3.0});
  x += 1;                                                          // x += 1
  EXPECT_EQ(floats(x), (Floats{2, 3, 4}));
  x -= 0.5;                                                        // x -= 0.5
  x *= 2;                                                          // x *= 2
  x /= tensor({3.0, 5.0, 7.0});                                    // x /= y
  EXPECT_EQ(floats(x), (Floats{1, 1, 1}));
  EXPECT_EQ(floats(1 - tensor({1.0, 3.0})), (Floats{0, -2}));      // 1 - x
  EXPECT_EQ(floats(-tensor({1.0})), (Floats{-1}));                 // -x
  EXPECT_EQ(integers(tensor({5, -5}) % 3), (Integers{2, 1}));      // x % 3
  EXPECT_EQ(floats(tensor({2.0, 3.0}).pow(2)), (Floats{4, 9}));    // x.pow(2)
  EXPECT_EQ(floats(six().matmul(six().T())), (Floats{5, 14, 14, 50}));  // x @ x.T
  EXPECT_EQ(floats(tensor({-1.0, 2.0}).abs().sqrt().square()).front(), 1);  // x.abs().sqrt()
}

TEST(Habits, ConditionsAreMasks) {
  const Tensor x = tensor({-1.0, 2.0, 7.0});
  const Tensor inside = (x > 0) & (x < 5);                               // (x > 0) & (x < 5)
  EXPECT_EQ(inside.to_vector<bool>(), (std::vector<bool>{false, true, false}));
  EXPECT_EQ((~inside).to_vector<bool>(), (std::vector<bool>{true, false, true}));  // ~mask
  EXPECT_EQ((inside | (x > 5)).to_vector<bool>(), (std::vector<bool>{false, true, true}));
  EXPECT_TRUE((x == x).all().item<bool>());                              // (x == y).all()
  EXPECT_TRUE((x > 6).any().item());
  EXPECT_TRUE(x.allclose(x + 1e-9));                                     // torch.allclose(x, y)
  EXPECT_TRUE(equal(x, x.clone()));                                      // torch.equal(x, y)
  EXPECT_EQ((x > 0).sum().item(), 2);                                    // (x > 0).sum().item()
  EXPECT_FALSE((std::is_constructible_v<bool, Tensor>)) << "if (a == b) must not compile";
  EXPECT_EQ(floats(x.clamp(0, 5)), (Floats{0, 2, 5}));                   // x.clamp(0, 5)
  EXPECT_EQ(floats(x.masked_fill(x < 0, 9)), (Floats{9, 2, 7}));         // x.masked_fill(x < 0, 9)
  EXPECT_EQ(floats(where(x > 0, x, 0.0)), (Floats{0, 2, 7}));            // torch.where(x > 0, x, 0)
}

// --- reductions ----------------------------------------------------------------------------------------------------------

TEST(Habits, Reductions) {
  const Tensor x = six();
  EXPECT_EQ(x.sum().item<float>(), 15);                             // x.sum()
  EXPECT_EQ(floats(x.sum(0)), (Floats{3, 5, 7}));                   // x.sum(0)
  EXPECT_EQ(floats(sum(x, 1)), (Floats{3, 12}));                    // torch.sum(x, 1)
  EXPECT_EQ(x.sum(-1, true).shape(), (Shape{2, 1}));                // x.sum(-1, keepdim=True)
  EXPECT_EQ(x.mean().item<float>(), 2.5f);                          // x.mean()
  EXPECT_EQ(floats(x.mean({0, 1})), (Floats{2.5f}));                // x.mean((0, 1))
  EXPECT_EQ(x.max().item<float>(), 5);                              // x.max()
  EXPECT_EQ(floats(x.max(1).values), (Floats{2, 5}));               // x.max(1).values
  EXPECT_EQ(integers(x.argmax(1)), (Integers{2, 2}));               // x.argmax(1)
  EXPECT_EQ(x.argmin().item(), 0);                                  // x.argmin()
  EXPECT_EQ(x.prod().item<float>(), 0);                             // x.prod()
  EXPECT_EQ(floats(tensor({1.0, 3.0}).var()), (Floats{2}));         // x.var()
  EXPECT_EQ(floats(tensor({1.0, 3.0}).var(0, false, 0)), (Floats{1}));
  EXPECT_EQ(tensor({3.0, 4.0}).norm().item<float>(), 5);            // x.norm()
  EXPECT_EQ(floats(tensor({0.0, 0.0}).softmax(0)), (Floats{0.5f, 0.5f}));  // x.softmax(0)
  EXPECT_EQ(floats(x.cumsum(1)), (Floats{0, 1, 3, 3, 7, 12}));      // x.cumsum(1)
  EXPECT_EQ(floats(x.topk(2).values), (Floats{2, 1, 5, 4}));        // x.topk(2).values
  EXPECT_EQ(integers(tensor({3.0, 1.0, 2.0}).argsort()), (Integers{1, 2, 0}));  // x.argsort()
  EXPECT_EQ(floats(tensor({3.0, 1.0, 2.0}).sort(0, true).values), (Floats{3, 2, 1}));
  EXPECT_EQ(floats(tensor({-1.0, 1.0}).relu()), (Floats{0, 1}));    // x.relu()
}

// --- shapes --------------------------------------------------------------------------------------------------------------

TEST(Habits, Shapes) {
  const Tensor x = six();
  EXPECT_EQ(x.reshape(-1).shape(), (Shape{6}));                   // x.reshape(-1)
  EXPECT_EQ(x.view(3, -1).shape(), (Shape{3, 2}));                // x.view(3, -1)
  EXPECT_EQ(x.view({3, 2}).shape(), (Shape{3, 2}));
  EXPECT_EQ(floats(x.permute(1, 0)), (Floats{0, 3, 1, 4, 2, 5}));  // x.permute(1, 0)
  EXPECT_EQ(x.permute({1, 0}).shape(), (Shape{3, 2}));
  EXPECT_EQ(floats(x.T()), floats(x.t()));                        // x.T, x.t()
  EXPECT_EQ(zeros(4, 2, 3).mT().shape(), (Shape{4, 3, 2}));       // x.mT
  EXPECT_EQ(x.transpose(0, 1).shape(), (Shape{3, 2}));
  EXPECT_EQ(x.unsqueeze(0).squeeze(0).shape(), (Shape{2, 3}));
  EXPECT_EQ(ones(3).expand(2, -1).shape(), (Shape{2, 3}));        // x.expand(2, -1)
  EXPECT_EQ(floats(ones(1).repeat(2, 2)), (Floats{1, 1, 1, 1}));  // x.repeat(2, 2)
  EXPECT_EQ(floats(x.flip(0)), (Floats{3, 4, 5, 0, 1, 2}));       // x.flip(0)
  EXPECT_EQ(x.view_as(zeros(3, 2)).shape(), (Shape{3, 2}));       // x.view_as(y)
  EXPECT_EQ(x.movedim(0, 1).shape(), (Shape{3, 2}));              // x.movedim(0, 1)
  EXPECT_EQ(x.flatten(0).shape(), (Shape{6}));                    // x.flatten()
  EXPECT_EQ(zeros(2, 0).view(0, 2).shape(), (Shape{0, 2}));
  expect_error<ShapeError>([&] { x.view(4, -1); }, {"4, -1", "habits_test.cpp"});
}

// --- indexing ------------------------------------------------------------------------------------------------------------

TEST(Habits, ReadingParts) {
  const Tensor x = six();
  EXPECT_EQ(floats(x[0]), (Floats{0, 1, 2}));                            // x[0]
  EXPECT_EQ(floats(x[-1]), (Floats{3, 4, 5}));                           // x[-1]
  EXPECT_EQ((x[{1, 2}].item<float>()), 5);                                // x[1, 2]
  EXPECT_EQ(x[1][2].item<float>(), 5);                                   // x[1][2]
  EXPECT_EQ(floats(x[{kEllipsis, 0}]), (Floats{0, 3}));                  // x[..., 0]
  EXPECT_EQ(floats(x[{Slice{}, Slice{1, 3}}]), (Floats{1, 2, 4, 5}));    // x[:, 1:3]
  EXPECT_EQ(x[{kNone}].shape(), (Shape{1, 2, 3}));                       // x[None]
  EXPECT_EQ(floats(x[x > 3]), (Floats{4, 5}));                           // x[x > 3]
  EXPECT_EQ(floats(x[tensor({1, 0})]), (Floats{3, 4, 5, 0, 1, 2}));      // x[torch.tensor([1, 0])]
  expect_error<IndexError>([&] { x[2]; }, {"index 2", "habits_test.cpp"});
}

TEST(Habits, AssigningToParts) {
  Tensor x = six();
  x[0] = 9;                                            // x[0] = 9
  EXPECT_EQ(floats(x), (Floats{9, 9, 9, 3, 4, 5}));
  x[{1, Slice{1, std::nullopt}}] = tensor({7.0, 8.0});  // x[1, 1:] = y
  EXPECT_EQ(floats(x), (Floats{9, 9, 9, 3, 7, 8}));
  x[x > 8] = 0;                                        // x[x > 8] = 0
  EXPECT_EQ(floats(x), (Floats{0, 0, 0, 3, 7, 8}));
  x[{kEllipsis, 0}] += 1;                              // x[..., 0] += 1
  EXPECT_EQ(floats(x), (Floats{1, 0, 0, 4, 7, 8}));
  x[0][1] = 5;                                         // x[0][1] = 5
  EXPECT_EQ(floats(x), (Floats{1, 5, 0, 4, 7, 8}));
  x[1] = x[0];                                         // x[1] = x[0]
  EXPECT_EQ(floats(x), (Floats{1, 5, 0, 1, 5, 0}));
  x[tensor({0})] *= 2;                                 // x[[0]] *= 2
  EXPECT_EQ(floats(x), (Floats{2, 10, 0, 1, 5, 0}));
}

// --- moving ---------------------------------------------------------------------------------------------------------------

TEST(Habits, DevicesAndDtypes) {
  const Tensor x = ones(2);
  EXPECT_EQ(x.to("cpu").device().kind, DeviceKind::cpu);              // x.to("cpu")
  EXPECT_EQ(x.to("ref").device().kind, DeviceKind::ref);
  EXPECT_EQ(x.to(DType::i64).dtype(), DType::i64);                    // x.to(torch.int64)
  EXPECT_EQ(x.to(Device{}, DType::f64).dtype(), DType::f64);          // x.to(device, dtype)
  EXPECT_EQ(x.cpu().device(), Device{});                              // x.cpu()
  EXPECT_EQ(x.type_as(zeros({1}, DType::f64)).dtype(), DType::f64);   // x.type_as(y)
  expect_error<DeviceError>([&] { x.to("gpu"); }, {"gpu"});
}

// --- gradients ------------------------------------------------------------------------------------------------------------

TEST(Habits, Gradients) {
  Tensor w = ones(2).requires_grad_();                       // torch.ones(2).requires_grad_()
  EXPECT_TRUE(w.requires_grad());                            // w.requires_grad
  EXPECT_TRUE(w.is_leaf());                                  // w.is_leaf
  const Tensor loss = (w * tensor({2.0, 3.0})).sum();
  loss.backward();                                           // loss.backward()
  EXPECT_EQ(floats(w.grad()), (Floats{2, 3}));               // w.grad
  w.zero_grad();                                             // w.grad = None
  EXPECT_FALSE(w.grad().defined());
  (w * 2).backward(tensor({1.0, 10.0}));                     // y.backward(gradient)
  EXPECT_EQ(floats(w.grad()), (Floats{2, 20}));
  EXPECT_FALSE(w.detach().requires_grad());                  // w.detach()
  EXPECT_FALSE((w * 2).is_leaf());
  EXPECT_TRUE(w.clone().requires_grad());                    // w.clone()
  const Tensor kept = (w * w).sum();
  kept.backward({.retain_graph = true});                     // y.backward(retain_graph=True)
  kept.backward();
  EXPECT_EQ(floats(w.grad()), (Floats{6, 24}));
}

// The loop of every first tutorial, for more rounds than one.
TEST(Habits, SgdByHandWorksForAnyNumberOfRounds) {
  Tensor w = tensor({4.0, 8.0}).requires_grad_();
  for (int round = 0; round < 20; ++round) {
    (w * w).sum().backward();  // the gradient is 2 w
    {
      const NoGrad scope;      // with torch.no_grad():
      w -= w.grad() * 0.25;    //   w -= 0.25 * w.grad
    }
    ASSERT_TRUE(w.is_leaf());
    ASSERT_TRUE(w.requires_grad());
    ASSERT_TRUE(w.grad().defined()) << "until it is cleared";
    w.zero_grad();
  }
  EXPECT_EQ(floats(w), (Floats{4.0f / (1 << 20), 8.0f / (1 << 20)}));
}

TEST(Habits, ALeafChangedWithoutNoGradIsComputedFromItself) {
  Tensor w = ones(2).requires_grad_();
  const Tensor leaf = w;
  w *= 3;
  EXPECT_FALSE(w.is_leaf());
  w.sum().backward();
  EXPECT_EQ(floats(leaf.grad()), (Floats{3, 3}));
  expect_error<ValueError>([&] { w.grad(); }, {"no leaf", "NoGrad"});
  Tensor row = ones(1).requires_grad_();
  const NoGrad scope;
  expect_error<ShapeError>([&] { row += ones(2); }, {"another shape"});
}

TEST(Habits, PartsOfALeafAndGradientsThroughParts) {
  Tensor w = ones(3).requires_grad_();
  {
    const NoGrad scope;
    w[0] = 5;  // with torch.no_grad(): w[0] = 5
  }
  EXPECT_TRUE(w.is_leaf() && w.requires_grad());
  Tensor y = w * 2;
  y[1] = w[0] * 10;
  EXPECT_EQ(floats(y), (Floats{10, 50, 2}));
  y.sum().backward();
  EXPECT_EQ(floats(w.grad()), (Floats{12, 0, 2}));
}

}  // namespace
}  // namespace lockstep::test
