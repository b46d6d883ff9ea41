// The texts that the renderer makes: deterministic, free of sizes, and accepted by NVRTC for several generations of
// GPUs where NVRTC is installed (no GPU is needed).
#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

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

constexpr const char* kArchitectures[] = {"sm_80", "sm_90", "sm_120"};

void expect_compiles(const Kernel& kernel) {
  for (const Launch& launch : render(kernel, {}).launches) {
    const std::string source = cuda_source(launch.text);
    for (const char* architecture : kArchitectures) {
      try {
        EXPECT_FALSE(nvrtc().compile(source, architecture).empty());
      } catch (const std::exception& error) {
        FAIL() << architecture << ": " << error.what() << source;
      }
    }
  }
}

Kernel softmax(std::int64_t rows, std::int64_t n) {
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
Kernel centred(std::int64_t rows, std::int64_t n, int inputs = 2) {
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
Kernel one_op(Op op, DType dtype) {
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

Kernel matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
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
  const std::set<std::string> own = {"UNROLL_TEXT", "PARTS_U8", "PARTS_U16", "JOINED_U8",  "JOINED_U16", "JOINED_BF16",
                                     "JOINED_F16",  "LOAD4",    "STORE4",    "STORE_BF16", "STORE_F16",  "NARROW"};
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
                               "LARGER_BF16_PAIR", "SMALLER_BF16_PAIR", "NEAR_OTHER"}) {
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

Kernel blocked_matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, const View& a, const View& b) {
  Kernel kernel = matmul(m, n, k, dtype);
  auto& contraction = std::get<ContractionKernel>(kernel);
  contraction.numerics = Numerics::blocked;
  contraction.a.view = a;
  contraction.b_operand.view = b;
  return kernel;
}

// Digits of both operands, however they lie, and their products.
TEST(GpuRender, BlockedProductsUseIntegerTilesWhereTheDeviceHasThem) {
  RenderLimits limits{.units = 132, .shared_bytes = 227 << 10, .integer_tiles = true};
  View padded = View::contiguous({300, 200});
  padded.bounds.push_back({.offset = -3, .m = {0, 1}, .lo = 0, .hi = 190});
  View turned{.shape = {200, 256}, .strides = {1, 200}};
  View odd{.shape = {200, 256}, .strides = {513, 2}, .offset = 1};
  struct Case {
    DType dtype;
    View a, b;
  };
  for (const Case& c :
       {Case{DType::bf16, View::contiguous({300, 200}), View::contiguous({200, 256})}, Case{DType::f16, padded, turned},
        Case{DType::f32, View{.shape = {300, 200}, .strides = {1, 300}}, odd}}) {
    const Rendered rendered = render(blocked_matmul(300, 256, 200, c.dtype, c.a, c.b), limits);
    ASSERT_EQ(rendered.launches.size(), 3U);
    EXPECT_EQ(rendered.scratch_bytes, (3U + 2U) * 2U * (32768U + 512U));
    EXPECT_TRUE(rendered.launches[2].text.integer_tiles);
    EXPECT_EQ(rendered.launches[2].groups, 6U);
    for (const Launch& launch : rendered.launches) {
      EXPECT_LE(shared_bytes_of(launch.text), limits.shared_bytes);
      if (!nvrtc().is_usable()) continue;
      const std::string source = cuda_source(launch.text);
      try {
        EXPECT_FALSE(nvrtc().compile(source, "sm_90a").empty());
      } catch (const std::exception& error) {
        FAIL() << error.what() << source;
      }
    }
  }
  limits.integer_tiles = false;
  const Kernel plain = blocked_matmul(300, 256, 200, DType::bf16, View::contiguous({300, 200}), turned);
  for (const Launch& launch : render(plain, limits).launches) EXPECT_FALSE(launch.text.integer_tiles);
}

// The same digits and one text for what comes after, with the instruction that the device has.
TEST(GpuRender, BlockedProductsUseTheProductsOfBytesThatTheDeviceHas) {
  struct Case {
    const char* name;
    const char* architecture;
    RenderLimits limits;
    const char* instruction;
  };
  Arithmetic dots;
  dots.byte_dots = true;
  const Case cases[] = {
      {"Ampere",
       "sm_80",
       {.units = 108, .shared_bytes = 163 << 10, .copies_to_shared = true, .byte_fragments = true, .arithmetic = dots},
       "MULTIPLY_32_BYTES"},
      {"Turing",
       "sm_75",
       {.units = 68, .shared_bytes = 64 << 10, .byte_fragments = true, .arithmetic = dots},
       "MULTIPLY_32_BYTES"},
      {"before", "sm_75", {.units = 20, .shared_bytes = 48 << 10, .arithmetic = dots}, "DOT4"},
      {"the smallest", "sm_75", {.units = 2, .shared_bytes = 32 << 10, .arithmetic = dots}, "DOT4"},
  };
  View padded = View::contiguous({300, 2000});
  padded.bounds.push_back({.offset = -3, .m = {0, 1}, .lo = 0, .hi = 1990});
  const View turned{.shape = {2000, 40}, .strides = {1, 2000}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    for (const std::int64_t rows : {300, 20}) {
      padded.shape[0] = rows;
      const Rendered rendered = render(blocked_matmul(rows, 40, 2000, DType::bf16, padded, turned), c.limits);
      // Few tiles share k, as far as there are units.
      const bool shares = c.limits.units >= 2 * (rows == 300 ? 3 : 1);
      ASSERT_EQ(rendered.launches.size(), shares ? 4U : 3U);
      EXPECT_NE(rendered.launches[2].text.body.find(c.instruction), std::string::npos);
      EXPECT_EQ(rendered.launches[2].groups, rows == 300 ? (shares ? 6U : 3U) : (shares ? 2U : 1U));
      EXPECT_EQ(rendered.forms.size(), 2U);
      for (const Launch& launch : rendered.launches) {
        EXPECT_LE(shared_bytes_of(launch.text), c.limits.shared_bytes);
        EXPECT_EQ(launch.text.copies, &launch == &rendered.launches[2] && c.limits.copies_to_shared);
        if (!nvrtc().is_usable()) continue;
        const std::string source = cuda_source(launch.text);
        try {
          EXPECT_FALSE(nvrtc().compile(source, c.architecture).empty());
        } catch (const std::exception& error) {
          FAIL() << error.what() << source;
        }
      }
    }
  }
  const RenderLimits without{.units = 20, .shared_bytes = 48 << 10};
  for (const Launch& launch : render(blocked_matmul(300, 40, 2000, DType::bf16, padded, turned), without).launches) {
    EXPECT_EQ(launch.text.body.find("DOT4"), std::string::npos);
  }
}

// Digits of each operand, and a launch for the result or for each gradient; what lies otherwise is copied before.
TEST(GpuRender, BlockedAttentionKeepsNoScores) {
  AttentionKernel kernel{.numerics = Numerics::blocked,
                         .sizes = attention_sizes({2, 6, 300, 64}, {2, 3, 200, 64}, Numerics::blocked),
                         .causal = true};
  kernel.query = {.slot = 0, .dtype = DType::bf16, .view = View::contiguous({2, 6, 300, 64})};
  kernel.key = {.slot = 1, .dtype = DType::bf16, .view = View::contiguous({2, 3, 200, 64})};
  kernel.value = kernel.key;
  kernel.out = 2;
  const RenderLimits limits{.units = 132};
  const Rendered forward = render(kernel, limits);
  ASSERT_EQ(forward.launches.size(), 4U);
  EXPECT_EQ(forward.launches[3].groups, 12U * 5U);
  // Two bytes for each element of an operand that is filled up to 128 positions, and scales.
  const std::size_t digits = 2 * 64 * 128 * (12 * 3 + 2 * 6 * 2);
  EXPECT_GT(forward.scratch_bytes, digits);
  EXPECT_LT(forward.scratch_bytes, digits + digits / 8);

  kernel.gradients = true;
  kernel.made = 3;
  kernel.upstream = kernel.query;
  kernel.value.view = View{.shape = {2, 3, 200, 64}, .strides = {38400, 12800, 1, 200}};
  const Rendered backward = render(kernel, limits);
  ASSERT_EQ(backward.launches.size(), 8U);
  for (const Launch& launch : backward.launches) {
    EXPECT_LE(shared_bytes_of(launch.text), std::size_t{48} << 10);
    EXPECT_LE(launch.text.words, 1000);
  }
  EXPECT_FALSE(backward.launches[0].text.attention_tiles);
  EXPECT_TRUE(backward.launches[7].text.attention_tiles);
  if (nvrtc().is_usable()) {
    EXPECT_FALSE(nvrtc().compile(cuda_source(forward.launches[0].text), "sm_80").empty());
  }
}

Kernel q8_product(std::int64_t rows, std::int64_t columns, std::int64_t length, Encoding encoding) {
  Kernel kernel = matmul(rows, columns, length, DType::f32);
  auto& contraction = std::get<ContractionKernel>(kernel);
  contraction.numerics = Numerics::q8;
  contraction.b_operand.view = View{.shape = {length, columns}, .strides = {1, length}};
  contraction.b_operand.encoding = encoding;
  return kernel;
}

// Tiles that keep all units busy; no more workgroups than run at once.
TEST(GpuRender, CodesOfManyRowsAreMultipliedByTensorCoresWhereTheDeviceHasThem) {
  RenderLimits limits{.units = 132, .shared_bytes = 227 << 10, .copies_to_shared = true, .byte_products = true};
  struct Case {
    std::int64_t rows, columns;
  };
  for (const Encoding encoding : {Encoding::q8_0, Encoding::q4_k, Encoding::q6_k, Encoding::q2_k}) {
    for (const Case& c : {Case{9, 4096}, Case{30, 4096}, Case{64, 14336}, Case{64, 1024}, Case{100, 8192},
                          Case{2000, 1024}, Case{2000, 4096}}) {
      SCOPED_TRACE(std::string(info_of(encoding).name) + " " + std::to_string(c.rows));
      const Rendered rendered = render(q8_product(c.rows, c.columns, 2048, encoding), limits);
      ASSERT_EQ(rendered.launches.size(), 2U);
      const Launch& launch = rendered.launches[1];
      EXPECT_TRUE(launch.text.byte_products);
      EXPECT_GE(launch.groups, 120U);
      EXPECT_LE(launch.groups, 132U);
      EXPECT_LE(shared_bytes_of(launch.text), limits.shared_bytes);
    }
  }
  const auto is_plain = [&](const Kernel& kernel) {
    return !render(kernel, limits).launches.back().text.byte_products;
  };
  EXPECT_TRUE(is_plain(q8_product(64, 4096, 288, Encoding::q8_0)));
  EXPECT_TRUE(is_plain(q8_product(8, 4096, 512, Encoding::q8_0)));
  limits.shared_bytes = 99 << 10;
  for (const Encoding encoding : {Encoding::q4_0, Encoding::q8_0, Encoding::q6_k, Encoding::q2_k}) {
    EXPECT_FALSE(is_plain(q8_product(64, 4096, 512, encoding)));
  }
  limits.byte_products = false;
  EXPECT_TRUE(is_plain(q8_product(64, 4096, 512, Encoding::q8_0)));
}

// Hopper's warpgroups multiply what keeps its units busy, of encodings that threads take apart where they lie.
TEST(GpuRender, CodesOfManyRowsAreMultipliedByWarpgroupsWhereTheDeviceHasThem) {
  RenderLimits limits{
      .units = 132, .shared_bytes = 227 << 10, .copies_to_shared = true, .integer_tiles = true, .byte_products = true};
  const auto launch_of = [&](std::int64_t rows, std::int64_t columns, std::int64_t length, Encoding encoding) {
    return render(q8_product(rows, columns, length, encoding), limits).launches.back();
  };
  struct Case {
    std::int64_t rows, columns, length;
  };
  for (const Encoding encoding : {Encoding::q4_0, Encoding::q4_1, Encoding::q8_0, Encoding::q4_k, Encoding::q5_k}) {
    for (const Case& c : {Case{64, 4096, 4096}, Case{33, 14336, 256}, Case{2048, 4096, 14336}}) {
      SCOPED_TRACE(std::string(info_of(encoding).name) + " " + std::to_string(c.rows));
      const Launch launch = launch_of(c.rows, c.columns, c.length, encoding);
      EXPECT_TRUE(launch.text.warpgroup_bytes);
      EXPECT_GE(launch.groups, 66U);
      EXPECT_LE(launch.groups, 132U);
      EXPECT_LE(shared_bytes_of(launch.text), limits.shared_bytes);
      if (nvrtc().is_usable()) {
        EXPECT_FALSE(nvrtc().compile(cuda_source(launch.text), "sm_90a").empty());
      }
    }
  }
  EXPECT_FALSE(launch_of(64, 4096, 4096, Encoding::q6_k).text.warpgroup_bytes);
  EXPECT_FALSE(launch_of(32, 4096, 4096, Encoding::q4_0).text.warpgroup_bytes);
  EXPECT_FALSE(launch_of(64, 1024, 4096, Encoding::q4_0).text.warpgroup_bytes);
  EXPECT_FALSE(launch_of(64, 4096, 288, Encoding::q4_0).text.warpgroup_bytes);
  limits.integer_tiles = false;
  EXPECT_FALSE(launch_of(64, 4096, 4096, Encoding::q4_0).text.warpgroup_bytes);
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

// What lies as matrices is multiplied as it lies, by the device's library.
TEST(GpuRender, FastProductsReadWhatTheLibraryCan) {
  const RenderLimits limits{.units = 132};
  const auto product_of = [&](const View& a, const View& b) {
    Kernel kernel = blocked_matmul(300, 256, 200, DType::bf16, a, b);
    std::get<ContractionKernel>(kernel).numerics = Numerics::fast;
    return render(kernel, limits);
  };
  const View turned{.shape = {200, 256}, .strides = {1, 200}};
  const Rendered direct = product_of(View::contiguous({300, 200}), turned);
  ASSERT_EQ(direct.launches.size(), 1U);
  EXPECT_EQ(direct.scratch_bytes, kLibraryWorkBytes);
  const Launch& launch = direct.launches[0];
  ASSERT_TRUE(launch.call.has_value());
  const auto* const product = std::get_if<LibraryProduct>(&*launch.call);
  ASSERT_NE(product, nullptr);
  // Column-major: the result's columns, neighbours in memory, are the library's rows.
  EXPECT_EQ(product->dtype, DType::bf16);
  EXPECT_EQ(product->result, DType::bf16);
  EXPECT_EQ(product->rows, 256);
  EXPECT_EQ(product->columns, 300);
  EXPECT_EQ(product->length, 200);
  EXPECT_TRUE(product->a.transposed);
  EXPECT_EQ(product->a.leading, 200);
  EXPECT_FALSE(product->b.transposed);
  EXPECT_EQ(product->b.leading, 200);
  EXPECT_EQ(product->out.leading, 256);
  EXPECT_EQ(launch.words.size(), 8U);

  // What has borders, or begins between multiples of 16 bytes, is copied first.
  View padded = View::contiguous({300, 200});
  padded.bounds.push_back({.offset = -3, .m = {0, 1}, .lo = 0, .hi = 190});
  const View odd{.shape = {200, 256}, .strides = {513, 2}, .offset = 1};
  const Rendered copied = product_of(padded, odd);
  ASSERT_EQ(copied.launches.size(), 3U);
  EXPECT_FALSE(copied.launches[0].call.has_value());
  EXPECT_FALSE(copied.launches[1].call.has_value());
  EXPECT_TRUE(copied.launches[2].call.has_value());
  EXPECT_EQ(copied.scratch_bytes, 300 * 200 * 2 + 64 + 200 * 256 * 2 + kLibraryWorkBytes);
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
  if (nvrtc().is_usable()) expect_compiles(kernel);

  // Tiny elements are compared as they are, and zero only at the end: not by `maximum`.
  Program given = builder.program();
  given.inputs[0].canonical = false;
  EXPECT_NE(render(RowKernel{given}, {.units = 132}).launches[0].text.body.find("BARRIER"), std::string::npos);
}

const LibraryProduct& product_at(const Rendered& rendered, std::size_t launch) {
  return std::get<LibraryProduct>(*rendered.launches[launch].call);
}

// A convolution of several groups or pictures, channels first, is one product of all windows, whose results its
// epilogue puts in order.
TEST(GpuRender, FastProductsOfWindowsCopyThem) {
  ContractionKernel kernel = std::get<ContractionKernel>(matmul(64, 49, 576, DType::f16));
  kernel.numerics = Numerics::fast;
  kernel.b = {8};
  kernel.a.view = View{.shape = {8, 64, 576}, .strides = {0, 576, 1}};
  kernel.b_operand.view = View{.shape = {8, 576, 49}, .strides = {28224, 49, 1}};
  kernel.epilogue.rows = {8, 64};
  kernel.epilogue.outputs[0].strides = {3136, 49, 1};
  const Rendered rendered = render(kernel, {.units = 132});
  ASSERT_EQ(rendered.launches.size(), 3U);
  ASSERT_TRUE(rendered.launches[1].call.has_value());
  EXPECT_EQ(product_at(rendered, 1).batches, 1);
  EXPECT_EQ(product_at(rendered, 1).rows, 8 * 49);
  EXPECT_EQ(product_at(rendered, 1).result, DType::f16);
  for (const int own : {0, 2}) EXPECT_FALSE(rendered.launches[static_cast<std::size_t>(own)].call.has_value());

  // Aligned ones are multiplied where they are, one by one.
  kernel.n = {56};
  kernel.b_operand.view = View{.shape = {8, 576, 56}, .strides = {32256, 56, 1}};
  kernel.epilogue.inner = {56};
  kernel.epilogue.outputs[0].strides = {3584, 56, 1};
  const Rendered direct = render(kernel, {.units = 132});
  ASSERT_EQ(direct.launches.size(), 1U);
  EXPECT_EQ(product_at(direct, 0).batches, 8);
  EXPECT_EQ(product_at(direct, 0).b.batch_stride, 0);
}

// A bias of the columns is the library's to add, which then stores results as they are wanted.
TEST(GpuRender, FastProductsAddTheirBias) {
  ContractionKernel kernel = std::get<ContractionKernel>(matmul(256, 192, 128, DType::bf16));
  kernel.numerics = Numerics::fast;
  Program& epilogue = kernel.epilogue;
  const int rank = epilogue.rank();
  View along = View::contiguous(epilogue.rows);
  for (const std::int64_t size : epilogue.inner) along.shape.push_back(size);
  along.strides = Shape::filled(rank, 0);
  along.strides[rank - 1] = 1;
  using Kind = Instruction::Kind;
  epilogue.inputs.push_back({.slot = 3, .dtype = DType::f32, .view = along});
  const auto round = [](int of, DType from) {
    return Instruction{.kind = Kind::cast, .type = ComputeType::f32, .dtype = DType::bf16, .from = from, .a = of};
  };
  epilogue.code = {{.kind = Kind::accumulator},
                   {.kind = Kind::load, .index = static_cast<int>(epilogue.inputs.size()) - 1},
                   round(1, DType::f32),
                   {.kind = Kind::elementwise, .op = Op::add, .a = 0, .b = 2},
                   round(3, DType::f32)};
  epilogue.outputs[0].value = 4;
  epilogue.outputs[0].dtype = DType::bf16;
  const Rendered rendered = render(kernel, {.units = 132});
  ASSERT_EQ(rendered.launches.size(), 2U);  // the bias in bf16, and the product
  EXPECT_TRUE(product_at(rendered, 1).bias);
  EXPECT_EQ(product_at(rendered, 1).rows, 192);
  EXPECT_EQ(product_at(rendered, 1).result, DType::bf16);
  EXPECT_EQ(rendered.launches[1].patches.size(), 5U);

  // Not one that is not rounded, nor one of the rows.
  const auto has_bias = [&] {
    const Rendered other = render(kernel, {.units = 132});
    return std::any_of(other.launches.begin(), other.launches.end(), [](const Launch& launch) {
      return launch.call.has_value() && std::get<LibraryProduct>(*launch.call).bias;
    });
  };
  epilogue.code[3].b = 1;
  EXPECT_FALSE(has_bias());
  epilogue.code[3].b = 2;
  std::swap(epilogue.inputs.back().view.strides[rank - 1], epilogue.inputs.back().view.strides[rank - 2]);
  EXPECT_FALSE(has_bias());
}

/// What convolutions of 32 x 12 x 10 pictures, 3 x 3, and their gradients are to a kernel; `x` lies channels last.
struct ConvolutionViews {
  static constexpr std::int64_t kImages = 4, kChannels = 32, kOutputs = 64, kHeight = 12, kWidth = 10;
  std::int64_t stride;
  Shape outputs{(kHeight - 1) / stride + 1, (kWidth - 1) / stride + 1};

  // [1, N, out..., C, 3, 3] of x [N, H, W, C], padded by 1.
  View windows(std::int64_t channels, const Shape& size) const {
    View view = View::contiguous({1, kImages, size[0], size[1], channels});
    for (const int d : {2, 3}) view = *view.padded(d, 1, 1, 0);
    for (const int d : {2, 3}) view = view.windowed(d, 3, outputs[d - 2], stride, 1);
    return view;
  }
};

// The library is asked for a convolution where a contraction of windows is one, and reads and writes channels last.
// Attention reads what lies at multiples of 16 bytes as it is, copies the rest, and walks over batches whose gradients
// need too much working memory at once.
TEST(GpuRender, FastAttentionIsTheLibrarys) {
  AttentionKernel kernel;
  kernel.sizes = {.batches = 3, .heads = 4, .key_heads = 2, .rows = 32, .keys = 40, .width = 64};
  const auto operand = [](int slot, std::int64_t heads, std::int64_t positions, std::int64_t offset) {
    View view = View::contiguous({3, positions, heads, 64}).permuted({0, 2, 1, 3});
    view.offset = offset;
    return Input{.slot = slot, .dtype = DType::bf16, .view = view};
  };
  kernel.query = operand(0, 4, 32, 8);
  kernel.key = operand(1, 2, 40, 0);
  kernel.value = operand(2, 2, 40, 3);  // not at such a multiple
  kernel.out = 3;
  const Rendered forward = render(kernel, {});
  ASSERT_EQ(forward.launches.size(), 2u);
  EXPECT_FALSE(forward.launches[0].call.has_value());
  const auto& call = std::get<LibraryAttention>(*forward.launches[1].call);
  EXPECT_EQ(call.query, (LibraryAttention::Steps{32 * 4 * 64, 64, 4 * 64}));
  const std::vector<Patch>& words = forward.launches[1].patches;
  ASSERT_EQ(words.size(), 7u);  // query, key, value, results, an f32 for each query; working memory, the scale
  EXPECT_EQ(words[0].offset, 16);
  EXPECT_EQ(words[2].kind, Patch::Kind::scratch);
  EXPECT_EQ(words[4].index, 3);
  EXPECT_EQ(words[4].offset, 2 * kernel.sizes.queries());
  EXPECT_EQ(words[6].kind, Patch::Kind::scalar);

  kernel.gradients = true;
  kernel.made = 4;
  kernel.value.view.offset = 0;
  kernel.upstream = operand(5, 4, 32, 0);
  EXPECT_EQ(render(kernel, {}).launches.size(), 1u);
  // 4 heads of 8192 x 8192 scores of 2 bytes are more than half of what is given at once.
  kernel.sizes.rows = kernel.sizes.keys = 8192;
  kernel.query = operand(0, 4, 8192, 0);
  kernel.key = operand(1, 2, 8192, 0);
  kernel.value = operand(2, 2, 8192, 0);
  kernel.upstream = operand(5, 4, 8192, 0);
  const Rendered parts = render(kernel, {});
  ASSERT_EQ(parts.launches.size(), 3u);
  EXPECT_LE(parts.scratch_bytes, std::size_t{1} << 30);
  EXPECT_EQ(parts.launches[2].patches[0].offset, 2 * 4 * 8192 * 64 * 2);  // the third batch's query
}

TEST(GpuRender, FastConvolutionsAreTheLibrarys) {
  using Kind = LibraryConvolution::Kind;
  using V = ConvolutionViews;
  const RenderLimits limits{.units = 132};
  for (const std::int64_t stride : {1, 2}) {
    const V views{.stride = stride};
    const Shape& out = views.outputs;
    const auto kernel_of = [&](const Shape& m, const Shape& n, const Shape& k, const View& a, const View& b) {
      ContractionKernel kernel = std::get<ContractionKernel>(matmul(16, 16, 16, DType::bf16));
      kernel.numerics = Numerics::fast;
      kernel.b = {1};
      kernel.m = m;
      kernel.n = n;
      kernel.k = k;
      kernel.a.view = a;
      kernel.b_operand.view = b;
      kernel.epilogue.rows = {1};
      for (const std::int64_t size : m) kernel.epilogue.rows.push_back(size);
      kernel.epilogue.inner = n;
      Shape all = kernel.epilogue.rows;
      for (const std::int64_t size : n) all.push_back(size);
      kernel.epilogue.outputs[0].strides = View::contiguous(all).strides;
      return kernel;
    };
    const auto call_of = [](const Rendered& rendered, std::size_t launch) {
      return std::get<LibraryConvolution>(*rendered.launches.at(launch).call);
    };

    // Forward: weights [O, C, 3, 3] are put in the library's order, and the result is written where it belongs.
    const View weights = View::contiguous({1, V::kOutputs, V::kChannels, 3, 3});
    const Kernel forward =
        kernel_of({V::kImages, out[0], out[1]}, {V::kOutputs}, {V::kChannels, 3, 3},
                  views.windows(V::kChannels, {V::kHeight, V::kWidth}).permuted({0, 1, 2, 3, 4, 5, 6}),
                  weights.permuted({0, 2, 3, 4, 1}));
    const Rendered rendered = render(forward, limits);
    ASSERT_EQ(rendered.launches.size(), 2U) << stride;
    const LibraryConvolution call = call_of(rendered, 1);
    EXPECT_EQ(call.kind, Kind::forward);
    EXPECT_EQ(call.dtype, DType::bf16);
    EXPECT_EQ(call.images, V::kImages);
    EXPECT_EQ(call.channels, V::kChannels);
    EXPECT_EQ(call.outputs, V::kOutputs);
    EXPECT_EQ(call.size, (Shape{V::kHeight, V::kWidth}));
    EXPECT_EQ(call.out_size, out);
    EXPECT_EQ(call.kernel, (Shape{3, 3}));
    EXPECT_EQ(call.stride, (Shape{stride, stride}));
    EXPECT_EQ(call.dilation, (Shape{1, 1}));
    EXPECT_EQ(call.before, (Shape{1, 1}));
    EXPECT_EQ(call.after, (Shape{1, 1}));
    EXPECT_EQ(rendered.launches[1].patches[0].kind, Patch::Kind::address);
    EXPECT_EQ(rendered.launches[1].patches[1].kind, Patch::Kind::scratch);
    EXPECT_EQ(rendered.launches[1].patches[2].kind, Patch::Kind::address);

    // The gradient of the input: windows of y with zeros between its elements, taps backwards.
    View back = View::contiguous({V::kImages, V::kOutputs, out[0], out[1]});
    for (const int d : {2, 3}) {
      back = *back.dilated(d, stride, 0);
      const std::int64_t size = d == 2 ? V::kHeight : V::kWidth;
      back = *back.padded(d, 1, size + 1 - back.shape[d], 0);
    }
    for (const int d : {2, 3}) {
      back = back.windowed(d, 3, d == 2 ? V::kHeight : V::kWidth, 1, 1);
      back = back.sliced(back.rank() - 1, 2, -1, 3);
    }
    Shape leading{1};
    for (const std::int64_t size : back.shape) leading.push_back(size);
    const Kernel input_gradient =
        kernel_of({V::kImages, V::kHeight, V::kWidth}, {V::kChannels}, {V::kOutputs, 3, 3},
                  back.reshaped(leading)->permuted({0, 1, 3, 4, 2, 5, 6}), weights.permuted({0, 1, 3, 4, 2}));
    const Rendered of_input = render(input_gradient, limits);
    ASSERT_EQ(of_input.launches.size(), 3U) << stride;  // y lies channels first here, and is copied, too
    const LibraryConvolution back_call = call_of(of_input, 2);
    EXPECT_EQ(back_call.kind, Kind::input_gradient);
    EXPECT_EQ(back_call.size, (Shape{V::kHeight, V::kWidth}));
    EXPECT_EQ(back_call.out_size, out);
    EXPECT_EQ(back_call.stride, (Shape{stride, stride}));
    EXPECT_EQ(back_call.before, (Shape{1, 1}));
    EXPECT_EQ(back_call.channels, V::kChannels);
    EXPECT_EQ(back_call.outputs, V::kOutputs);
    EXPECT_EQ(of_input.launches[2].patches[0].kind, Patch::Kind::address);

    // That of the weights: its result is put in the weights' order by a kernel of ours.
    const View y = View::contiguous({1, V::kImages, out[0], out[1], V::kOutputs});
    const Kernel weight_gradient =
        kernel_of({V::kOutputs}, {V::kChannels, 3, 3}, {V::kImages, out[0], out[1]}, y.permuted({0, 4, 1, 2, 3}),
                  views.windows(V::kChannels, {V::kHeight, V::kWidth}));
    const Rendered of_weights = render(weight_gradient, limits);
    ASSERT_EQ(of_weights.launches.size(), 2U) << stride;
    const LibraryConvolution weight_call = call_of(of_weights, 0);
    EXPECT_EQ(weight_call.kind, Kind::weight_gradient);
    EXPECT_EQ(weight_call.size, (Shape{V::kHeight, V::kWidth}));
    EXPECT_EQ(weight_call.out_size, out);
    EXPECT_EQ(weight_call.kernel, (Shape{3, 3}));

    // Channels that are no multiple of what the library reads at once are filled up with zeros.
    const Kernel narrow =
        kernel_of({V::kImages, out[0], out[1]}, {V::kOutputs}, {3, 3, 3}, views.windows(3, {V::kHeight, V::kWidth}),
                  View::contiguous({1, V::kOutputs, 3, 3, 3}).permuted({0, 2, 3, 4, 1}));
    const Rendered filled = render(narrow, limits);
    ASSERT_EQ(filled.launches.size(), 3U);
    EXPECT_EQ(call_of(filled, 2).channels, 8);
  }
}

// What only looks like windows is a product: dimensions that are not windows, and windows that do not overlap.
TEST(GpuRender, FastProductsOfManyDimensionsAreProducts) {
  ContractionKernel kernel = std::get<ContractionKernel>(matmul(64, 64, 64, DType::bf16));
  kernel.numerics = Numerics::fast;
  kernel.m = {8, 16, 16};
  kernel.k = {64, 4, 4};
  kernel.a.view = View::contiguous({8, 16, 16, 64, 4, 4});
  kernel.b_operand.view = View::contiguous({64, 4, 4, 64});
  kernel.epilogue.rows = kernel.m;
  kernel.epilogue.outputs[0].strides = View::contiguous({8, 16, 16, 64}).strides;
  const Rendered rendered = render(kernel, {.units = 132});
  ASSERT_EQ(rendered.launches.size(), 1U);
  EXPECT_EQ(product_at(rendered, 0).length, 1024);

  View patches = View::contiguous({8, 64, 64, 64});
  for (const int d : {1, 2}) patches = patches.windowed(d, 4, 16, 4, 1);
  kernel.a.view = patches;
  const Rendered apart = render(kernel, {.units = 132});
  std::vector<LibraryCall> calls;
  for (const Launch& launch : apart.launches) {
    if (launch.call) calls.push_back(*launch.call);
  }
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<LibraryProduct>(calls[0]));
}

// Few outputs of a long k: units take parts of it, and a last launch adds its blocks.
TEST(GpuRender, IntegerTilesShareALongK) {
  const RenderLimits limits{.units = 132, .shared_bytes = 227 << 10, .integer_tiles = true};
  const Kernel kernel =
      blocked_matmul(64, 576, 20000, DType::bf16, View::contiguous({64, 20000}), View::contiguous({20000, 576}));
  const Rendered rendered = render(kernel, limits);
  ASSERT_EQ(rendered.launches.size(), 4U);
  constexpr std::size_t kBlocks = 157;
  EXPECT_EQ(rendered.scratch_bytes, kBlocks * ((1 + 5) * (32768U + 512U) + 5 * 65536U));
  EXPECT_EQ(rendered.launches[2].groups, 5U * 18U);  // 9 blocks each
  if (!nvrtc().is_usable()) return;
  for (const std::size_t i : {2U, 3U}) {
    EXPECT_FALSE(nvrtc().compile(cuda_source(rendered.launches[i].text), "sm_90a").empty());
  }
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
