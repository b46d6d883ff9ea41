#include <lockstep/tensor_part.h>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "support/tensors.h"

namespace lockstep::test {
namespace {

using Numbers = std::vector<float>;

TEST(TensorPart, EveryKindOfEntryWritesWhatItReads) {
  // x[entries] = value must be what index() then reads, and nothing else may change.
  const Tensor mask = tensor({{true, false, true}, {false, false, true}});
  const std::vector<std::vector<Index>> all{
      {},
      {1},
      {-1, 2},
      {Slice{.step = -1}},
      {0, Slice{1, 3}, kEllipsis},
      {kEllipsis, Slice{.start = 1, .step = 2}},
      {kNone, 1, kNone},
      {Slice{2, 2}},
      {tensor({1, 0})},
      {kEllipsis, tensor({3, 1})},
      {1, tensor({{2, 0}, {1, 1}}), Slice{0, 2}},
      {Slice{}, tensor({2, 0}), tensor({1, 3})},
      {mask},
      {mask, Slice{1, 3}},
      {tensor({1}), kEllipsis, Slice{0, 4, 2}},
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    same_everywhere([&](Device device) {
      std::vector<Index> entries;
      for (const Index& entry : all[i]) {
        const auto* const picked = std::get_if<Tensor>(&entry.entry);
        entries.push_back(picked == nullptr ? entry : Index(picked->to(device)));
      }
      const Tensor before = arange(24).reshape({2, 3, 4}).to(DType::f32).to(device);
      Tensor x = before;
      TensorPart(x, {&x, [](void* whole, const Tensor& value) { *static_cast<Tensor*>(whole) = value; }},
                 entries) = -1;
      const Tensor written = x.index(entries);
      EXPECT_BITS_EQ(written, full(written.shape(), -1, device));
      EXPECT_BITS_EQ(where(x == -1, before, x), before) << "the rest is as it was";
      EXPECT_BITS_EQ(before, arange(24).reshape({2, 3, 4}).to(DType::f32).to(device)) << "and so is the old value";
      return x;
    });
  }
}

TEST(TensorPart, ValuesBroadcast) {
  Tensor x = zeros(2, 3);
  x[{Slice{}, 1}] = tensor({1.0, 2.0});
  x[{Slice{}, Slice{2, 3}}] = tensor({{7.0}});
  EXPECT_EQ(x.to_vector<float>(), (Numbers{0, 1, 7, 0, 2, 7}));
  x[0] = ones(1, 3);  // leading ones are dropped
  EXPECT_EQ(x[0].to_vector<float>(), (Numbers{1, 1, 1}));
  expect_error<ShapeError>([&] { x[0] = ones(2); }, {"[3]", "broadcast", "tensor_part_test.cpp"});
  expect_error<ShapeError>([&] { x[0] = ones(2, 3); }, {"broadcast"});
}

TEST(TensorPart, TakesNumbersAndNoOtherDtype) {
  Tensor x = zeros({2}, DType::i64);
  x[0] = 3;
  EXPECT_EQ(x.to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 0}));
  expect_error<DTypeError>([&] { x[0] = 0.5; }, {"0.5"});
  expect_error<DTypeError>([&] { x[0] = ones(1); }, {"f32", "i64"});
  expect_error<IndexError>([&] { x[5] = 1; }, {"5"});
  expect_error<IndexError>([&] { x[{0, 0}] = 1; }, {"2 entries for 1"});
}

TEST(TensorPart, KeptInAVariableItIsATensorOfItsOwn) {
  Tensor x = zeros(2, 2);
  auto row = x[0];
  row = ones(2);
  row += 1;
  row[0] = 9;
  EXPECT_EQ(row.to_vector<float>(), (Numbers{9, 2}));
  EXPECT_EQ(x.to_vector<float>(), (Numbers{0, 0, 0, 0}));
  const Tensor copy = x;
  x[0] = 4;
  EXPECT_EQ(copy.to_vector<float>(), (Numbers{0, 0, 0, 0})) << "other handles keep the old value";
}

TEST(TensorPart, OfMemoryThatNobodyElseHoldsIsWrittenInPlace) {
  Tensor x = zeros(1000) + 1;
  x.eval();
  const std::size_t before = memory_statistics().live;
  for (int i = 0; i < 3; ++i) {
    x[i] = 5;
    x.eval();
    EXPECT_LE(memory_statistics().live, before) << "no second copy stays";
  }
  EXPECT_EQ(x.sum().item(), 1012);
}

TEST(TensorPart, GivesNothingBackThatCouldBeOld) {
  static_assert(std::is_void_v<decltype(std::declval<TensorPart>() = std::declval<const Operand&>())>);
  static_assert(std::is_void_v<decltype(std::declval<TensorPart>() += std::declval<const Operand&>())>);
}

}  // namespace
}  // namespace lockstep::test
