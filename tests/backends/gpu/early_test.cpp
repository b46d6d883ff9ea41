// What kernels do before earlier launches are over: each lets the next one come, and small ones ask for what lies far
// away. Seen in the texts, which NVRTC takes.
#include <gtest/gtest.h>

#include <string>

#include "backends/gpu/cuda/nvrtc.h"
#include "backends/gpu/dialect.h"
#include "backends/gpu/nvrtc_tried.h"
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
    if (nvrtc_is_tried()) {
      EXPECT_FALSE(nvrtc().compile(cuda_source(launch.text), "sm_90").empty());
    }
  }
  return count;
}

std::size_t times(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(EarlyLaunches, AskForTheWeightsOfAFewRows) {
  EXPECT_EQ(asking(norm(1, 4096)), 1);
  EXPECT_EQ(asking(norm(1, 300)), 1);
  EXPECT_EQ(asking(norm(64, 4096)), 1);
  EXPECT_EQ(asking(norm(133, 4096)), 0);
  EXPECT_EQ(asking(norm(1, 4096), {}), 0);
  const auto inputs = [](std::int64_t rows) {
    return times(render(norm(rows, 4096), kEarly).launches.at(0).text.body, "ASK_FOR(");
  };
  EXPECT_EQ(inputs(1), 2);
  EXPECT_EQ(inputs(64), 1);
}

// Slot 1 is the weights'.
TEST(EarlyLaunches, OfAFewRowsReadEverythingOnceBeforeTheirSums) {
  for (const std::int64_t rows : {1, 64, 133}) {
    const std::string body = render(norm(rows, 4096), kEarly).launches.at(0).text.body;
    const std::size_t sum = body.find("BARRIER()");
    EXPECT_LT(body.find("LOAD4_U32(slot0"), sum) << body;
    EXPECT_EQ(body.find("LOAD4_U32(slot1") < sum, rows <= 132) << body;
    EXPECT_EQ(times(body, "LOAD4_U32("), 2) << body;
  }
}

TEST(EarlyLaunches, OfMoreThanAFewRowsHaveAUnitForEach) {
  const auto fits_twice = [](std::int64_t rows) {
    constexpr std::size_t kUnit = 228 << 10, kOfEach = 1 << 10;  // of an H200, the second taken by the system
    return 2 * (shared_bytes_of(render(norm(rows, 4096), kEarly).launches.at(0).text) + kOfEach) <= kUnit;
  };
  EXPECT_FALSE(fits_twice(32));
  EXPECT_FALSE(fits_twice(132));
  EXPECT_TRUE(fits_twice(31));
  EXPECT_TRUE(fits_twice(133));
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
