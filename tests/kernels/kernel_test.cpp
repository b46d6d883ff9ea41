#include "kernels/kernel.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

Instruction elementwise(Op op) {
  Instruction step;
  step.kind = Instruction::Kind::elementwise;
  step.op = op;
  return step;
}

Instruction reduce(ReduceOp op) {
  Instruction step;
  step.kind = Instruction::Kind::reduce;
  step.reduce = op;
  return step;
}

Instruction cast(DType from, DType to) {
  Instruction step;
  step.kind = Instruction::Kind::cast;
  step.from = from;
  step.dtype = to;
  return step;
}

TEST(OpInfo, ComesFromItsRow) {
  const OpInfo& info = info_of(Op::gelu_erf);
  EXPECT_STREQ(info.name, "gelu_erf");
  EXPECT_EQ(info.arity, 1);
  EXPECT_EQ(info.kind, OpKind::arithmetic);
  EXPECT_EQ(info.types, static_cast<unsigned>(kTypeF32 | kTypeF64));
  EXPECT_EQ(info_of(Op::where).arity, 3);
  EXPECT_EQ(info_of(Op::where).kind, OpKind::move);
  EXPECT_EQ(info_of(Op::lt).kind, OpKind::comparison);
  EXPECT_STREQ(name_of(ReduceOp::argmin), "argmin");
}

TEST(KernelToString, ListsWhatIsComputed) {
  RowKernel kernel;
  kernel.program.rows = {8, 8};
  kernel.program.inner = {4096};
  kernel.program.code = {
      Instruction{},         reduce(ReduceOp::max), elementwise(Op::sub),        elementwise(Op::exp),
      reduce(ReduceOp::sum), elementwise(Op::div),  cast(DType::f16, DType::f16)};
  EXPECT_EQ(to_string(kernel), "row[64x4096] max sub exp sum div");
  kernel.program.code.push_back(cast(DType::f32, DType::i32));
  EXPECT_EQ(to_string(kernel), "row[64x4096] max sub exp sum div to_i32");
}

TEST(KernelToString, ShowsAContractionAndItsEpilogue) {
  ContractionKernel kernel;
  kernel.m = {64};
  kernel.n = {56, 56};
  kernel.k = {3, 7, 7};
  EXPECT_EQ(to_string(kernel), "contract[b1 m64 n3136 k147 f32]");
  kernel.epilogue.code = {elementwise(Op::mul), elementwise(Op::add), elementwise(Op::gelu_erf)};
  EXPECT_EQ(to_string(kernel), "contract[b1 m64 n3136 k147 f32] + mul add gelu_erf");
}

}  // namespace
}  // namespace lockstep
