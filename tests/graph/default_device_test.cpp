#include <lockstep/default_device.h>

#include <thread>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "support/tensors.h"

namespace lockstep::test {
namespace {

constexpr Device kRef{DeviceKind::ref, 0};

TEST(DefaultDevice, IsWhereTensorsAreMade) {
  EXPECT_EQ(ones(2).device(), Device{});
  {
    const DefaultDevice scope("ref");
    EXPECT_EQ(default_device(), kRef);
    EXPECT_EQ(ones(2).device(), kRef);
    EXPECT_EQ(randn({2}, DType::f64).device(), kRef);
    EXPECT_EQ(Tensor::from<float>({1}, 1).device(), kRef);
    EXPECT_EQ(Tensor(3.0f).device(), kRef);
    EXPECT_EQ(nn::Linear(2, 2).weight.device(), kRef);
    EXPECT_EQ(nn::BatchNorm1d(2).running_mean.device(), kRef);
    EXPECT_EQ(zeros({2}, {.device = Device{}}).device(), Device{}) << "a device that is given wins";
    {
      const DefaultDevice inner{Device{}};
      EXPECT_EQ(ones(2).device(), Device{});
    }
    EXPECT_EQ(ones(2).device(), kRef);
    EXPECT_EQ((Tensor::from<float>({1}, 1, Device{}) + 1).device(), Device{}) << "ops stay with their operands";
  }
  EXPECT_EQ(ones(2).device(), Device{});
}

TEST(DefaultDevice, IsOfItsThread) {
  const DefaultDevice scope(kRef);
  Device other = kRef;
  std::thread([&] { other = ones(2).device(); }).join();
  EXPECT_EQ(other, Device{});
}

TEST(DefaultDevice, DoesNotMoveDataSets) {
  const DefaultDevice scope(kRef);
  const data::DatasetPtr digits = data::digits(4, 1);
  data::DataLoader loader(digits, {.batch_size = 2});
  for (const data::Batch& batch : loader) {
    EXPECT_EQ(batch.input.device(), Device{});
    EXPECT_EQ(batch.target.device(), Device{});
  }
}

TEST(DefaultDevice, ThrowsWhereThereIsNone) {
  EXPECT_THROW(DefaultDevice("cuda:99"), DeviceError);
  EXPECT_EQ(default_device(), Device{});
}

TEST(Synchronize, ComputesWhatIsPending) {
  synchronize();
  const std::uint64_t before = work_statistics().kernels;
  const Tensor x = tensor({1.0, 2.0}) + 1;
  EXPECT_EQ(work_statistics().kernels, before);
  synchronize(Device{});
  EXPECT_GT(work_statistics().kernels, before);
  const std::uint64_t after = work_statistics().kernels;
  x.to_vector<float>();
  EXPECT_EQ(work_statistics().kernels, after);
  EXPECT_THROW(synchronize(Device{DeviceKind::cuda, 99}), DeviceError);
}

}  // namespace
}  // namespace lockstep::test
