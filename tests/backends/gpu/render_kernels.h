// Kernels that the tests of the renderer look at, and whether NVRTC takes what is made of one.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/gpu/cuda/nvrtc.h"
#include "backends/gpu/dialect.h"
#include "backends/gpu/nvrtc_tried.h"
#include "backends/gpu/source.h"
#include "support/long_forms.h"
#include "support/program_builder.h"

namespace lockstep {
inline namespace v0 {
namespace testing {

using namespace gpu;

/// The oldest and the newest, which lack and limit the most; in long forms the one between, too.
inline std::vector<const char*> architectures() {
  return long_forms() ? std::vector{"sm_80", "sm_90", "sm_120"} : std::vector{"sm_80", "sm_120"};
}

inline void expect_compiles(const Kernel& kernel) {
  for (const Launch& launch : render(kernel, {}).launches) {
    const std::string source = cuda_source(launch.text);
    for (const char* architecture : architectures()) {
      try {
        EXPECT_FALSE(nvrtc().compile(source, architecture).empty());
      } catch (const std::exception& error) {
        FAIL() << architecture << ": " << error.what() << source;
      }
    }
  }
}

inline Kernel softmax(std::int64_t rows, std::int64_t n) {
  Random random(1);
  ProgramBuilder builder({rows}, {n});
  const int x = builder.load(
      builder.add_input(builder.add_buffer(random, DType::f16, 16), DType::f16, View::contiguous({rows, n})));
  const int top = builder.reduce(ReduceOp::max, x);
  const int e = builder.op(Op::exp, ComputeType::f32, builder.op(Op::sub, ComputeType::f32, x, top));
  builder.output(builder.op(Op::div, ComputeType::f32, e, builder.reduce(ReduceOp::sum, e)), DType::f16);
  return RowKernel{builder.program()};
}

// x + y less its sum, of rows: two inputs that are read at the same time.
inline Kernel centred(std::int64_t rows, std::int64_t n, int inputs = 2) {
  Random random(1);
  ProgramBuilder builder({rows}, {n});
  const auto input = [&] {
    const int buffer = builder.add_buffer(random, DType::f32, 16);
    return builder.load(builder.add_input(buffer, DType::f32, View::contiguous({rows, n})));
  };
  int sum = input();
  for (int i = 1; i < inputs; ++i) sum = builder.op(Op::add, ComputeType::f32, sum, input());
  builder.output(builder.op(Op::sub, ComputeType::f32, sum, builder.reduce(ReduceOp::sum, sum)), DType::f32);
  return RowKernel{builder.program()};
}

// Every op of every type, as one program each.
inline Kernel one_op(Op op, DType dtype) {
  Random random(1);
  ProgramBuilder builder({}, {64});
  const OpInfo& info = info_of(op);
  const bool moves = info.kind == OpKind::move;
  int operands[3] = {-1, -1, -1};
  for (int i = 0; i < info.arity; ++i) {
    const int input = builder.add_input(builder.add_buffer(random, dtype, 64), dtype, View::contiguous({64}));
    operands[i] = moves ? builder.load_bits(input) : builder.load(input);
  }
  const ComputeType type = moves ? word_type(dtype) : compute_type(dtype);
  const int result = builder.op(op, type, operands[0], operands[1], operands[2]);
  builder.output(result, info.kind == OpKind::comparison ? DType::boolean : dtype, moves);
  return RowKernel{builder.program()};
}

inline Kernel matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
  ContractionKernel kernel;
  kernel.m = {m};
  kernel.n = {n};
  kernel.k = {k};
  kernel.type = compute_type(dtype);
  kernel.a = {0, dtype, View::contiguous({m, k}), false};
  kernel.b_operand = {1, dtype, View::contiguous({k, n}), false};
  Instruction accumulator;
  accumulator.kind = Instruction::Kind::accumulator;
  accumulator.type = kernel.type;
  kernel.epilogue.rows = {m};
  kernel.epilogue.inner = {n};
  kernel.epilogue.code = {accumulator};
  kernel.epilogue.outputs = {{2, dtype, 0, false, {n, 1}}};
  return kernel;
}

inline Kernel blocked_matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, const View& a,
                             const View& b) {
  Kernel kernel = matmul(m, n, k, dtype);
  auto& contraction = std::get<ContractionKernel>(kernel);
  contraction.numerics = Numerics::blocked;
  contraction.a.view = a;
  contraction.b_operand.view = b;
  return kernel;
}

}  // namespace testing
}  // namespace v0
}  // namespace lockstep
