#include "support/habits.h"

#include <cmath>

#include <lockstep/io.h>
#include <lockstep/ops.h>

#include "support/data.h"

namespace lockstep::test {

void expect_as_in_torch(const std::vector<Habit>& habits) {
  static const io::TensorMap truth = io::load_safetensors(repository_data("habits.safetensors").string()).tensors;
  for (const Habit& habit : habits) {
    SCOPED_TRACE(habit.torch);
    const auto found = truth.find(habit.torch);
    if (found == truth.end()) {
      ADD_FAILURE() << "PyTorch's value is missing: run tools/make_test_data.py --only habits";
      continue;
    }
    const Tensor& theirs = found->second;
    const Tensor ours =
        habit.ours(arange(6).to(DType::f32).reshape(2, 3), tensor({{-1.5, 0.5, 2.0}, {1.0, -0.25, 4.0}}),
                   tensor({1.0, 2.0, 3.0}), tensor({1, 0}));
    EXPECT_EQ(ours.dtype(), theirs.dtype());
    ASSERT_EQ(ours.shape(), theirs.shape());
    const std::vector<double> a = ours.to(DType::f64).to_vector<double>();
    const std::vector<double> b = theirs.to(DType::f64).to_vector<double>();
    for (std::size_t k = 0; k < a.size(); ++k) {
      EXPECT_NEAR(a[k], b[k], 1e-6 * std::abs(b[k])) << "element " << k << " of " << ours;
    }
  }
}

}  // namespace lockstep::test
