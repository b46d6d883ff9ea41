// What tests of tensors share: equality of bits, the devices to run on, windows of other sizes, random inputs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/ops.h>

#include "graph/window.h"

namespace lockstep {
inline namespace v0 {

/// Equal dtype, shape and bits; every NaN of a dtype counts as one value.
::testing::AssertionResult bits_equal(const char* a_text, const char* b_text, const Tensor& a, const Tensor& b);
#define EXPECT_BITS_EQ(a, b) EXPECT_PRED_FORMAT2(::lockstep::bits_equal, a, b)

/// Runs with other limits of the window, then restores them.
class WithWindow {
 public:
  explicit WithWindow(graph::WindowLimits limits) : before_(graph::window_limits()) { graph::set_window_limits(limits); }
  ~WithWindow() { graph::set_window_limits(before_); }
  WithWindow(const WithWindow&) = delete;
  WithWindow& operator=(const WithWindow&) = delete;

 private:
  graph::WindowLimits before_;
};
inline constexpr graph::WindowLimits kEveryNode{1, 1, 1};
inline constexpr graph::WindowLimits kUnbounded{std::size_t{1} << 40, 1 << 30, std::size_t{1} << 60};

/// Values of every kind for a dtype: ordinary ones and, if asked for, NaN, infinities, signed zeros, subnormals.
Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t seed, Device device = {}, bool special = false);

/// Blocks of random codes and scales like those of weights; `special`: among them scales of zero, subnormal ones, the
/// largest, infinities and NaN. The last size holds whole blocks.
std::vector<std::byte> random_blocks(const Shape& shape, Encoding encoding, std::uint64_t seed, bool special = false);
Tensor random_packed(const Shape& shape, Encoding encoding, std::uint64_t seed, Device device = {},
                     bool special = false);

/// The devices that tests run on: ref, cpu, and what LOCKSTEP_TEST_DEVICES names, e.g. "cuda:0,vulkan:0".
std::vector<Device> test_devices();

/// Computes `compute(device)` on every device of test_devices(), once node by node and once in one window, and expects
/// equal bits; on the reference in one of these ways, but in long forms. Returns the value.
Tensor same_everywhere(const std::function<Tensor(Device)>& compute);

/// Expects `call` to throw ErrorType with a message that contains every one of `parts`.
template <typename ErrorType>
void expect_error(const std::function<void()>& call, const std::vector<std::string>& parts) {
  try {
    call();
    FAIL() << "no error was thrown";
  } catch (const ErrorType& error) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << "\nis not in\n" << error.what();
    }
  }
}

}  // namespace v0
}  // namespace lockstep
