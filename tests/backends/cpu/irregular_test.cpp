// Scatters, scans, sorts, updates and Fourier transforms against the reference backend, by equality of bits, on every
// instruction set and for several thread counts. A failure prints its seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include <lockstep/threads.h>

#include "backends/cpu/irregular/irregular.h"
#include "backends/reference/irregular.h"
#include "backends/reference/program.h"
#include "core/fp_state.h"
#include "kernels/scalar.h"
#include "kernels/storage.h"
#include "support/bytes.h"
#include "support/isa_ways.h"
#include "support/long_forms.h"
#include "support/random_view.h"

namespace lockstep {
namespace {

using testing::Random;
using testing::RandomView;

const std::vector<DType> kDTypes = {DType::boolean, DType::u8,  DType::i8,   DType::i16, DType::i32, DType::i64,
                                    DType::u32,     DType::f16, DType::bf16, DType::f32, DType::f32, DType::f64};

using Buffer = std::vector<std::byte>;

/// As random_view, but empty where dims are (a row program reads row values even then).
RandomView random_layout(Random& random, const Shape& dims, DType dtype) {
  return dims.numel() == 0 ? RandomView{View::contiguous(dims), 0} : testing::random_view(random, dims, dtype);
}

/// The buffers of one kernel.
class Buffers {
 public:
  explicit Buffers(Random& random) : random_(random) {}

  int add(DType dtype, std::int64_t elements, bool canonical = false) {
    // A few different values only, now and then: ties.
    std::vector<std::uint64_t> few;
    if (random_.one_in(3)) {
      for (int i = 0; i < 5; ++i) few.push_back(element(dtype, canonical));
    }
    return add(dtype, elements,
               [&](std::int64_t) { return few.empty() ? element(dtype, canonical) : random_.pick(few); });
  }
  int add(DType dtype, std::int64_t elements, const std::function<std::uint64_t(std::int64_t)>& value) {
    Buffer buffer(static_cast<std::size_t>(elements + 1) * size_of(dtype), std::byte{0xab});
    for (std::int64_t i = 0; i < elements; ++i) store_word(dtype, buffer.data(), i, value(i));
    buffers_.push_back(std::move(buffer));
    return static_cast<int>(buffers_.size()) - 1;
  }
  Input input(const Shape& dims, DType dtype) {
    const bool canonical = random_.one_in(2);
    RandomView view = random_layout(random_, dims, dtype);
    view.view.fill = canonical_word(dtype, view.view.fill);
    return {add(dtype, view.elements, canonical), dtype, view.view, canonical};
  }
  Input dense(const Shape& dims, DType dtype) {
    return {add(dtype, dims.numel(), true), dtype, View::contiguous(dims), true};
  }

  struct Result {
    std::vector<Buffer> buffers;
    std::uint32_t fault = 0;
    friend bool operator==(const Result& a, const Result& b) {
      return a.fault == b.fault &&
             std::equal(a.buffers.begin(), a.buffers.end(), b.buffers.begin(), testing::same_bytes);
    }
  };
  template <typename Run> Result run(Run run) const {
    Result result{buffers_};
    std::vector<std::byte*> slots;
    for (Buffer& buffer : result.buffers) slots.push_back(buffer.data());
    std::array<std::uint32_t, 1> faults{};
    run(Binding{slots, parameters, faults});
    result.fault = faults[0];
    return result;
  }

  std::vector<Scalar> parameters;

 private:
  static std::uint64_t canonical_word(DType dtype, std::uint64_t word) {
    if (dtype == DType::f32) return BITS(scalar::operand_f32(FROM_BITS(word)));
    if (dtype == DType::bf16) return BITS(scalar::decode_bf16(static_cast<std::uint32_t>(word))) >> 16;
    return word;
  }
  std::uint64_t element(DType dtype, bool canonical) {
    const std::uint64_t word = testing::random_element(random_, dtype);
    return canonical ? canonical_word(dtype, word) : word;
  }

  Random& random_;
  std::vector<Buffer> buffers_;
};

std::unique_ptr<Executable> compile(const ScatterKernel& kernel, Isa isa, const std::shared_ptr<MemoryPool>& memory) {
  return compile_scatter(kernel, isa, memory);
}
std::unique_ptr<Executable> compile(const ScanKernel& kernel, Isa isa, const std::shared_ptr<MemoryPool>&) {
  return compile_scan(kernel, isa);
}
std::unique_ptr<Executable> compile(const SortKernel& kernel, Isa isa, const std::shared_ptr<MemoryPool>& memory) {
  return compile_sort(kernel, isa, memory);
}
std::unique_ptr<Executable> compile(const UpdateKernel& kernel, Isa isa, const std::shared_ptr<MemoryPool>&) {
  return compile_update(kernel, isa);
}

std::unique_ptr<Executable> compile(const FourierKernel& kernel, Isa isa, const std::shared_ptr<MemoryPool>& memory) {
  return compile_fourier(kernel, isa, memory);
}

std::unique_ptr<Executable> compile(const RowKernel& kernel, Isa isa, const std::shared_ptr<MemoryPool>&) {
  if (auto gather = compile_gather(kernel.program, isa)) return gather;
  return compile_join(kernel.program, isa);
}

template <typename K>::testing::AssertionResult agrees_everywhere(const K& kernel, const Buffers& buffers) {
  const Buffers::Result expected = buffers.run([&](const Binding& binding) {
    const FloatingPointScope scope;
    run_kernel(kernel, binding);
  });
  const auto memory = std::make_shared<MemoryPool>();
  const int threads_before = num_threads();
  ::testing::AssertionResult result = ::testing::AssertionSuccess();
  for (Isa isa : available_isas()) {
    const std::unique_ptr<Executable> executable = compile(kernel, isa, memory);
    for (const int threads : testing::ways_on<int>(isa, {1, 2, 7})) {
      if (!result) break;
      set_num_threads(threads);
      const Buffers::Result actual = buffers.run([&](const Binding& binding) { executable->run(binding); });
      if (actual == expected) continue;
      result = ::testing::AssertionFailure()
               << to_string(Kernel(kernel)) << " on " << name_of(isa) << " with " << threads << " threads";
      if (actual.fault != expected.fault) result << ": fault " << actual.fault;
      for (std::size_t b = 0; b < expected.buffers.size(); ++b) {
        const auto [e, a] =
            std::mismatch(expected.buffers[b].begin(), expected.buffers[b].end(), actual.buffers[b].begin());
        if (e != expected.buffers[b].end()) result << ": buffer " << b << ", byte " << e - expected.buffers[b].begin();
      }
    }
  }
  set_num_threads(threads_before);
  return result;
}

std::int64_t random_size(Random& random, std::int64_t most) {
  static const std::vector<std::int64_t> kBorders = {0,    1,    2,    63,   64,   65,   383,  385,
                                                     1024, 1025, 4095, 4096, 4097, 8192, 20000};
  const std::int64_t size = random.one_in(2) ? random.pick(kBorders) : random.below(300);
  return std::min(size, most);
}

/// Sizes with about `elements` elements, `n` of them along `dim`.
Shape random_shape(Random& random, std::int64_t elements, std::int64_t& n, int& dim) {
  const int rank = 1 + random.below(3);
  dim = random.below(rank);
  n = random_size(random, elements);
  std::int64_t rest = elements / std::max<std::int64_t>(1, n);
  Shape shape;
  for (int d = 0; d < rank; ++d) {
    std::int64_t size = d == dim ? n : 1 + random.below(static_cast<int>(std::max<std::int64_t>(1, rest)));
    if (d != dim) rest /= size;
    shape.push_back(size);
  }
  return shape;
}

/// Moves dim `dim` of the shape's strides to the end, as scans and sorts have them.
Shape last(const Shape& form, int dim) {
  Shape result = form;
  result.erase(dim);
  result.push_back(form[dim]);
  return result;
}

struct RowsOf {
  Shape rows, out_strides, dims;
  std::int64_t n = 0;
};
RowsOf random_rows(Random& random, std::int64_t elements) {
  RowsOf result;
  int dim = 0;
  const Shape shape = random_shape(random, elements, result.n, dim);
  result.dims = last(shape, dim);
  result.rows = result.dims.slice(0, shape.rank() - 1);
  result.out_strides = last(View::contiguous(shape).strides, dim);
  return result;
}

TEST(CpuSort, AgreesWithTheReference) {
  for (std::uint64_t seed = 0; seed < enough_of(300U); ++seed) {
    Random random(seed);
    const RowsOf rows = random_rows(random, random.one_in(8) ? 70000 : 5000);
    Buffers buffers(random);
    const DType dtype = random.pick(kDTypes);
    const Input input = buffers.input(rows.dims, dtype);
    const int out = buffers.add(DType::i64, rows.dims.numel());
    const SortKernel kernel{random.one_in(2), rows.rows, rows.n, input, out, rows.out_strides};
    ASSERT_TRUE(agrees_everywhere(kernel, buffers)) << "seed " << seed << " " << name_of(dtype);
  }
}

TEST(CpuSort, LongRowsOfEveryDType) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t n : {65535, 65537, 200000}) {
      Random random(static_cast<std::uint64_t>(n) + static_cast<std::uint64_t>(dtype));
      Buffers buffers(random);
      const Input input = buffers.dense({n}, dtype);
      const int out = buffers.add(DType::i64, n);
      ASSERT_TRUE(agrees_everywhere(SortKernel{random.one_in(2), {}, n, input, out, {1}}, buffers)) << name_of(dtype);
    }
  }
}

TEST(CpuSort, KeysOfAllBits) {
  for (const DType dtype : {DType::i32, DType::i64, DType::f32, DType::f64, DType::u32}) {
    for (const std::int64_t n : {100, 1000, 40000}) {
      Random random(static_cast<std::uint64_t>(n));
      Buffers buffers(random);
      const int slot = buffers.add(dtype, n, [&](std::int64_t) { return random.next(); });
      const int out = buffers.add(DType::i64, n);
      const Input input{slot, dtype, View::contiguous({n}), false};
      ASSERT_TRUE(agrees_everywhere(SortKernel{random.one_in(2), {}, n, input, out, {1}}, buffers)) << name_of(dtype);
    }
  }
}

const std::vector<ScanOp> kScanOps = {ScanOp::sum, ScanOp::prod,   ScanOp::max,
                                      ScanOp::min, ScanOp::argmax, ScanOp::argmin};

bool gives_positions(ScanOp op) {
  return op == ScanOp::argmax || op == ScanOp::argmin;
}

TEST(CpuScan, AgreesWithTheReference) {
  for (std::uint64_t seed = 0; seed < enough_of(600U); ++seed) {
    Random random(seed);
    const RowsOf rows = random_rows(random, random.one_in(8) ? 70000 : 6000);
    Buffers buffers(random);
    const DType dtype = random.pick(kDTypes);
    const ScanOp op = random.pick(kScanOps);
    const Input input = buffers.input(rows.dims, dtype);
    const int out = buffers.add(gives_positions(op) ? DType::i64 : dtype, rows.dims.numel());
    const ScanKernel kernel{op, rows.rows, rows.n, input, out, rows.out_strides};
    ASSERT_TRUE(agrees_everywhere(kernel, buffers)) << "seed " << seed << " " << name_of(dtype);
  }
}

TEST(CpuScan, LongRowsOnEveryAxis) {
  for (const ScanOp op : kScanOps) {
    for (const DType dtype : {DType::f32, DType::i64}) {
      for (const Shape& shape :
           {Shape{300001}, Shape{70001, 3}, Shape{9000, 70}, Shape{3, 40000}, Shape{2, 5000, 33}}) {
        if (shape.numel() > 300000 && !long_forms() && dtype != DType::f32) continue;
        Random random(static_cast<std::uint64_t>(shape[0]));
        Buffers buffers(random);
        const int dim = shape.rank() == 1 || shape[0] > 3 ? 0 : 1;
        const Input stored = buffers.dense(shape, dtype);
        Input input = stored;
        Shape order;
        for (int d = 0; d < shape.rank(); ++d) order.push_back(d);
        input.view = input.view.permuted(last(order, dim));
        const Shape rows = last(shape, dim).slice(0, shape.rank() - 1);
        const int out = buffers.add(gives_positions(op) ? DType::i64 : dtype, shape.numel());
        const ScanKernel kernel{op, rows, shape[dim], input, out, last(View::contiguous(shape).strides, dim)};
        ASSERT_TRUE(agrees_everywhere(kernel, buffers)) << name_of(dtype) << shape.to_string();
      }
    }
  }
}

TEST(CpuScan, ChunkTotalsAreScannedInTheSameOrder) {
  constexpr std::int64_t n = 4096 * 70 + 5;  // more chunks than a lane has
  for (const DType dtype : {DType::f32, DType::f64}) {
    Random random(7);
    Buffers buffers(random);
    const Input input = buffers.dense({n}, dtype);
    const int out = buffers.add(dtype, n);
    ASSERT_TRUE(agrees_everywhere(ScanKernel{ScanOp::sum, {}, n, input, out, {1}}, buffers));
  }
}

/// Between -1 and 1.
std::uint64_t plain_number(Random& random, DType dtype) {
  const double value = random.below(2'000'001) * 1e-6 - 1;
  return dtype == DType::f64 ? encode(dtype, value) : encode(dtype, static_cast<float>(value));
}

/// A transform of lines along a dim of `shape`, in any layout; `plain`: of numbers between -1 and 1.
FourierKernel random_transform(Random& random, Buffers& buffers, FourierKind kind, std::int64_t n, DType dtype,
                               bool plain) {
  const FourierPlan plan(kind, n);
  const int rank = 1 + random.below(3);
  const int dim = random.below(rank);
  Shape in, out;
  for (int d = 0; d < rank; ++d) {
    const std::int64_t size = n > 400 ? 1 + random.below(3) : 1 + random.below(random.one_in(3) ? 40 : 4);
    in.push_back(d == dim ? plan.inputs() : size);
    out.push_back(d == dim ? plan.outputs() : size);
  }
  // The elements of a line after all lines, parts last.
  const auto ordered = [&](Shape form, const Shape& parts) {
    form = last(form, dim);
    for (const std::int64_t part : parts) form.push_back(part);
    return form;
  };
  Shape out_strides = View::contiguous(out).strides;
  if (plan.writes_pairs()) {
    for (int d = 0; d < rank; ++d) out_strides[d] *= 2;
  }
  const Shape dims = ordered(in, plan.reads_pairs() ? Shape{2} : Shape{});
  FourierKernel kernel;
  kernel.kind = kind;
  kernel.n = n;
  kernel.lines = dims.slice(0, rank - 1);
  if (plain) {
    const RandomView view = random_layout(random, dims, dtype);
    const int slot = buffers.add(dtype, view.elements, [&](std::int64_t) { return plain_number(random, dtype); });
    kernel.input = {slot, dtype, view.view, false};
    kernel.input.view.fill = 0;
  } else {
    kernel.input = buffers.input(dims, dtype);
  }
  kernel.table = buffers.add(dtype, plan.table, [&](std::int64_t) { return plain_number(random, dtype); });
  kernel.out = buffers.add(dtype, out.numel() * (plan.writes_pairs() ? 2 : 1));
  kernel.out_strides = ordered(out_strides, plan.writes_pairs() ? Shape{1} : Shape{});
  buffers.parameters = {{dtype == DType::f64 ? encode(dtype, 0.3) : encode(dtype, 0.3F)}};
  return kernel;
}

const std::vector<FourierKind> kFourierKinds = {FourierKind::forward, FourierKind::inverse, FourierKind::real,
                                                FourierKind::real_inverse};

TEST(CpuFourier, AgreesWithTheReference) {
  const std::vector<std::int64_t> lengths = {1,  2,  3,  4,  5,  6,  7,   8,   9,   10,  11,  12,  14,  15,  16,  24,
                                             25, 30, 32, 49, 60, 64, 100, 126, 127, 128, 131, 200, 254, 256, 262, 360};
  for (std::uint64_t seed = 0; seed < enough_of(400U); ++seed) {
    Random random(seed);
    Buffers buffers(random);
    const DType dtype = random.one_in(2) ? DType::f32 : DType::f64;
    const FourierKernel kernel =
        random_transform(random, buffers, random.pick(kFourierKinds), random.pick(lengths), dtype, !random.one_in(4));
    ASSERT_TRUE(agrees_everywhere(kernel, buffers)) << "seed " << seed << " " << name_of(dtype);
  }
}

/// Also those whose stages are shared by threads.
TEST(CpuFourier, LongLines) {
  for (const FourierKind kind : kFourierKinds) {
    for (const std::int64_t n : {std::int64_t{1} << 15, std::int64_t{9} * 7 * 512, std::int64_t{9973}}) {
      Random random(static_cast<std::uint64_t>(n));
      Buffers buffers(random);
      const DType dtype = n % 2 == 0 ? DType::f32 : DType::f64;
      const FourierKernel kernel = random_transform(random, buffers, kind, n, dtype, true);
      ASSERT_TRUE(agrees_everywhere(kernel, buffers)) << n << " " << name_of(dtype);
    }
  }
}

const std::vector<ScatterOp> kScatterOps = {ScatterOp::set, ScatterOp::add, ScatterOp::prod, ScatterOp::max,
                                            ScatterOp::min};

/// An index into an axis of `size`, rarely outside it.
Input random_index(Random& random, Buffers& buffers, const Shape& dims, std::int64_t size, bool bad) {
  const DType dtype = random.one_in(2) ? DType::i64 : DType::i32;
  RandomView view = random_layout(random, dims, dtype);
  view.view.fill = 0;
  const std::int64_t few = random.one_in(2) ? size : std::min<std::int64_t>(size, 3);
  const int slot = buffers.add(dtype, view.elements, [&](std::int64_t) -> std::uint64_t {
    if (size == 0) return 0;
    if (bad && random.one_in(50)) return encode(dtype, random.one_in(2) ? std::int64_t{-1} : size);
    return static_cast<std::uint64_t>(random.below(static_cast<int>(few)));
  });
  return {slot, dtype, view.view, false};
}

TEST(CpuScatter, AgreesWithTheReference) {
  for (std::uint64_t seed = 0; seed < enough_of(800U); ++seed) {
    Random random(seed);
    std::int64_t axis = 0;
    int dim = 0;
    Buffers buffers(random);
    const DType dtype = random.pick(kDTypes);
    const Shape shape = random_shape(random, random.one_in(8) ? 30000 : 3000, axis, dim);
    // As torch.scatter has it: no larger than self, but along the axis; index_add and the like expand the index.
    Shape space = shape;
    for (int d = 0; d < space.rank(); ++d) {
      if (d != dim && space[d] > 1 && random.one_in(4)) space[d] = 1 + random.below(static_cast<int>(space[d]));
    }
    space[dim] = 1;
    const std::int64_t others = space.numel();
    space[dim] = random_size(random, std::max<std::int64_t>(1, 40000 / std::max<std::int64_t>(1, others)));
    const View dense = View::contiguous(shape);
    ScatterKernel kernel;
    kernel.op = random.pick(kScatterOps);
    kernel.include_self = !random.one_in(3);
    kernel.dtype = dtype;
    kernel.space = space;
    kernel.strides = dense.strides;
    kernel.strides[dim] = 0;
    kernel.stride = dense.strides[dim];
    kernel.size = shape[dim];
    kernel.self = buffers.input(shape, dtype);
    const bool bad = random.one_in(3);
    if (random.one_in(2)) {
      Shape keys = Shape::filled(space.rank(), 1);
      keys[dim] = space[dim];
      kernel.index = random_index(random, buffers, keys, shape[dim], bad);
      kernel.index.view = kernel.index.view.expanded(space);
    } else {
      kernel.index = random_index(random, buffers, space, shape[dim], bad);
    }
    kernel.values = buffers.input(space, dtype);
    kernel.out = buffers.add(dtype, shape.numel());
    ASSERT_TRUE(agrees_everywhere(kernel, buffers))
        << "seed " << seed << " " << name_of(dtype) << " " << shape.to_string() << " from " << space.to_string()
        << " along " << dim;
  }
}

TEST(CpuScatter, ManyContributionsToOnePlace) {
  for (const ScatterOp op : kScatterOps) {
    for (const std::int64_t columns : {1, 9, 300}) {
      const std::int64_t keys = columns == 1 ? 200000 : columns < 100 || long_forms() ? 9000 : 4200;
      Random random(static_cast<std::uint64_t>(columns));
      Buffers buffers(random);
      ScatterKernel kernel;
      kernel.op = op;
      kernel.space = {keys, columns};
      kernel.strides = {0, columns == 1 ? 0 : 1};
      kernel.stride = columns;
      kernel.size = 5;
      kernel.self = buffers.dense({5, columns}, DType::f32);
      const int index =
          buffers.add(DType::i64, keys, [&](std::int64_t i) { return i % 97 == 0 ? random.below(5) : 3; });
      kernel.index = {index, DType::i64, View::contiguous({keys, 1}).expanded({keys, columns}), false};
      kernel.values = buffers.dense(kernel.space, DType::f32);
      kernel.out = buffers.add(DType::f32, 5 * columns);
      ASSERT_TRUE(agrees_everywhere(kernel, buffers)) << columns;
    }
  }
}

TEST(CpuScatter, BucketsOfPlaces) {
  for (const ScatterOp op : kScatterOps) {
    constexpr std::int64_t n = 100000;
    for (const std::int64_t places : {10, 3000, 1000000}) {
      Random random(static_cast<std::uint64_t>(places));
      Buffers buffers(random);
      ScatterKernel kernel;
      kernel.op = op;
      kernel.space = {n};
      kernel.strides = {0};
      kernel.stride = 1;
      kernel.size = places;
      kernel.self = buffers.dense({places}, DType::f32);
      kernel.index = random_index(random, buffers, {n}, places, op == ScatterOp::max);
      kernel.values = buffers.dense({n}, DType::f32);
      kernel.out = buffers.add(DType::f32, places);
      ASSERT_TRUE(agrees_everywhere(kernel, buffers)) << places;
    }
  }
}

TEST(CpuScatter, ReportsABadIndex) {
  for (const std::uint64_t at : {std::uint64_t{3}, ~std::uint64_t{0}}) {
    Random random(1);
    Buffers buffers(random);
    ScatterKernel kernel;
    kernel.space = {1};
    kernel.strides = {0};
    kernel.stride = 1;
    kernel.size = 3;
    kernel.self = buffers.dense({3}, DType::f32);
    kernel.index = {buffers.add(DType::i64, 1, [&](std::int64_t) { return at; }), DType::i64, View::contiguous({1}),
                    false};
    kernel.values = buffers.dense({1}, DType::f32);
    kernel.out = buffers.add(DType::f32, 3);
    const auto executable = compile_scatter(kernel, selected_isa(), std::make_shared<MemoryPool>());
    EXPECT_EQ(buffers.run([&](const Binding& binding) { executable->run(binding); }).fault, 1u);
    EXPECT_TRUE(agrees_everywhere(kernel, buffers));
  }
}

TEST(CpuGather, RowsAgreeWithTheReference) {
  for (std::uint64_t seed = 0; seed < enough_of(100U); ++seed) {
    Random random(seed);
    Buffers buffers(random);
    const DType dtype = random.pick(kDTypes);
    // dim 1 of a source [a, size, columns] by an index [a, keys].
    const std::int64_t a = 1 + random.below(3), size = random.below(20), keys = 1 + random.below(600);
    const std::int64_t columns = 16 + random.below(100);
    Program program;
    program.inner = {a, keys, columns};
    program.inputs.push_back(random_index(random, buffers, {a, keys, 1}, size, random.one_in(2)));
    program.inputs[0].view = program.inputs[0].view.expanded(program.inner);
    program.positions.push_back({0, {size * columns, 0, 1}});
    program.tables.push_back({buffers.add(dtype, a * size * columns), dtype, false, columns, size});
    Instruction index, first, gather;
    index.dtype = program.inputs[0].dtype;
    index.type = compute_type(index.dtype);
    index.index = first.index = gather.index = 0;
    first.kind = Instruction::Kind::iota;
    first.type = ComputeType::i64;
    gather.kind = Instruction::Kind::gather_bits;
    gather.dtype = dtype;
    gather.type = word_type(dtype);
    gather.a = 0;
    gather.b = 1;
    program.code = {index, first, gather};
    const int out = buffers.add(dtype, program.inner.numel());
    program.outputs.push_back({out, dtype, 2, true, View::contiguous(program.inner).strides});
    ASSERT_NE(compile_gather(program, selected_isa()), nullptr);
    ASSERT_TRUE(agrees_everywhere(RowKernel{program}, buffers)) << "seed " << seed << " " << name_of(dtype);
  }
}

/// `sizes` tensors of which each fills its part of dimension `dim`, as cat makes them.
Program join_of(Buffers& buffers, DType dtype, Shape shape, int dim, const std::vector<std::int64_t>& sizes) {
  Program program;
  std::int64_t total = 0, before = 0;
  for (const std::int64_t size : sizes) total += size;
  const auto instruction = [&](Instruction::Kind kind) {
    Instruction made;
    made.kind = kind;
    made.dtype = dtype;
    made.type = word_type(dtype);
    made.op = Op::merge;
    return made;
  };
  int joined = -1;
  for (const std::int64_t size : sizes) {
    shape[dim] = size;
    const View view = *View::contiguous(shape).padded(dim, before, total - before - size, 0);
    before += size;
    Instruction load = instruction(Instruction::Kind::load_bits);
    load.index = static_cast<int>(program.inputs.size());
    program.inputs.push_back({buffers.add(dtype, shape.numel()), dtype, view});
    program.code.push_back(load);
    const int loaded = static_cast<int>(program.code.size()) - 1;
    if (joined >= 0) {
      Instruction merge = instruction(Instruction::Kind::elementwise);
      merge.a = joined;
      merge.b = loaded;
      program.code.push_back(merge);
    }
    joined = static_cast<int>(program.code.size()) - 1;
  }
  shape[dim] = total;
  program.inner = shape;
  program.outputs.push_back({buffers.add(dtype, shape.numel()), dtype, joined, true, View::contiguous(shape).strides});
  return program;
}

TEST(CpuJoin, AgreesWithTheReference) {
  for (std::uint64_t seed = 0; seed < enough_of(100U); ++seed) {
    Random random(seed);
    std::int64_t n = 0;
    int dim = 0;
    Buffers buffers(random);
    const DType dtype = random.pick(kDTypes);
    const Shape shape = random_shape(random, random.one_in(8) ? 30000 : 1000, n, dim);
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(2 + random.below(4)));
    for (std::int64_t& size : sizes) size = 1 + random.below(9);
    const Program program = join_of(buffers, dtype, shape, dim, sizes);
    if (program.inner.numel() == 0) continue;
    ASSERT_NE(compile_join(program, selected_isa()), nullptr) << "seed " << seed;
    ASSERT_TRUE(agrees_everywhere(RowKernel{program}, buffers)) << "seed " << seed << " " << name_of(dtype);
  }
}

TEST(CpuJoin, OtherProgramsAreNotJoins) {
  Random random(1);
  Buffers buffers(random);
  Program program = join_of(buffers, DType::f32, {2, 3}, 1, {3, 4});
  ASSERT_NE(compile_join(program, selected_isa()), nullptr);
  Program gap = program;  // a column that neither tensor fills
  gap.inputs[1].view.bounds[0].lo += 1;
  EXPECT_EQ(compile_join(gap, selected_isa()), nullptr);
  Program values = program;
  values.outputs[0].bits = false;
  EXPECT_EQ(compile_join(values, selected_isa()), nullptr);
  program.code[2].op = Op::bitwise_xor;
  EXPECT_EQ(compile_join(program, selected_isa()), nullptr);
}

TEST(CpuUpdate, AgreesWithTheReference) {
  for (std::uint64_t seed = 0; seed < enough_of(400U); ++seed) {
    Random random(seed);
    std::int64_t n = 0;
    int dim = 0;
    Buffers buffers(random);
    const DType dtype = random.pick(kDTypes);
    const Shape shape = random_shape(random, random.one_in(8) ? 90000 : 3000, n, dim);
    View region = View::contiguous(shape);
    Shape order;
    for (int d = 0; d < shape.rank(); ++d) {
      const std::int64_t size = shape[d];
      if (size > 3 && random.one_in(2)) region = region.sliced(d, size - 1, -2, size / 2);
      if (size > 3 && random.one_in(3)) region = region.sliced(d, 1, 1, region.shape[d] - 1);
      order.insert(random.below(d + 1), d);
    }
    if (random.one_in(2)) region = region.permuted(order);
    UpdateKernel kernel;
    kernel.dtype = dtype;
    kernel.elements = shape.numel();
    kernel.region = region;
    kernel.values = buffers.input(region.shape, dtype);
    kernel.self = buffers.add(dtype, kernel.elements);
    kernel.out = random.one_in(2) ? kernel.self : buffers.add(dtype, kernel.elements);
    ASSERT_TRUE(agrees_everywhere(kernel, buffers)) << "seed " << seed << " " << name_of(dtype) << shape.to_string();
  }
}

}  // namespace
}  // namespace lockstep
