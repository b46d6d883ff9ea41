// Packed right operands of contractions on the CPU against the reference backend, by equality of bits: every
// instruction set, the ways that sizes choose between, and views that the graph does not make (fill values, inserted
// zeros).
#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/threads.h>

#include "backends/cpu/contraction/contraction.h"
#include "backends/reference/contraction.h"
#include "support/bytes.h"
#include "support/isa_ways.h"
#include "support/long_forms.h"
#include "support/random_numbers.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_floats(std::int64_t count, std::mt19937_64& random) {
  Bytes bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(testing::normal_number(random));
    const auto* const first = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), first, first + sizeof value);
  }
  return bytes;
}

Bytes random_q8_0(std::int64_t elements, std::mt19937_64& random) {
  Bytes bytes(encoded_bytes(Encoding::q8_0, DType::f32, elements));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (std::size_t block = 0; block < bytes.size(); block += 34) {
    const auto scale = to_f16(static_cast<float>(0.02 * testing::normal_number(random)));
    std::memcpy(bytes.data() + block, &scale.bits, 2);
  }
  return bytes;
}

Shape joined(Shape shape, std::initializer_list<std::int64_t> more) {
  for (const std::int64_t size : more) shape.push_back(size);
  return shape;
}

// out[b, m, n] = sum over k of a[b, m, k] * b[b, k, n]; `b_view` is over the packed elements.
struct Problem {
  ContractionKernel kernel;
  std::vector<Bytes> buffers;

  Problem(const Shape& batch, std::int64_t m, const View& b_view, std::int64_t packed_elements) {
    std::mt19937_64 random(static_cast<std::uint64_t>(m * 1000 + b_view.shape.numel()));
    const int rank = batch.rank();
    const std::int64_t k = b_view.shape[rank];
    const std::int64_t n = b_view.shape[rank + 1];
    kernel.b = batch;
    kernel.m = {m};
    kernel.k = {k};
    kernel.n = {n};
    kernel.a = {.slot = 0, .view = View::contiguous(joined(batch, {m, k}))};
    kernel.b_operand = {.slot = 1, .view = b_view, .canonical = true, .encoding = Encoding::q8_0};
    Program& program = kernel.epilogue;
    program.rows = joined(batch, {m});
    program.inner = {n};
    program.code = {{.kind = Instruction::Kind::accumulator, .type = ComputeType::f32, .dtype = DType::f32}};
    program.outputs = {{.slot = 2, .value = 0, .strides = View::contiguous(joined(batch, {m, n})).strides}};
    buffers = {random_floats(batch.numel() * m * k, random), random_q8_0(packed_elements, random),
               Bytes(static_cast<std::size_t>(batch.numel() * m * n) * 4 + 64)};
  }
};

void expect_reference_bits(Problem problem) {
  const auto run = [&](const auto& execute) {
    Bytes& out = problem.buffers[2];
    std::fill(out.begin(), out.end(), std::byte{0xab});
    std::vector<std::byte*> slots;
    for (Bytes& buffer : problem.buffers) slots.push_back(buffer.data());
    execute(Binding{.slots = slots, .parameters = {}});
    return out;
  };
  const Bytes expected = run([&](const Binding& binding) { run_kernel(problem.kernel, binding); });
  const int before = num_threads();
  for (const Isa isa : available_isas()) {
    const auto executable = compile_contraction(problem.kernel, isa);
    for (const int threads : testing::ways_on<int>(isa, {1, 3})) {
      set_num_threads(threads);
      EXPECT_TRUE(testing::same_bytes(run([&](const Binding& binding) { executable->run(binding); }), expected))
          << to_string(Kernel(problem.kernel)) << " on " << name_of(isa) << " with " << threads << " threads";
    }
  }
  set_num_threads(before);
}

TEST(PackedContraction, SizesAroundTilesAndBlocks) {
  for (const std::int64_t m : {1, 2, 6, 15, 33, 130}) {
    for (const std::int64_t n : {1, 7, 33, 70}) {
      for (const std::int64_t k : {0, 1, 31, 64, 257, 600}) {
        const std::int64_t elements = (n * k + 31) / 32 * 32;
        expect_reference_bits({{}, m, View::contiguous({k, n}), elements});
        expect_reference_bits({{}, m, View::contiguous({n, k}).permuted({1, 0}), elements});
      }
    }
  }
}

// f32 rows and columns of 16 bits, of any bits; subnormals of bf16 are zeros, or there are none.
TEST(PackedContraction, ColumnsOfSixteenBits) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const std::int64_t m : {1, 2, 3, 8, 33}) {
      for (const std::int64_t n : {1, 17, 70}) {
        for (const std::int64_t k : {0, 1, 31, 264, 600}) {
          Problem problem({}, m, View::contiguous({n, k}).permuted({1, 0}), (n * k + 31) / 32 * 32);
          std::mt19937_64 random(static_cast<std::uint64_t>(m + n + k));
          problem.buffers[1].resize(static_cast<std::size_t>(2 * n * k));
          for (std::byte& byte : problem.buffers[1]) byte = static_cast<std::byte>(random());
          const bool canonical = dtype == DType::bf16 && m == 2;
          for (std::size_t i = 1; i < problem.buffers[1].size(); i += 2) {
            std::byte& high = problem.buffers[1][i];
            high = (high & std::byte{0xbf}) | std::byte{0x30};  // of moderate size
            if (!canonical && random() % 8 == 0) high &= std::byte{0x80};
          }
          Input& columns = problem.kernel.b_operand;
          columns.dtype = dtype;
          columns.encoding = Encoding::dense;
          columns.canonical = canonical;
          expect_reference_bits(problem);
        }
      }
    }
  }
}

// Every encoding in both meanings of a product: blocks read where they lie (a row or two in q8 numerics), panels,
// panels that are decoded (up to eight rows, exact), an odd number of blocks and eight of them, columns that fill
// several panels or a part of one.
TEST(PackedContraction, EveryEncodingInBothNumerics) {
#define ENCODING(name, ...) Encoding::name,
#define FLOATS(name, ...) ENCODING(name)
  for (const Encoding encoding : {
#include <lockstep/encodings.def>
       }) {
#undef ENCODING
    const std::int64_t elements = info_of(encoding).elements;
    for (const std::int64_t m : {1, 2, 3, 5, 9}) {
      for (const std::int64_t n : {1, 16, 75}) {
        for (const std::int64_t k : {elements, elements == 32 ? std::int64_t{352} : 3 * elements, std::int64_t{512}}) {
          Problem problem({}, m, View::contiguous({n, k}).permuted({1, 0}), n * k);
          problem.kernel.b_operand.encoding = encoding;
          problem.buffers[1] = random_blocks({n, k}, encoding, static_cast<std::uint64_t>(m + n + k), m == 2);
          for (const Numerics numerics : {Numerics::exact, Numerics::q8}) {
            if (numerics == Numerics::q8 && is_floats(encoding)) continue;
            problem.kernel.numerics = numerics;
            expect_reference_bits(problem);
          }
        }
      }
    }
  }
}

// Every encoding in units of many rows: tiles of 16 and what is left over, a panel and a part of one, several, an odd
// number of blocks; among the rows one of zeros and one with a NaN, or all so small that products of scales need care.
TEST(PackedContraction, ManyRowsInQ8Numerics) {
#define ENCODING(name, ...) Encoding::name,
  for (const Encoding encoding : {
#include <lockstep/encodings.def>
       }) {
#undef ENCODING
    const std::int64_t elements = info_of(encoding).elements;
    for (const std::int64_t m : {4, 6, 8, 15, 16, 17, 31, 33, 64, 130}) {
      const std::int64_t n = m == 17 ? 150 : m % 2 == 0 ? 16 : 75;
      for (const std::int64_t k : {elements, elements == 32 ? std::int64_t{288} : 3 * elements}) {
        Problem problem({}, m, View::contiguous({n, k}).permuted({1, 0}), n * k);
        problem.kernel.b_operand.encoding = encoding;
        problem.kernel.numerics = Numerics::q8;
        problem.buffers[1] = random_blocks({n, k}, encoding, static_cast<std::uint64_t>(m + n + k), m % 3 == 0);
        auto* const rows = reinterpret_cast<float*>(problem.buffers[0].data());
        if (m == 17) std::fill_n(rows + 3 * k, k, 0.0f);
        if (m == 17) rows[16 * k + k / 2] = std::numeric_limits<float>::quiet_NaN();
        if (m == 31) std::transform(rows, rows + m * k, rows, [](float x) { return x * 0x1p-124f; });
        expect_reference_bits(problem);
      }
    }
  }
}

// Lanes are blocks of k of neighbouring columns; rows that are multiplied two at a time, and one that is left; scales
// that are zeros or the smallest or largest numbers, and rows so small that only the signs of zeros are left.
void expect_blocks_side_by_side(Encoding encoding, std::int64_t n, std::int64_t k) {
  const EncodingInfo& info = info_of(encoding);
  for (const std::int64_t m : {1, 2, 3, 7}) {
    Problem problem({}, m, View::contiguous({n, k}).permuted({1, 0}), n * k);
    problem.kernel.b_operand.encoding = encoding;
    Bytes& blocks = problem.buffers[1];
    blocks = random_blocks({n, k}, encoding, static_cast<std::uint64_t>(m + n + k), false);
    constexpr std::uint16_t kFinite[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x7bff, 0xfbff};
    for (std::size_t b = 0; b * info.bytes < blocks.size(); b += 3) {
      std::memcpy(blocks.data() + b * info.bytes + info.first_half, &kFinite[b % std::size(kFinite)], 2);
    }
    expect_reference_bits(problem);
    for (std::size_t i = 0; i < problem.buffers[0].size(); i += 4) {
      float value;
      std::memcpy(&value, problem.buffers[0].data() + i, 4);
      value *= 0x1p-124f;
      std::memcpy(problem.buffers[0].data() + i, &value, 4);
    }
    expect_reference_bits(problem);
    // Of all columns one has no finite number: they are decoded element by element.
    constexpr std::uint16_t kInfinity = 0x7c00;
    std::memcpy(blocks.data() + (blocks.size() / info.bytes - 1) * info.bytes + info.first_half, &kInfinity, 2);
    expect_reference_bits(problem);
  }
}

constexpr Encoding kSideBySide[] = {Encoding::q8_0, Encoding::q4_0, Encoding::q4_1, Encoding::q5_0,
                                    Encoding::q5_1, Encoding::q4_k, Encoding::q5_k, Encoding::q6_k};

// A number of blocks that fills no whole vectors.
std::int64_t long_rest(Encoding encoding) {
  return 16 * 256 - (info_of(encoding).elements == 32 ? 160 : 256);
}

// As many blocks as fill vectors or not, a rest of k, more columns than are summed together.
TEST(PackedContraction, RowsMeetBlocksSideBySide) {
  for (const Encoding encoding : kSideBySide) {
    for (const std::int64_t n : {5, 300}) expect_blocks_side_by_side(encoding, n, 768);
    expect_blocks_side_by_side(encoding, 5, long_rest(encoding));
  }
}

TEST(PackedContraction, ManyLongBlocksSideBySide) {
  for (const Encoding encoding : kSideBySide) {
    const bool is_first_of_its_size = encoding == Encoding::q8_0 || encoding == Encoding::q4_k;
    if (is_first_of_its_size || long_forms()) expect_blocks_side_by_side(encoding, 300, long_rest(encoding));
  }
}

// Blocks of neighbouring columns are read together, of others one by one.
TEST(PackedContraction, BlocksOfNeighboursAndOfOthers) {
  for (const std::int64_t step : {1, 2, -1}) {
    for (const std::int64_t count : {47, 70}) {
      const View some = View::contiguous({3, 150, 512}).sliced(1, step < 0 ? 149 : 3, step, count);
      Problem problem({3}, 1, some.permuted({0, 2, 1}), 3 * 150 * 512);
      problem.kernel.b_operand.encoding = Encoding::q4_0;
      problem.buffers[1] = random_blocks({3 * 150, 512}, Encoding::q4_0, static_cast<std::uint64_t>(count), false);
      expect_reference_bits(problem);
    }
  }
}

TEST(PackedContraction, BatchesAndStrides) {
  for (const std::int64_t m : {1, 20}) {
    const View whole = View::contiguous({3, 40, 64});
    expect_reference_bits({{3}, m, whole, 3 * 40 * 64});
    expect_reference_bits({{3}, m, whole.permuted({0, 2, 1}), 3 * 40 * 64});
    expect_reference_bits({{3}, m, whole.sliced(2, 61, -3, 20).sliced(1, 5, 2, 17), 3 * 40 * 64});
    expect_reference_bits({{3}, m, View::contiguous({1, 40, 64}).expanded({3, 40, 64}), 40 * 64});
  }
}

TEST(PackedContraction, FillValuesAndInsertedZeros) {
  const std::uint64_t two = 0x40000000u;
  for (const std::int64_t m : {1, 20}) {
    for (const std::uint64_t fill : {std::uint64_t{0}, two}) {
      const View padded = *View::contiguous({40, 64}).padded(0, 3, 2, fill);
      expect_reference_bits({{}, m, padded, 40 * 64});
      expect_reference_bits({{}, m, *padded.padded(1, 1, 70, fill), 40 * 64});
      expect_reference_bits({{}, m, padded.permuted({1, 0}), 40 * 64});
    }
    expect_reference_bits({{}, m, *View::contiguous({10, 64}).dilated(0, 3, 0), 10 * 64});
  }
}

}  // namespace
}  // namespace lockstep
