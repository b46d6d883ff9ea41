// What launches say they touch, as Metal demands: one memory is two arguments of a launch only where both are read, and
// the texts say so (KernelText::only_read). On a device that computes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include <lockstep/lockstep.h>

#include "backends/gpu/backend.h"
#include "backends/gpu/dialect.h"
#include "support/fake_driver.h"

namespace lockstep {
namespace {

struct Seen {
  int shared = 0;  ///< launches in which two arguments are one memory
  int wrong = 0;   ///< that write there, or whose texts do not say that they only read
};

class Watcher : public test::FakeDriver {
 public:
  explicit Watcher(Seen& seen) : FakeDriver(std::make_shared<test::FakeDevice>()), seen_(seen) {}

  std::unique_ptr<gpu::Module> load(std::span<const std::byte> binary, const gpu::KernelText& kernel) override {
    std::unique_ptr<gpu::Module> module = FakeDriver::load(binary, kernel);
    only_read_[module.get()] = kernel.only_read;
    return module;
  }
  void launch(const gpu::Module& module, std::uint32_t groups, std::span<const std::uint32_t> words,
              std::span<const gpu::Access> accesses) override {
    const std::vector<int>& only_read = only_read_[&module];
    const auto is_read = [&](const gpu::Access& access) {
      return std::find(only_read.begin(), only_read.end(), access.word) != only_read.end();
    };
    for (const gpu::Access& one : accesses) {
      seen_.wrong += one.writes && is_read(one);
      for (const gpu::Access& other : accesses) {
        if (one.word >= other.word || one.address != other.address) continue;
        ++seen_.shared;
        seen_.wrong += !is_read(one) || !is_read(other);
      }
    }
    FakeDriver::launch(module, groups, words, accesses);
  }

 private:
  Seen& seen_;
  std::map<const gpu::Module*, std::vector<int>> only_read_;
};

Tensor given(const Shape& shape, Device device) {
  return Tensor::from(std::vector<float>(static_cast<std::size_t>(shape.numel()), 1.0F), shape, device);
}

// A value and its words, whether somebody holds the value or not.
TEST(OnlyRead, AValueAndItsWordsAreOneMemoryThatIsRead) {
  constexpr Device kDevice{DeviceKind::cuda, 970};
  Seen seen;
  register_backend(std::make_unique<gpu::GpuBackend>(kDevice, std::make_unique<Watcher>(seen), ""));
  for (const bool held : {true, false}) {
    Tensor x = given({300}, kDevice);
    const Tensor words = x.bitcast(DType::i32);
    const Tensor y = where(words > 0, x * 2.0, 1.0);
    const Tensor rows = sum(x.reshape({3, 100}) * words.reshape({3, 100}).to(DType::f32), {1});
    const Tensor product = matmul(x.reshape({10, 30}), words.bitcast(DType::f32).reshape({30, 10}));
    if (!held) x = {};
    for (const Tensor& result : {y, rows, product}) result.eval();
  }
  backend_of(kDevice).finish();
  EXPECT_GE(seen.shared, 6);
  EXPECT_EQ(seen.wrong, 0);
}

// Results that take the memory of an operand are never that of another one, too.
TEST(OnlyRead, WhatIsWrittenInPlaceIsOneArgument) {
  constexpr Device kDevice{DeviceKind::cuda, 971};
  Seen seen;
  register_backend(std::make_unique<gpu::GpuBackend>(kDevice, std::make_unique<Watcher>(seen), ""));
  for (const bool held : {true, false}) {
    Tensor cache = (given({64, 8}, kDevice) * 3.0).eval();
    const Tensor before = held ? cache : Tensor();
    // The same memory under another shape and dtype is what is written there.
    const Tensor same = cache.bitcast(DType::i32).bitcast(DType::f32).narrow(0, 3, 8);
    cache[{Slice{16, 24}}] = same;
    cache = scatter(cache, 0, zeros({1, 8}, {.dtype = DType::i64, .device = kDevice}), same.narrow(0, 0, 1));
    cache.eval();
    cache = (cache * 2.0).eval();
    cache[{Slice{0, 8}}] = given({8, 8}, kDevice);
    cache.eval();
  }
  backend_of(kDevice).finish();
  EXPECT_EQ(seen.wrong, 0);
}

TEST(OnlyRead, MetalsTextsSayIt) {
  gpu::KernelText kernel;
  kernel.words = 6;
  kernel.addresses = {0, 2, 4};
  kernel.only_read = {0, 4};
  const std::string text = gpu::metal_source(kernel, {});
  EXPECT_NE(text.find("    const device uchar* memory0"), std::string::npos) << text;
  EXPECT_NE(text.find("    device uchar* memory1"), std::string::npos) << text;
  EXPECT_NE(text.find("    const device uchar* memory2"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
