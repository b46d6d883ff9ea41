// What kernels do before earlier launches are over: each lets the next one come, and small ones ask for what lies far
// away. Seen in the texts, which NVRTC takes.
#include <gtest/gtest.h>

#include <string>

#include "backends/gpu/cuda/nvrtc.h"
#include "backends/gpu/dialect.h"
#include "backends/gpu/source.h"
#include "support/program_builder.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace gpu;
using testing::ProgramBuilder;
using testing::Random;

const RenderLimits kEarly{.units = 132, .shared_bytes = 227 << 10, .copies_to_shared = true};

// x * w / sum(x * x), of each row.
Kernel norm(std::int64_t rows, std::int64_t n) {
  Random random(1);
  ProgramBuilder builder({rows}, {n});
  const auto input = [&](const View& view) {
    return builder.load(builder.add_input(builder.add_buffer(random, DType::f32, 16), DType::f32, view));
  };
  const int x = input(View::contiguous({rows, n}));
  const int w = input(View{.shape = {rows, n}, .strides = {0, 1}});
  const int sum = builder.reduce(ReduceOp::sum, builder.op(Op::mul, ComputeType::f32, x, x));
  const int scaled = builder.op(Op::div, ComputeType::f32, x, sum);
  builder.output(builder.op(Op::mul, ComputeType::f32, scaled, w), DType::f32);
  return RowKernel{builder.program()};
}

Kernel step(std::int64_t batches, DType dtype) {
  AttentionKernel kernel;
  kernel.numerics = Numerics::exact;
  kernel.masked = true;
  kernel.sizes = attention_sizes({batches, 32, 1, 128}, {batches, 8, 256, 128}, Numerics::exact);
  kernel.query = {.slot = 0, .dtype = dtype, .view = View::contiguous({batches, 32, 1, 128})};
  kernel.key = {.slot = 1, .dtype = dtype, .view = View::contiguous({batches, 8, 256, 128})};
  kernel.value = {.slot = 2, .dtype = dtype, .view = View::contiguous({batches, 8, 256, 128})};
  kernel.mask = {.slot = 3, .dtype = DType::boolean, .view = View::contiguous({batches, 32, 1, 256})};
  kernel.out = 4;
  return kernel;
}

// How many launches of a kernel ask for something, all of it before they wait.
int asking(const Kernel& kernel, const RenderLimits& limits = kEarly) {
  int count = 0;
  for (const Launch& launch : render(kernel, limits).launches) {
    const std::string& body = launch.text.body;
    const std::size_t last = body.rfind("ASK_FOR(");
    if (last == std::string::npos) continue;
    ++count;
    EXPECT_LT(last, body.find("AFTER_EARLIER()")) << body;
    // It reads nothing that others might not have written yet.
    EXPECT_TRUE(launch.early.empty());
    if (nvrtc().is_usable()) {
      EXPECT_FALSE(nvrtc().compile(cuda_source(launch.text), "sm_90").empty());
    }
  }
  return count;
}

TEST(EarlyLaunches, AskForTheWeightsOfOneRow) {
  EXPECT_EQ(asking(norm(1, 4096)), 1);
  EXPECT_EQ(asking(norm(1, 300)), 1);
  EXPECT_EQ(asking(norm(64, 4096)), 0);
  EXPECT_EQ(asking(norm(1, 4096), {}), 0);
}

TEST(EarlyLaunches, AskForKeysAndValuesWhereAllWorkgroupsBeginAtOnce) {
  EXPECT_EQ(asking(step(1, DType::f32)), 2);
  EXPECT_EQ(asking(step(4, DType::bf16)), 2);
  EXPECT_EQ(asking(step(64, DType::f32)), 0);
  EXPECT_EQ(asking(step(1, DType::f32), {}), 0);
}

TEST(EarlyLaunches, LetTheNextOneComeBeforeTheyWait) {
  const std::string source = cuda_source(render(norm(1, 300), kEarly).launches.at(0).text);
  EXPECT_LT(source.find("griddepcontrol.launch_dependents"), source.find("griddepcontrol.wait"));
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
