// What the renderer asks the library for in fast numerics: products, convolutions and attention.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "backends/gpu/render_kernels.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace gpu;
using namespace testing;

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

}  // namespace
}  // namespace v0
}  // namespace lockstep
