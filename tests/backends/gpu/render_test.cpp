// The texts that the renderer makes: deterministic, free of sizes, and accepted by NVRTC for several generations of
// GPUs where NVRTC is installed (no GPU is needed).
#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "backends/gpu/render_kernels.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace gpu;
using namespace testing;

TEST(GpuRender, SizesStayOutOfTheText) {
  for (const auto& [a, b] : {std::pair{softmax(10, 700), softmax(1000, 900)},
                             {softmax(3, 5000), softmax(4, 9000)},
                             {matmul(10, 20, 30, DType::f32), matmul(12, 33, 22, DType::f32)},
                             {matmul(4100, 4200, 600, DType::f32), matmul(6100, 5000, 1200, DType::f32)}}) {
    const Rendered first = render(a, {});
    const Rendered second = render(b, {});
    ASSERT_EQ(first.launches.size(), second.launches.size());
    EXPECT_EQ(cuda_source(first.launches[0].text), cuda_source(second.launches[0].text));
  }
}

// Devices take vectors at multiples of their size only, and some say nothing where they are not.
TEST(GpuRender, VectorsAreStoredWhereTheyAreAligned) {
  UpdateKernel kernel;
  kernel.elements = 1024;
  kernel.self = 0;
  kernel.out = 2;
  kernel.region = View::contiguous({64});
  kernel.values = {1, DType::f32, View::contiguous({64}), false};
  const auto stores_vectors = [&](std::int64_t offset) {
    kernel.region.offset = offset;
    return render(kernel, {}).launches.back().text.body.find("STORE4_U32") != std::string::npos;
  };
  EXPECT_TRUE(stores_vectors(0));
  EXPECT_TRUE(stores_vectors(16));
  EXPECT_FALSE(stores_vectors(1));
  EXPECT_FALSE(stores_vectors(2));
}

/// The macros and type names that a text defines, but for those that only other macros use.
std::set<std::string> words_defined_by(const std::string& text) {
  const std::set<std::string> own = {"UNROLL_TEXT", "PARTS_U8",          "PARTS_U16", "JOINED_U8",   "JOINED_U16",
                                     "JOINED_BF16", "JOINED_F16",        "LOAD4",     "STORE4",      "STORE_BF16",
                                     "STORE_F16",   "nearest_half_pair", "NARROW",    "nearest_pair"};
  std::set<std::string> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::string name;
    if (line.starts_with("#define ")) name = line.substr(8, line.find_first_of(" (", 8) - 8);
    if (line.starts_with("typedef ")) name = line.substr(line.rfind(' ') + 1, line.size() - line.rfind(' ') - 2);
    if (!name.empty() && !own.contains(name)) words.insert(name);
  }
  return words;
}

TEST(GpuRender, DialectsDefineTheSameWords) {
  KernelText kernel;
  kernel.words = 1;
  std::set<std::string> cuda = words_defined_by(cuda_source(kernel));
  for (const char* of_pairs : {"ADD_BF16_PAIR", "NEAREST_BF16_PAIR", "FLUSHED_BF16_PAIR", "CANONICAL_BF16_PAIR",
                               "LARGER_BF16_PAIR", "SMALLER_BF16_PAIR", "NEAR_OTHER", "LOAD2_U32", "STORE2_U16",
                               "STORE2_U32", "STORE2_BF16", "STORE2_SURE_BF16", "STORE2_F16", "STORE2_SURE_F16"}) {
    EXPECT_EQ(cuda.erase(of_pairs), 1) << of_pairs << " is for devices with bf16_pairs";
  }
  EXPECT_EQ(words_defined_by(vulkan_source(kernel, {}, 32)), cuda);
  std::set<std::string> metal = words_defined_by(metal_source(kernel, {}));
  for (const char* of_doubles : {"DOUBLE", "BITS64", "FROM_BITS64", "FMA64", "SQRT64"}) {
    EXPECT_FALSE(metal.contains(of_doubles)) << "Metal has no doubles";
    metal.insert(of_doubles);
  }
  EXPECT_EQ(metal, cuda);
}

// Metal binds memory as numbered buffers, at most 31, the first of which is the parameters.
// Its word is taken as it is: any NaN would be stored.
TEST(GpuRender, WhatIsRoundedToBf16AndStoredHasTheOneNan) {
  Random random(1);
  const auto text = [&](bool stored) {
    ProgramBuilder builder({}, {64});
    const int x =
        builder.load(builder.add_input(builder.add_buffer(random, DType::f32, 64), DType::f32, View::contiguous({64})));
    Instruction cast;
    cast.kind = Instruction::Kind::cast;
    cast.from = cast.dtype = DType::bf16;
    cast.a = builder.op(Op::neg, ComputeType::f32, x);
    const int rounded = builder.add(cast);
    if (stored) builder.output(rounded, DType::bf16);
    builder.output(builder.op(Op::sqrt, ComputeType::f32, rounded), DType::bf16);
    const Rendered rendered = render(RowKernel{builder.program()}, {});
    return rendered.launches[0].text.body;
  };
  EXPECT_NE(text(false).find(" ANY_ROUND_BF16("), std::string::npos) << text(false);
  EXPECT_EQ(text(true).find("ANY_ROUND_BF16("), std::string::npos) << text(true);
  EXPECT_NE(text(true).find(" ROUND_BF16("), std::string::npos) << text(true);
}

TEST(GpuRender, MemoryIsNumberedOncePerBuffer) {
  for (const Kernel& kernel : {softmax(100, 5000), softmax(100, 700), matmul(64, 64, 9000, DType::f32)}) {
    for (const Launch& launch : render(kernel, {}).launches) {
      const std::vector<int>& addresses = launch.text.addresses;
      EXPECT_LT(addresses.size(), kMetalBuffers);
      std::size_t patched = 0;
      for (const Patch& patch : launch.patches) {
        if (patch.kind == Patch::Kind::scalar) continue;
        ++patched;
        EXPECT_NE(std::find(addresses.begin(), addresses.end(), patch.word), addresses.end());
      }
      EXPECT_EQ(patched, addresses.size());
    }
  }
}

TEST(GpuRender, WorkgroupsAreAsSmallAsTheDeviceAsks) {
  SortKernel sort;
  sort.rows = {3};
  sort.n = 500;
  sort.input = {0, DType::f32, View::contiguous({3, 500}), false};
  sort.out = 1;
  sort.out_strides = {500, 1};
  ScanKernel scan;
  scan.rows = {3};
  scan.n = 5000;
  scan.input = {0, DType::f32, View::contiguous({3, 5000}), false};
  scan.out = 1;
  scan.out_strides = {5000, 1};
  FourierKernel transform;
  transform.n = 1009;
  transform.lines = {3};
  transform.input = {0, DType::f32, View::contiguous({3, 1009, 2}), false};
  transform.table = 1;
  transform.out = 2;
  transform.out_strides = {2018, 2, 1};
  const Kernel kernels[] = {softmax(10, 7),
                            softmax(10, 700),
                            softmax(3, 50000),
                            one_op(Op::exp, DType::f32),
                            matmul(100, 200, 1000, DType::f32),
                            matmul(4096, 4, 4096, DType::f32),
                            sort,
                            scan,
                            transform};
  for (const int threads : {256, 128, kLeastThreads}) {
    for (const Kernel& kernel : kernels) {
      for (const Launch& launch : render(kernel, {.threads = threads}).launches) {
        EXPECT_LE(launch.text.threads, threads) << to_string(kernel);
      }
    }
  }
}

TEST(GpuRender, RowsAreCopiedToSharedMemoryWhereTheDeviceCan) {
  const Kernel kernel = centred(100, 4096, 3);  // fewer are waited for in registers
  const RenderLimits limits{.shared_bytes = 228 << 10, .copies_to_shared = true};
  const Launch copying = render(kernel, limits).launches.at(0);
  EXPECT_TRUE(copying.text.copies);
  EXPECT_NE(copying.text.body.find("COPY_TO_SHARED"), std::string::npos);
  EXPECT_LE(3 * shared_bytes_of(copying.text), limits.shared_bytes);
  for (const RenderLimits& other : {RenderLimits{.shared_bytes = 228 << 10}, RenderLimits{.copies_to_shared = true}}) {
    const Launch plain = render(kernel, other).launches.at(0);
    EXPECT_FALSE(plain.text.copies);
    EXPECT_EQ(plain.text.body.find("COPY_TO_SHARED"), std::string::npos);
  }
}

// Many workgroups run together only where each has little shared memory: rows of 4096 are summed step by step there.
TEST(GpuRender, LongRowsAreStagedInPartsWhereNothingTellsOfSharedMemory) {
  const Kernel kernel = centred(100, 4096, 2);
  const KernelText parts = render(kernel, {}).launches.at(0).text;
  const KernelText whole = render(kernel, {.shared_bytes = 228 << 10, .copies_to_shared = true}).launches.at(0).text;
  EXPECT_LE(shared_bytes_of(parts), 8u << 10);
  EXPECT_GE(shared_bytes_of(whole), 16u << 10);
  // Where there is room for whole rows, what was staged is not held in registers, too.
  EXPECT_NE(whole.body.find("float back"), std::string::npos);
  EXPECT_EQ(parts.body.find("float back"), std::string::npos);
}

// A prompt's attention is one launch where every unit has a tile of 128 rows, and two workgroups fit a unit.
TEST(GpuRender, ExactAttentionOfManyRowsIsOneLaunch) {
  const auto launches = [](std::int64_t rows, std::int64_t width, const RenderLimits& limits) {
    AttentionKernel kernel;
    kernel.numerics = Numerics::exact;
    kernel.causal = true;
    kernel.sizes = attention_sizes({1, 32, rows, width}, {1, 8, rows, width}, Numerics::exact);
    kernel.query = {.slot = 0, .dtype = DType::f32, .view = View::contiguous({1, 32, rows, width})};
    kernel.key = {.slot = 1, .dtype = DType::f32, .view = View::contiguous({1, 8, rows, width})};
    kernel.value = {.slot = 2, .dtype = DType::f32, .view = View::contiguous({1, 8, rows, width})};
    kernel.out = 3;
    return render(kernel, limits).launches;
  };
  const RenderLimits limits{.units = 132, .shared_bytes = 227 << 10, .copies_to_shared = true};
  for (const std::int64_t width : {64, 128}) {
    const std::vector<Launch> whole = launches(2048, width, limits);
    ASSERT_EQ(whole.size(), 1u);
    EXPECT_EQ(whole[0].groups, 2u * 132);
    EXPECT_LE(2 * (shared_bytes_of(whole[0].text) + 1024), std::size_t{228} << 10);
    EXPECT_EQ(launches(384, width, limits).size(), 3u);
    EXPECT_EQ(launches(2048, width, {.units = 132, .shared_bytes = 227 << 10}).size(), 3u);
  }
  EXPECT_EQ(launches(2048, 96, limits).size(), 3u);
}

// A step's products with a matrix in 16 bits stream through shared memory where there is enough of it, and of columns.
TEST(GpuRender, MatricesOfSixteenBitsStreamWhereTheDeviceCan) {
  const auto product = [](std::int64_t rows, std::int64_t columns, std::int64_t length, DType dtype, int slot = 1) {
    Kernel kernel = matmul(rows, columns, length, DType::f32);
    auto& contraction = std::get<ContractionKernel>(kernel);
    contraction.b_operand.dtype = dtype;
    contraction.b_operand.slot = slot;
    contraction.b_operand.view = View{.shape = {length, columns}, .strides = {1, length}};
    return kernel;
  };
  const RenderLimits limits{.units = 132, .shared_bytes = 227 << 10, .copies_to_shared = true};
  const auto streams = [](const Rendered& rendered) {
    return rendered.launches.size() == 1 &&
           rendered.launches[0].text.body.find("COPIES_ARRIVED_BUT") != std::string::npos;
  };
  struct Case {
    std::int64_t rows, columns, length;
    DType dtype;
  };
  for (const Case& c :
       {Case{1, 4096, 4096, DType::bf16}, Case{1, 1024, 4096, DType::bf16}, Case{4, 14336, 4096, DType::f16},
        Case{1, 4096, 14336, DType::bf16}, Case{1, 808, 2816, DType::f16}, Case{2, 128256, 2048, DType::bf16},
        Case{3, 2048, 768, DType::bf16}}) {
    SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.columns << " x " << c.length);
    const Rendered rendered = render(product(c.rows, c.columns, c.length, c.dtype), limits);
    ASSERT_TRUE(streams(rendered));
    const Launch& launch = rendered.launches[0];
    EXPECT_TRUE(launch.text.copies);
    EXPECT_EQ(launch.early.size(), 1U);
    EXPECT_GE(launch.groups, 99U);
    EXPECT_LE(shared_bytes_of(launch.text) * static_cast<std::size_t>(launch.text.groups_per_unit),
              limits.shared_bytes);
  }
  EXPECT_FALSE(streams(render(product(5, 4096, 4096, DType::bf16), limits)));
  EXPECT_FALSE(streams(render(product(1, 4096, 4096, DType::f32), limits)));
  EXPECT_FALSE(streams(render(product(1, 4096, 4096, DType::bf16, 0), limits)));  // not read early, then
  EXPECT_FALSE(streams(render(product(1, 4100, 4096, DType::bf16), limits)));
  EXPECT_FALSE(streams(render(product(1, 768, 4096, DType::bf16), limits)));
  EXPECT_FALSE(streams(render(product(1, 4096, 4000, DType::bf16), limits)));
  EXPECT_FALSE(streams(render(product(4, 4096, 14336, DType::bf16), limits)));
  EXPECT_FALSE(streams(render(product(1, 4096, 4096, DType::bf16), {.units = 132, .shared_bytes = 227 << 10})));
  EXPECT_FALSE(streams(
      render(product(1, 4096, 4096, DType::bf16), {.units = 132, .shared_bytes = 99 << 10, .copies_to_shared = true})));
}

// Pixels of channels that lie side by side: neighbouring threads have neighbouring channels, not pixels.
TEST(GpuRender, MeansOfFewPixelsAreReadByChannels) {
  const auto body_of = [](std::int64_t pixels) {
    Random random(1);
    ProgramBuilder builder({256, 2048}, {pixels});
    const View view{.shape = {256, 2048, pixels}, .strides = {pixels * 2048, 1, 2048}};
    const int input = builder.add_input(builder.add_buffer(random, DType::bf16, 16), DType::bf16, view, true);
    builder.output(builder.reduce(ReduceOp::sum, builder.load(input)), DType::bf16);
    return render(Kernel{RowKernel{builder.program()}}, {.units = 132}).launches.at(0).text.body;
  };
  EXPECT_NE(body_of(49).find("int slices = "), std::string::npos);
  EXPECT_EQ(body_of(9).find("int slices = "), std::string::npos);
}

// The maximum of windows is a thread's own work, eight channels at a time where these lie side by side.
TEST(GpuRender, MaxPoolsReadNeighbours) {
  View windows = View::contiguous({4, 12, 10, 64});
  for (const int d : {1, 2}) windows = *windows.padded(d, 1, 1, 0xff80);
  for (const int d : {1, 2}) windows = windows.windowed(d, 3, d == 1 ? 6 : 5, 2, 1);
  Random random(1);
  ProgramBuilder builder({4, 6, 5, 64}, {3, 3});
  const int input = builder.add_input(builder.add_buffer(random, DType::bf16, 16), DType::bf16, windows, true);
  builder.output(builder.reduce(ReduceOp::max, builder.load(input)), DType::bf16);
  const Kernel kernel = RowKernel{builder.program()};
  const Rendered rendered = render(kernel, {.units = 132});
  ASSERT_EQ(rendered.launches.size(), 1U);
  const std::string& body = rendered.launches[0].text.body;
  EXPECT_EQ(body.find("BARRIER"), std::string::npos) << body;
  EXPECT_NE(body.find("LOAD8_U16"), std::string::npos) << body;
  EXPECT_NE(body.find("STORE8"), std::string::npos) << body;
  if (nvrtc_is_tried()) expect_compiles(kernel);

  // Tiny elements are compared as they are, and zero only at the end: not by `maximum`.
  Program given = builder.program();
  given.inputs[0].canonical = false;
  EXPECT_NE(render(RowKernel{given}, {.units = 132}).launches[0].text.body.find("BARRIER"), std::string::npos);
}

TEST(GpuRender, SharedMemoryFitsTheSmallestDevice) {
  const RenderLimits limits;  // 32 KB
  for (const DType dtype : {DType::f32, DType::bf16, DType::i64}) {
    for (const Kernel& kernel : {matmul(300, 4, 516, dtype), matmul(600, 3, 516, dtype), matmul(1, 8192, 1024, dtype),
                                 matmul(64, 64, 9000, dtype), matmul(4096, 4096, 600, dtype)}) {
      for (const Launch& launch : render(kernel, limits).launches) {
        EXPECT_LE(shared_bytes_of(launch.text), limits.shared_bytes) << to_string(kernel);
      }
    }
  }
}

class Nvrtc : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc().is_usable()) GTEST_SKIP() << nvrtc().problem();
  }
};

TEST_F(Nvrtc, CompilesRowsOfEveryLength) {
  for (const std::int64_t n : {1, 10, 64, 200, 4096, 5000}) expect_compiles(softmax(100, n));
}

TEST_F(Nvrtc, CompilesContractionsOfEveryType) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i8, DType::i64}) {
    expect_compiles(matmul(100, 100, 100, dtype));
  }
}

TEST_F(Nvrtc, CompilesContractionsOfEveryForm) {
  expect_compiles(matmul(4096, 4096, 600, DType::f32));  // large tiles
  expect_compiles(matmul(64, 64, 9000, DType::f32));     // blocks of k in parallel
  expect_compiles(matmul(1, 8192, 1024, DType::f32));    // a vector times a matrix
  expect_compiles(matmul(600, 3, 516, DType::f32));      // a matrix times vectors
  expect_compiles(matmul(10, 20, 30, DType::f32));       // a thread per output
}

TEST_F(Nvrtc, CompilesEveryOpOfEveryType) {
  const struct {
    DType dtype;
    unsigned type;
  } types[] = {{DType::f32, kTypeF32}, {DType::f64, kTypeF64}, {DType::i16, kTypeInt}, {DType::i64, kTypeInt}};
  for (const auto& [dtype, type] : types) {
    for (int i = 0; i < kOpCount; ++i) {
      const Op op = static_cast<Op>(i);
      if ((info_of(op).types & type) == 0) continue;
      const Rendered rendered = render(one_op(op, dtype), {});
      const std::string source = cuda_source(rendered.launches[0].text);
      try {
        EXPECT_FALSE(nvrtc().compile(source, "sm_90").empty());
      } catch (const std::exception& error) {
        ADD_FAILURE() << info_of(op).name << " " << name_of(dtype) << ": " << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
