// What tests of optimisers share: three parameters of torch's cases (tools/test_data/optim.py), and comparing steps.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>

#include "support/data.h"
#include "support/tensors.h"

namespace lockstep::test {

inline const io::SafetensorsReader& optim_cases() {
  static const io::SafetensorsReader reader(repository_data("optim.safetensors").string());
  return reader;
}

inline Tensor recorded(const std::string& name, DType dtype = DType::f64, Device device = {}) {
  return optim_cases().load(name).to(dtype).to(device);
}

struct Cells : nn::Module {
  explicit Cells(DType dtype = DType::f64, Device device = {})
      : a(*this, "a", recorded("start.a", dtype, device)),
        b(*this, "b", recorded("start.b", dtype, device)),
        c(*this, "c", recorded("start.c", dtype, device)) {}

  /// The gradients that the cases have in a step; b has none where `skip_b`.
  void set_gradients(int step, bool skip_b = false) {
    for (auto& [name, parameter] : named_parameters()) {
      nn::Parameter cell = parameter;
      cell.zero_grad();
      if (skip_b && name == "b") continue;
      cell.set_grad(recorded("grad." + std::to_string(step) + "." + name, cell.dtype(), cell.device()));
    }
  }

  nn::Parameter a, b, c;
};

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(optim::ParameterGroups)>;

template <typename Optimizer, typename Options> MakeOptimizer maker(Options options) {
  return [options](optim::ParameterGroups groups) { return std::make_unique<Optimizer>(std::move(groups), options); };
}

inline void expect_near(const Tensor& actual, const Tensor& expected, double relative, const std::string& what) {
  const auto a = actual.to(DType::f64).to_vector<double>();
  const auto e = expected.to(DType::f64).to_vector<double>();
  ASSERT_EQ(a.size(), e.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], e[i], relative * std::max(1.0, std::abs(e[i]))) << what << " element " << i;
  }
}

/// Runs twelve steps in f64 and f32 against torch's, and on all devices for equal bits.
inline void expect_torchs_steps(const std::string& name, const MakeOptimizer& make, bool skipping = false) {
  const auto skip = [&](int step) { return skipping && (step == 3 || step == 4 || step == 8); };
  for (const DType dtype : {DType::f64, DType::f32}) {
    Cells cells(dtype);
    const auto optimizer = make(cells.parameters());
    for (int step = 1; step <= 12; ++step) {
      cells.set_gradients(step, skip(step));
      optimizer->step();
      if (step != 1 && step != 2 && step != 5 && step != 12) continue;
      for (const auto& [key, parameter] : cells.named_parameters()) {
        const std::string what = name + "." + std::to_string(step) + "." + key;
        expect_near(parameter.tensor(), recorded(what), dtype == DType::f64 ? 1e-12 : 2e-6, what);
      }
    }
  }
  same_everywhere([&](Device device) {
    Cells cells(DType::f32, device);
    const auto optimizer = make(cells.parameters());
    for (int step = 1; step <= 3; ++step) {
      cells.set_gradients(step, skip(step));
      optimizer->step();
    }
    return cat({detach(cells.a).flatten(), detach(cells.b).flatten(), detach(cells.c).flatten()}, 0);
  });
}

}  // namespace lockstep::test
