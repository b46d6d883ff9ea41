// What people type who come from PyTorch: lines beside theirs with PyTorch's values, and what is asked and printed.
// tests/nn/habits_test.cpp has modules and training.
#include <lockstep/lockstep.h>

#include <sstream>

#include <gtest/gtest.h>

#include "support/habits.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

Floats floats(const Tensor& x) { return x.to_vector<float>(); }

// [[0, 1, 2], [3, 4, 5]]
Tensor six() { return arange(6).to(DType::f32).reshape(2, 3); }

template <typename T> std::string printed(const T& value) {
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

// --- PyTorch's values -------------------------------------------------------------------------------------------------
// clang-format off: pairs of lines that are compared by eye
TEST(HabitsAsInTorch, Making) {
  expect_as_in_torch({
      HABIT("torch.tensor([1, 2, 3])", return tensor({1, 2, 3})),
      HABIT("torch.tensor([[1., 2.], [3., 4.]])", return tensor({{1., 2.}, {3., 4.}})),
      HABIT("torch.tensor(3.0)", return tensor({3.0}).squeeze()),
      HABIT("torch.tensor([True, False])", return tensor({true, false})),
      HABIT("torch.zeros(2, 3)", return zeros(2, 3)),
      HABIT("torch.ones(3)", return ones(3)),
      HABIT("torch.zeros(2, dtype=torch.int64)", return zeros({2}, DType::i64)),
      HABIT("torch.full((2,), 7.0)", return full({2}, 7.0)),
      HABIT("torch.zeros_like(x)", return zeros_like(x)),
      HABIT("torch.arange(3)", return arange(3)),
      HABIT("torch.linspace(0, 1, 5)", return linspace(0, 1, 5)),
      HABIT("torch.eye(3)", return eye(3)),
  });
}

TEST(HabitsAsInTorch, Arithmetic) {
  expect_as_in_torch({
      HABIT("x += 1; x", x += 1; return x),
      HABIT("x -= 0.5; x", x -= 0.5; return x),
      HABIT("x *= 2; x", x *= 2; return x),
      HABIT("x /= v; x", x /= v; return x),
      HABIT("1 - x", return 1 - x),
      HABIT("-x", return -x),
      HABIT("x % 4", return x % 4),
      HABIT("y.pow(2)", return y.pow(2)),
      HABIT("y.abs().sqrt()", return y.abs().sqrt()),
      HABIT("y.exp()", return y.exp()),
      HABIT("x.log1p()", return x.log1p()),
      HABIT("y.relu()", return y.relu()),
      HABIT("y.sigmoid()", return y.sigmoid()),
      HABIT("y.tanh()", return y.tanh()),
      HABIT("y.round()", return y.round()),
      HABIT("x @ x.T", return x.matmul(x.T())),
      HABIT("x.mm(y.t())", return x.mm(y.t())),
      HABIT("v.dot(v)", return v.dot(v)),
      HABIT("x.add(y)", return x.add(y)),
      HABIT("torch.maximum(x, y)", return maximum(x, y)),
      HABIT("x.clamp(1, 4)", return x.clamp(1, 4)),
      HABIT("x.clamp(min=2)", return x.clamp(2, std::nullopt)),
  });
}

TEST(HabitsAsInTorch, Conditions) {
  expect_as_in_torch({
      HABIT("x > 2", return x > 2),
      HABIT("x == 2", return x == 2),
      HABIT("(x > 0) & (x < 5)", return (x > 0) & (x < 5)),
      HABIT("(x < 1) | (x > 4)", return (x < 1) | (x > 4)),
      HABIT("~(x > 2)", return ~(x > 2)),
      HABIT("(x > 2).sum()", return (x > 2).sum()),
      HABIT("(x >= 0).all()", return (x >= 0).all()),
      HABIT("(x > 9).any()", return (x > 9).any()),
      HABIT("torch.where(y > 0, x, 0.)", return where(y > 0, x, 0.)),
      HABIT("x.masked_fill(y < 0, 9)", return x.masked_fill(y < 0, 9)),
      HABIT("y.isnan()", return y.isnan()),
  });
}

TEST(HabitsAsInTorch, Reductions) {
  expect_as_in_torch({
      HABIT("x.sum()", return x.sum()),
      HABIT("x.sum(0)", return x.sum(0)),
      HABIT("torch.sum(x, 1)", return sum(x, 1)),
      HABIT("x.sum(-1, keepdim=True)", return x.sum(-1, true)),
      HABIT("x.mean()", return x.mean()),
      HABIT("x.mean((0, 1))", return x.mean({0, 1})),
      HABIT("x.max()", return x.max()),
      HABIT("x.max(1).values", return x.max(1).values),
      HABIT("x.min(0).indices", return x.min(0).indices),
      HABIT("y.argmax(1)", return y.argmax(1)),
      HABIT("y.argmin()", return y.argmin()),
      HABIT("y.prod()", return y.prod()),
      HABIT("y.var()", return y.var()),
      HABIT("y.std(0)", return y.std(0)),
      HABIT("y.var(0, correction=0)", return y.var(0, false, 0)),
      HABIT("y.norm()", return y.norm()),
      HABIT("y.softmax(1)", return y.softmax(1)),
      HABIT("y.log_softmax(-1)", return y.log_softmax(-1)),
      HABIT("x.logsumexp(1)", return x.logsumexp(1)),
      HABIT("x.cumsum(1)", return x.cumsum(1)),
      HABIT("y.topk(2).values", return y.topk(2).values),
      HABIT("y.topk(2).indices", return y.topk(2).indices),
      HABIT("y.sort(descending=True).values", return y.sort(-1, true).values),
      HABIT("y.argsort()", return y.argsort()),
  });
}

TEST(HabitsAsInTorch, Shapes) {
  expect_as_in_torch({
      HABIT("x.reshape(-1)", return x.reshape(-1)),
      HABIT("x.view(3, -1)", return x.view(3, -1)),
      HABIT("x.permute(1, 0)", return x.permute(1, 0)),
      HABIT("x.T", return x.T()),
      HABIT("x.transpose(0, 1)", return x.transpose(0, 1)),
      HABIT("x[None].mT", return x[kNone].mT()),
      HABIT("x.unsqueeze(0).squeeze(0)", return x.unsqueeze(0).squeeze(0)),
      HABIT("v.expand(2, -1)", return v.expand(2, -1)),
      HABIT("v.repeat(2, 2)", return v.repeat(2, 2)),
      HABIT("x.flip(0)", return x.flip(0)),
      HABIT("x.flatten()", return x.flatten()),
      HABIT("x.movedim(0, 1)", return x.movedim(0, 1)),
      HABIT("torch.cat([x, y], 1)", return cat({x, y}, 1)),
      HABIT("torch.stack([x, y])", return stack({x, y})),
      HABIT("x.chunk(3, 1)[2]", return x.chunk(3, 1)[2]),
      HABIT("x.roll(1)", return x.roll(1)),
      HABIT("x.tril()", return x.tril()),
      HABIT("torch.einsum('ij,j->i', x, v)", return einsum("ij,j->i", {x, v})),
      HABIT("x.view_as(torch.zeros(3, 2))", return x.view_as(zeros(3, 2))),
  });
}

TEST(HabitsAsInTorch, ReadingParts) {
  expect_as_in_torch({
      HABIT("x[0]", return x[0]),
      HABIT("x[-1]", return x[-1]),
      HABIT("x[1, 2]", return x[{1, 2}]),
      HABIT("x[1][2]", return x[1][2]),
      HABIT("x[..., 0]", return x[{kEllipsis, 0}]),
      HABIT("x[:, 1:3]", return x[{Slice{}, Slice{1, 3}}]),
      HABIT("x[:, ::2]", return x[{Slice{}, Slice{.step = 2}}]),
      HABIT("x[None]", return x[kNone]),
      HABIT("x[y > 0]", return x[y > 0]),
      HABIT("x[i]", return x[i]),
      HABIT("x[i, 1]", return x[{i, 1}]),
      HABIT("x.gather(1, x.argmax(1, keepdim=True))", return x.gather(1, x.argmax(1, true))),
      HABIT("x.index_select(0, i)", return x.index_select(0, i)),
      HABIT("x.diag()", return x.diag()),
  });
}

TEST(HabitsAsInTorch, AssigningToParts) {
  expect_as_in_torch({
      HABIT("x[0] = 9; x", x[0] = 9; return x),
      HABIT("x[1, 1:] = torch.tensor([7., 8.]); x", x[{1, Slice{1}}] = tensor({7., 8.}); return x),
      HABIT("x[x > 3] = 0; x", x[x > 3] = 0; return x),
      HABIT("x[..., 0] += 1; x", x[{kEllipsis, 0}] += 1; return x),
      HABIT("x[0][1] = 5; x", x[0][1] = 5; return x),
      HABIT("x[1] = x[0]; x", x[1] = x[0]; return x),
      HABIT("x[i] *= 2; x", x[i] *= 2; return x),
      HABIT("x[:, 1] = v[:2]; x", x[{Slice{}, 1}] = v[Slice{0, 2}]; return x),
  });
}

TEST(HabitsAsInTorch, Gradients) {
  expect_as_in_torch({
      HABIT("w = torch.ones(3).requires_grad_(); (w * v).sum().backward(); w.grad", Tensor w = ones(3).requires_grad_(); (w * v).sum().backward(); return w.grad()),
      HABIT("x.requires_grad_(); (x * x).backward(y); x.grad", x.requires_grad_(); (x * x).backward(y); return x.grad()),
      HABIT("w = v.detach().clone().requires_grad_(); y = w * 2; y[1] = w[0] * 10; y.sum().backward(); w.grad", Tensor w = v.detach().clone().requires_grad_(); y = w * 2; y[1] = w[0] * 10; y.sum().backward(); return w.grad()),
  });
}
// clang-format on

// The loop of every first tutorial, for more rounds than one.
TEST(HabitsAsInTorch, SgdByHandForAnyNumberOfRounds) {
  expect_as_in_torch({
      HABIT("v.requires_grad_()\nfor _ in range(20):\n  ((x * v).sum(1) - 1).square().mean().backward()\n"
            "  with torch.no_grad():\n    v -= 0.02 * v.grad\n  v.grad = None\nv", {
        v.requires_grad_();
        for (int round = 0; round < 20; ++round) {
          ((x * v).sum(1) - 1).square().mean().backward();
          const NoGrad scope;
          v -= 0.02 * v.grad();
          v.zero_grad();
        }
        return v.detach();
      }),
  });
}

// --- making --------------------------------------------------------------------------------------------------------------

TEST(Habits, MakingTensors) {
  EXPECT_EQ(ones({2}, Device{DeviceKind::ref, 0}).device().kind, DeviceKind::ref);            // torch.ones(2, device=...)
  EXPECT_EQ(zeros({2}, {}).dtype(), DType::f32);
  EXPECT_EQ(full({2}, 7, DType::i32).to_vector<std::int32_t>(), (std::vector<std::int32_t>{7, 7}));
  EXPECT_EQ(randn(2, 3, 4).shape(), (Shape{2, 3, 4}));                                        // torch.randn(2, 3, 4)
  EXPECT_EQ(rand({2}, DType::f64).dtype(), DType::f64);
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

TEST(Habits, ConditionsAreMasks) {
  const Tensor x = tensor({-1.0, 2.0, 7.0});
  EXPECT_TRUE((x == x).all().item<bool>());                              // (x == y).all()
  EXPECT_TRUE((x > 6).any().item());
  EXPECT_TRUE(x.allclose(x + 1e-9));                                     // torch.allclose(x, y)
  EXPECT_TRUE(equal(x, x.clone()));                                      // torch.equal(x, y)
  EXPECT_EQ((x > 0).sum().item(), 2);                                    // (x > 0).sum().item()
  EXPECT_FALSE((std::is_constructible_v<bool, Tensor>)) << "if (a == b) must not compile";
}

TEST(Habits, WhatIsWrongIsFoundAtTheCall) {
  const Tensor x = six();
  expect_error<IndexError>([&] { x[2]; }, {"index 2", "habits_test.cpp"});
  expect_error<ShapeError>([&] { x.view(4, -1); }, {"4, -1", "habits_test.cpp"});
  EXPECT_EQ(zeros(2, 0).view(0, 2).shape(), (Shape{0, 2})) << "0 is a size, not a place";
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
