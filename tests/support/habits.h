// Lines of Python that use PyTorch beside ours, compared with PyTorch's values (tests/data/habits.safetensors, which
// tools/make_test_data.py makes of the lines that it finds in the tests).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep::test {

/// A line of Python, and ours. Each line has its own x [2, 3] = 0 ... 5, y [2, 3] of mixed signs, v = [1, 2, 3] and
/// i = [1, 0].
struct Habit {
  const char* torch;
  Tensor (*ours)(Tensor x, Tensor y, Tensor v, Tensor i);
};
/// HABIT("x.sum(1)", return x.sum(1)): both sides as they are typed.
#define HABIT(torch, ...)                                                                   \
  {                                                                                         \
    torch,                                                                                  \
        []([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor y, [[maybe_unused]] Tensor v, \
           [[maybe_unused]] Tensor i) -> Tensor { __VA_ARGS__; }                            \
  }

/// Expects of each habit PyTorch's dtype, shape and values (1e-6 relative).
void expect_as_in_torch(const std::vector<Habit>& habits);

}  // namespace lockstep::test
