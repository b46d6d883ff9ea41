// Where the CPU leaves out a rounding, a conversion or making a result canonical, a lemma beside the code says why no
// bit shows it. Here each of them is held against all values of 16 bits: as f16 and bf16, and as the upper halves of
// longer ones.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "backends/cpu/contraction/decode.h"
#include "backends/cpu/contraction/side.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/row/tables.h"
#include "core/fp_state.h"
#include "kernels/scalar.h"
#include "kernels/storage.h"

namespace lockstep {
namespace {

constexpr std::size_t kWords = 1 << 16;
constexpr std::uint32_t kSmallestNormal = 0x00800000u;
constexpr std::uint32_t kMagnitude = 0x7fffffffu;

constexpr DType kDTypes[] = {DType::boolean, DType::u8,  DType::i8,   DType::i16, DType::i32, DType::i64,
                             DType::u32,     DType::f16, DType::bf16, DType::f32, DType::f64};

/// As f32 operands: what is read from memory has no subnormals.
std::vector<float> all_operands() {
  std::vector<float> values;
  for (std::uint32_t word = 0; word < kWords; ++word) values.push_back(scalar::operand_f32(FROM_BITS(word << 16)));
  return values;
}

void expect_equal_bits(const std::vector<float>& expected, const std::vector<float>& found, const char* what, Isa isa) {
  if (std::memcmp(expected.data(), found.data(), expected.size() * sizeof(float)) == 0) return;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(BITS(expected[i]), BITS(found[i])) << what << " of element " << i << ", " << name_of(isa);
  }
}

ElementwiseFn loop_of(Op op, Isa isa, int scalars = 0) {
  return elementwise_table(isa).op[index_of(op)][index_of(ComputeType::f32)][static_cast<std::size_t>(scalars)];
}

/// exp and gelu of r, made canonical first or not. r comes as a sum or difference with zero, which is exact.
void compare_exp_and_gelu(const std::vector<float>& raw, Isa isa) {
  const FloatingPointScope scope;
  const std::size_t n = raw.size();
  const ElementwiseTable& table = elementwise_table(isa);
  const float zero = 0.0f, minus_zero = -0.0f;
  const std::vector<float> zeros(n, zero), minus_zeros(n, minus_zero);
  std::vector<float> canonical(n), negated(n), expected(n), found(n);
  for (std::size_t i = 0; i < n; ++i) {
    canonical[i] = scalar::canonical(raw[i]);
    negated[i] = FROM_BITS(BITS(raw[i]) ^ 0x80000000u);
  }
  loop_of(Op::exp, isa)(expected.data(), canonical.data(), nullptr, nullptr, n);
  table.exp_of_sub[0](found.data(), raw.data(), zeros.data(), nullptr, n);
  expect_equal_bits(expected, found, "exp(r - 0)", isa);
  table.exp_of_sub[2](found.data(), raw.data(), &zero, nullptr, n);
  expect_equal_bits(expected, found, "exp(r - 0), 0 a scalar", isa);
  table.exp_of_sub[1](found.data(), &zero, negated.data(), nullptr, n);
  expect_equal_bits(expected, found, "exp(0 - -r), 0 a scalar", isa);
  loop_of(Op::gelu_erf, isa)(expected.data(), canonical.data(), nullptr, nullptr, n);
  table.gelu_of_add[0](found.data(), raw.data(), minus_zeros.data(), nullptr, n);
  expect_equal_bits(expected, found, "gelu(r + -0)", isa);
  table.gelu_of_add[2](found.data(), raw.data(), &minus_zero, nullptr, n);
  expect_equal_bits(expected, found, "gelu(r + -0), -0 a scalar", isa);
  table.gelu_of_add[1](found.data(), &minus_zero, raw.data(), nullptr, n);
  expect_equal_bits(expected, found, "gelu(-0 + r), -0 a scalar", isa);
}

TEST(Canonical, ExhaustiveExpAndGeluDoNotSeeWhetherTheirOperandIs) {
  std::vector<float> raw;
  for (std::uint32_t word = 0; word < kWords; ++word) {
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0xffffu}) raw.push_back(FROM_BITS(word << 16 | low));
  }
  for (const Isa isa : available_isas()) compare_exp_and_gelu(raw, isa);
}

TEST(Canonical, ExhaustiveExpAndGeluOfEverySmallNumberAndNan) {
  // All floats that being made canonical changes.
  constexpr std::uint32_t kBlock = 1 << 18;
  constexpr std::uint32_t kInfinity = 0x7f800000u;
  std::vector<float> raw(kBlock);
  for (const std::uint32_t sign : {0u, 0x80000000u}) {
    for (const std::uint32_t start : {1u, kInfinity + 1}) {
      for (std::uint32_t at = 0; at < kSmallestNormal; at += kBlock) {
        for (std::uint32_t i = 0; i < kBlock; ++i) raw[i] = FROM_BITS((sign | (start + at + i)));
        compare_exp_and_gelu(raw, available_isas().back());
      }
    }
  }
}

TEST(Canonical, LoopsOfFunctionsEndWhereTheyShould) {
  // Sizes around the steps of several vectors, results in another place and in that of an operand.
  constexpr std::size_t kMost = 150;
  const FloatingPointScope scope;
  std::vector<float> x(kMost), y(kMost);
  for (std::size_t i = 0; i < kMost; ++i) {
    x[i] = static_cast<float>(i) * 0.07f - 4;
    y[i] = static_cast<float>(i % 13) * 0.3f - 2;
  }
  for (const Isa isa : available_isas()) {
    const ElementwiseTable& table = elementwise_table(isa);
    std::vector<ElementwiseFn> loops;
    for (const Op op : {Op::exp, Op::log, Op::tanh, Op::sigmoid, Op::erf, Op::gelu_erf})
      loops.push_back(loop_of(op, isa));
    for (const auto& of_two : {table.exp_of_sub, table.gelu_of_add})
      loops.insert(loops.end(), of_two.begin(), of_two.end());
    for (std::size_t which = 0; which < loops.size(); ++which) {
      const ElementwiseFn loop = loops[which];
      std::vector<float> each(kMost), found(kMost + 1);
      for (std::size_t n = 0; n <= kMost; ++n) {
        const std::size_t first = n > 40 ? n - 40 : 0;
        for (std::size_t i = first; i < n; ++i) {
          // One value: of the first operand in the second loop of three, of the second in the third.
          const float* const a = which == 7 || which == 10 ? x.data() : &x[i];
          const float* const b = which == 8 || which == 11 ? y.data() : &y[i];
          loop(&each[i], a, b, nullptr, 1);
        }
        found.assign(kMost + 1, 77.0f);
        loop(found.data(), x.data(), y.data(), nullptr, n);
        for (std::size_t i = first; i < n; ++i) ASSERT_EQ(BITS(found[i]), BITS(each[i])) << name_of(isa) << " of " << n;
        ASSERT_EQ(found[n], 77.0f) << "written behind the end";
        std::vector<float> own = x;
        loop(own.data(), own.data(), y.data(), nullptr, n);
        for (std::size_t i = first; i < n; ++i) ASSERT_EQ(BITS(own[i]), BITS(each[i])) << "in place, of " << n;
      }
    }
  }
}

/// What ops read, several of every upper half. The smallest normal number is an operand, but no result.
std::vector<float> many_operands() {
  std::vector<float> values;
  for (std::uint32_t word = 0; word < kWords; ++word) {
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0xffffu}) {
      values.push_back(scalar::operand_f32(FROM_BITS(word << 16 | low)));
    }
  }
  return values;
}

TEST(Canonical, ExhaustiveTanhSigmoidAndErfAre) {
  const FloatingPointScope scope;
  const std::vector<float> operands = many_operands();
  std::vector<float> found(operands.size());
  for (const Op op : {Op::tanh, Op::sigmoid, Op::erf}) {
    std::vector<float> expected;
    for (const float x : operands) {
      const float value = op == Op::tanh      ? scalar::ls_tanh(x)
                          : op == Op::sigmoid ? scalar::ls_sigmoid(x)
                                              : scalar::ls_erf(x);
      expected.push_back(scalar::canonical(value));
    }
    for (const Isa isa : available_isas()) {
      loop_of(op, isa)(found.data(), operands.data(), nullptr, nullptr, operands.size());
      expect_equal_bits(expected, found, info_of(op).name, isa);
    }
  }
}

// f16 by the processor's own conversions: every f16, and what lies at and beside the middle between two.
TEST(Canonical, ExhaustiveHalvesAreThoseOfTheTexts) {
  const FloatingPointScope scope;
  std::vector<float> values;
  std::vector<std::uint16_t> words;
  for (std::uint32_t word = 0; word < kWords; ++word) {
    words.push_back(static_cast<std::uint16_t>(word));
    const std::uint32_t bits = BITS(scalar::decode_f16(word));
    for (const std::uint32_t more : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu}) {
      values.push_back(scalar::canonical(FROM_BITS(bits + more)));
    }
    const float step = FROM_BITS(0x33000000u /* 2^-25, half of a subnormal's unit */);
    if ((word & 0x7fffu) < 0x400u) values.push_back(scalar::decode_f16(word) + step);
  }
  for (const float special : {FROM_BITS(0xffc00001u), FROM_BITS(0x7f812345u), 65519.99f, 65520.0f, 1e-30f, -1e38f}) {
    values.push_back(special);
  }
  std::vector<float> rounded, decoded;
  std::vector<std::uint16_t> encoded;
  for (const float x : values) {
    encoded.push_back(static_cast<std::uint16_t>(scalar::encode_f16(x)));
    rounded.push_back(scalar::decode_f16(encoded.back()));
  }
  for (const std::uint16_t word : words) decoded.push_back(scalar::decode_f16(word));
  for (const Isa isa : available_isas()) {
    const ConvertTable& table = convert_table(isa);
    std::vector<float> found(values.size());
    table.cast[index_of(DType::f32)][index_of(DType::f16)](found.data(), values.data(), nullptr, nullptr,
                                                           values.size());
    expect_equal_bits(rounded, found, "the nearest f16", isa);
    std::vector<std::uint16_t> stored(values.size());
    table.store[index_of(DType::f16)](reinterpret_cast<std::byte*>(stored.data()), 1, values.data(), values.size());
    EXPECT_EQ(stored, encoded) << name_of(isa);
    found.resize(words.size());
    table.load[index_of(DType::f16)](found.data(), reinterpret_cast<const std::byte*>(words.data()), 1, words.size());
    expect_equal_bits(decoded, found, "as f32", isa);
  }
}

struct ChainCase {
  ChainOp chain;
  Op op;
  bool turned;  ///< the live value is the second operand
};
constexpr ChainCase kChainCases[] = {
    {ChainOp::add, Op::add, false},       {ChainOp::sub, Op::sub, false},       {ChainOp::from, Op::sub, true},
    {ChainOp::mul, Op::mul, false},       {ChainOp::div, Op::div, false},       {ChainOp::into, Op::div, true},
    {ChainOp::max, Op::maximum, false},   {ChainOp::max_of, Op::maximum, true}, {ChainOp::min, Op::minimum, false},
    {ChainOp::min_of, Op::minimum, true}, {ChainOp::relu, Op::relu, false}};

void run_op(const ChainCase& link, const float* x, const float& operand, float* out, std::size_t n, Isa isa) {
  if (link.op == Op::relu) return loop_of(link.op, isa)(out, x, nullptr, nullptr, n);
  link.turned ? loop_of(link.op, isa, 1)(out, &operand, x, nullptr, n)
              : loop_of(link.op, isa, 2)(out, x, &operand, nullptr, n);
}

TEST(Canonical, ExhaustiveChainsOfTwoOpsEqualTheOps) {
  const FloatingPointScope scope;
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = FROM_BITS(0x7fc00000u), strange_nan = FROM_BITS(0xffc12345u);
  const float smallest = FROM_BITS(kSmallestNormal), next = FROM_BITS(kSmallestNormal + 1);
  const float operands[] = {0.0f, -0.0f, 1.0f, -1.5f, 0.5f, smallest, next, -next, 3e38f, infinity, -infinity, nan};
  const float second_operands[] = {next, -infinity, 3.0f, strange_nan};
  const std::vector<float> x = all_operands();
  std::vector<float> between(kWords), expected(kWords), found(kWords);
  for (const Isa isa : available_isas()) {
    const ChainTable& table = chain_table(isa);
    if (table.store == nullptr) continue;
    for (const ChainCase& first : kChainCases) {
      for (const float& a : operands) {
        run_op(first, x.data(), a, between.data(), kWords, isa);
        for (const ChainCase& second : kChainCases) {
          for (const float& b : second_operands) {
            run_op(second, between.data(), b, expected.data(), kWords, isa);
            ChainLink links[] = {{first.chain, true, &a, 0, nullptr, nullptr},
                                 {second.chain, true, &b, 0, nullptr, nullptr}};
            table.store(found.data(), x.data(), links, 2, table.form(links, 2, 1), {.n = kWords});
            ASSERT_EQ(std::memcmp(expected.data(), found.data(), kWords * sizeof(float)), 0)
                << info_of(first.op).name << ' ' << a << ", " << info_of(second.op).name << ' ' << b << ", "
                << name_of(isa);
          }
        }
      }
    }
  }
}

/// Numbers near those where a result is made zero, or where a sum absorbs such a result; and all others.
class Numbers {
 public:
  float next() {
    constexpr float kScalars[] = {0.0f,      -0.0f,     1.0f,       -1.0f,    0.5f,      3.0f,       6.0f,
                                  0x1p-100f, 0x1p-101f, -0x1p-99f,  0x1p-73f, -0x1p-74f, 0x1p-126f,  -0x1p-125f,
                                  0x1p26f,   0x1p-27f,  0x1.8p-60f, 0x1p60f,  0x1p-140f, -0x1p-149f, 0x1.fffffep-1f};
    const std::uint32_t word = random();
    switch (word % 8) {
      case 0: return FROM_BITS(random());                  // also NaNs and subnormals
      case 1: return FROM_BITS((random() & 0x80ffffffu));  // about 2^-126
      case 2:
      case 3: return kScalars[word / 8 % std::size(kScalars)];
      case 4: return FROM_BITS((random() & 0x807fffffu) | (word / 8 % 60) << 23);
      default: return FROM_BITS((random() & 0x80ffffffu) + 0x3f000000u);  // about 1
    }
  }
  std::uint32_t random() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 32);
  }

 private:
  std::uint64_t state_ = 20261125;
};

// Where a chain leaves out making results canonical depends on its scalars, in all rows, and on the ops that follow.
void compare_chain(const std::vector<ChainOp>& ops, const std::vector<bool>& scalar, Numbers& numbers, Isa isa) {
  const std::size_t n = 1 + numbers.random() % 200;
  const std::size_t rows = 1 + numbers.random() % 3;
  const std::size_t stride = n + numbers.random() % 3;  // of first; n is that of results
  std::vector<float> first(rows * stride), found(rows * n);
  const bool is_raw = ops[0] == ChainOp::canonical;
  for (float& value : first) value = is_raw ? numbers.next() : scalar::canonical(numbers.next());
  std::vector<std::vector<float>> operands(ops.size(), std::vector<float>(rows * n));
  std::vector<ChainLink> links;
  for (std::size_t l = 0; l < ops.size(); ++l) {
    for (float& value : operands[l]) value = scalar::canonical(numbers.next());
    const std::ptrdiff_t next_row = scalar[l] ? 1 : static_cast<std::ptrdiff_t>(n);
    links.push_back({ops[l], scalar[l], operands[l].data(), next_row, nullptr, nullptr});
  }
  const ChainForm form = chain_table(isa).form(links.data(), links.size(), rows);
  chain_table(isa).store(found.data(), first.data(), links.data(), links.size(), form,
                         {.n = n,
                          .count = rows,
                          .out_stride = static_cast<std::ptrdiff_t>(n),
                          .first_stride = static_cast<std::ptrdiff_t>(stride)});
  for (std::size_t row = 0; row < rows; ++row) {
    std::string what = "a chain of " + std::to_string(n) + ", row " + std::to_string(row);
    const auto from = first.begin() + static_cast<std::ptrdiff_t>(row * stride);
    std::vector<float> expected(from, from + static_cast<std::ptrdiff_t>(n));
    for (std::size_t l = 0; l < ops.size(); ++l) {
      const float value = operands[l][row];
      const float* const values = operands[l].data() + row * n;
      what += ", op " + std::to_string(static_cast<int>(ops[l])) +
              (scalar[l] ? " with " + std::to_string(BITS(value)) : "");
      if (ops[l] == ChainOp::canonical) {
        for (float& x : expected) x = scalar::canonical(x);
        continue;
      }
      for (const ChainCase& link : kChainCases) {
        if (link.chain != ops[l]) continue;
        if (scalar[l] || link.op == Op::relu) {
          run_op(link, expected.data(), value, expected.data(), n, isa);
        } else if (link.turned) {
          loop_of(link.op, isa)(expected.data(), values, expected.data(), nullptr, n);
        } else {
          loop_of(link.op, isa)(expected.data(), expected.data(), values, nullptr, n);
        }
      }
    }
    const auto result = found.begin() + static_cast<std::ptrdiff_t>(row * n);
    expect_equal_bits(expected, {result, result + static_cast<std::ptrdiff_t>(n)}, what.c_str(), isa);
  }
}

TEST(Canonical, ChainsOfAnyOpsEqualTheOps) {
  const FloatingPointScope scope;
  Numbers numbers;
  for (const Isa isa : available_isas()) {
    if (chain_table(isa).store == nullptr) continue;
    for (int round = 0; round < 20000; ++round) {
      std::vector<ChainOp> ops = {ChainOp::canonical};
      std::vector<bool> scalar = {false};
      const std::size_t count = 1 + numbers.random() % (kMostLinks - 1);
      while (ops.size() <= count) {
        ops.push_back(kChainCases[numbers.random() % std::size(kChainCases)].chain);
        scalar.push_back(numbers.random() % 4 != 0);
      }
      if (numbers.random() % 4 == 0) {  // without raw results
        ops.erase(ops.begin());
        scalar.erase(scalar.begin());
      }
      compare_chain(ops, scalar, numbers, isa);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Canonical, ChainsOfNetworksEqualTheOps) {
  const FloatingPointScope scope;
  using enum ChainOp;
  struct Case {
    std::vector<ChainOp> ops;
    std::vector<bool> scalar;
  };
  const Case cases[] = {
      {{canonical, mul}, {false, true}},
      {{canonical, add}, {false, true}},
      {{canonical, add, relu}, {false, true, false}},
      {{canonical, add, add}, {false, true, false}},
      {{canonical, add}, {false, false}},
      {{canonical, add, add}, {false, false, false}},
      {{canonical, sub, mul, add}, {false, true, true, true}},
      {{canonical, sub, mul, add, relu}, {false, true, true, true, false}},
      {{canonical, sub, mul, add, add}, {false, true, true, true, false}},
      {{canonical, sub, mul, add, add, relu}, {false, true, true, true, false, false}},
      {{add, max, min, mul, div}, {true, true, true, false, true}},
  };
  Numbers numbers;
  for (const Isa isa : available_isas()) {
    if (chain_table(isa).store == nullptr) continue;
    for (const Case& chain : cases) {
      for (int round = 0; round < 5000; ++round) {
        compare_chain(chain.ops, chain.scalar, numbers, isa);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Canonical, ExhaustiveSumsOfChainsEqualSumsOfTheOps) {
  const FloatingPointScope scope;
  const std::vector<float> x = all_operands();
  std::vector<float> values(kWords);
  const float operands[] = {-0.0f, 1.5f, FROM_BITS(kSmallestNormal + 1), FROM_BITS(0xffc12345u)};
  for (const Isa isa : available_isas()) {
    const ChainTable& table = chain_table(isa);
    if (table.sum == nullptr) continue;
    const std::size_t type = index_of(ComputeType::f32);
    for (const ChainCase& link : kChainCases) {
      for (const float& a : operands) {
        run_op(link, x.data(), a, values.data(), kWords, isa);
        const ChainLink links[] = {{link.chain, true, &a, 0, nullptr, nullptr}};
        const ChainForm form = table.form(links, 1, 1);
        for (std::size_t i = 0; i < kWords; i += kLanes) {
          std::vector<float> expected(kLanes, 0.25f), found(kLanes, 0.25f);
          reduce_table(isa).lanes[ReduceTable::sum][type](expected.data(), values.data() + i, nullptr, kLanes);
          table.sum(found.data(), x.data() + i, links, 1, form, kLanes);
          reduce_table(isa).lanes[ReduceTable::dot][type](expected.data(), values.data() + i, values.data() + i,
                                                          kLanes);
          table.sum_of_squares(found.data(), x.data() + i, links, 1, form, kLanes);
          for (std::size_t l = 0; l < kLanes; ++l) {
            ASSERT_EQ(BITS(scalar::canonical(expected[l])), BITS(scalar::canonical(found[l])))
                << info_of(link.op).name << " of " << x[i + l] << " and " << a << ", " << name_of(isa);
          }
        }
      }
    }
  }
}

/// Elements of `size` bytes: all words, followed by lower bits of any kind.
std::vector<std::byte> all_elements(std::size_t size, bool subnormal_f32) {
  std::vector<std::byte> elements;
  for (std::uint64_t word = 0; word < kWords; ++word) {
    for (const std::uint64_t low : {std::uint64_t{0}, std::uint64_t{0x123456789abc}}) {
      const std::uint64_t bits = size == 1   ? word & 0xff
                                 : size == 2 ? word
                                             : (word << (8 * size - 16)) | (low >> (64 - 8 * size));
      const std::uint32_t magnitude = static_cast<std::uint32_t>(bits) & kMagnitude;
      if (size == 4 && !subnormal_f32 && magnitude != 0 && magnitude < kSmallestNormal) continue;
      const auto* const bytes = reinterpret_cast<const std::byte*>(&bits);
      elements.insert(elements.end(), bytes, bytes + size);
    }
  }
  return elements;
}

TEST(Canonical, ExhaustiveElementsThatAreStoredAsValuesAreNotChangedByLoadsAndStores) {
  int found = 0;
  for (const Isa isa : available_isas()) {
    const ConvertTable& convert = convert_table(isa);
    for (const DType dtype : kDTypes) {
      const std::size_t d = index_of(dtype), size = lockstep::size_of(dtype);
      const auto expect_copies = [&](LoadFn load, StoreFn store, bool subnormals) {
        const std::vector<std::byte> elements = all_elements(size, subnormals);
        std::vector<std::byte> copy(elements.size()), stored(elements.size());
        load(copy.data(), elements.data(), 1, elements.size() / size);
        EXPECT_EQ(std::memcmp(copy.data(), elements.data(), elements.size()), 0) << name_of(dtype);
        store(stored.data(), 1, elements.data(), elements.size() / size);
        EXPECT_EQ(std::memcmp(stored.data(), elements.data(), elements.size()), 0) << name_of(dtype);
        ++found;
      };
      const ComputeType type = compute_type(dtype), words = word_type(dtype);
      if (is_stored_as(dtype, words, true, false)) expect_copies(convert.load_bits[d], convert.store_bits[d], true);
      if (is_stored_as(dtype, type, false, true)) expect_copies(convert.load_canonical[d], convert.store[d], false);
      if (is_stored_as(dtype, type, false, false)) expect_copies(convert.load[d], convert.store[d], true);
    }
  }
  // Words of i32, i64, u32, f32 and f64; values of i32, i64, f32 and f64, of f32 only where there are no subnormals.
  EXPECT_EQ(found, static_cast<int>(available_isas().size()) * (5 + 4 + 3));
}

TEST(Canonical, ExhaustiveLoadsOfCanonicalElementsAreLoads) {
  for (const Isa isa : available_isas()) {
    const ConvertTable& convert = convert_table(isa);
    for (const DType dtype : {DType::f16, DType::bf16}) {
      for (std::uint32_t word = 0; word < kWords; ++word) {
        const bool subnormal = (word & 0x7f80u) == 0 && (word & 0x7fu) != 0;
        if (dtype == DType::bf16 && subnormal) continue;
        float plain = 0, canonical = 0;
        const auto* const element = reinterpret_cast<const std::byte*>(&word);
        convert.load[index_of(dtype)](&plain, element, 1, 1);
        convert.load_canonical[index_of(dtype)](&canonical, element, 1, 1);
        ASSERT_EQ(BITS(plain), BITS(canonical)) << name_of(dtype) << ' ' << word;
      }
    }
  }
}

TEST(Canonical, ExhaustiveCastsToTheSameTypeKeepCanonicalValues) {
  for (const Isa isa : available_isas()) {
    for (const DType dtype : {DType::i32, DType::i64, DType::f32, DType::f64}) {
      const std::size_t size = lockstep::size_of(dtype);
      std::vector<std::byte> values = all_elements(size, false);
      const std::size_t n = values.size() / size;
      const ElementwiseFn canonical = convert_table(isa).canonical[index_of(compute_type(dtype))];
      canonical(values.data(), values.data(), nullptr, nullptr, n);
      std::vector<std::byte> cast(values.size());
      convert_table(isa).cast[index_of(dtype)][index_of(dtype)](cast.data(), values.data(), nullptr, nullptr, n);
      EXPECT_EQ(std::memcmp(cast.data(), values.data(), values.size()), 0) << name_of(dtype);
    }
  }
}

/// Element `word`, or with these upper bits, as contractions read it, with and without flushing.
template <typename T> void compare_decoding(DType dtype, std::uint32_t word) {
  contraction::with_source_type<T>(dtype, [&](auto source) {
    using Source = decltype(source);
    const std::uint64_t bits = sizeof(Source) <= 2 ? word : std::uint64_t{word} << (8 * sizeof(Source) - 16);
    std::memcpy(static_cast<void*>(&source), &bits, sizeof source);
    const T plain = contraction::decode<T>(source, false), flushed = contraction::decode<T>(source, true);
    ASSERT_EQ(std::memcmp(&plain, &flushed, sizeof(T)), 0) << name_of(dtype) << ' ' << word;
    if constexpr (std::is_same_v<T, float>) {
      const std::uint32_t magnitude = BITS(plain) & kMagnitude;
      ASSERT_TRUE(magnitude == 0 || magnitude >= kSmallestNormal) << name_of(dtype) << ' ' << word;
    }
  });
}

TEST(Canonical, ExhaustiveOperandsOfContractionsThatHoldNoSubnormalsNeedNoFlushing) {
  for (const DType dtype : kDTypes) {
    const bool may_hold = contraction::may_hold_subnormals({.dtype = dtype, .canonical = false});
    EXPECT_EQ(may_hold, dtype == DType::f32 || dtype == DType::bf16) << name_of(dtype);
    EXPECT_FALSE(contraction::may_hold_subnormals({.dtype = dtype, .canonical = true}));
    for (std::uint32_t word = 0; word < kWords; ++word) {
      const bool subnormal = (word & 0x7f80u) == 0 && (word & 0x7fu) != 0;
      if (may_hold && subnormal) continue;  // not there where the operand is canonical
      switch (compute_type(dtype)) {
        case ComputeType::f32: compare_decoding<float>(dtype, word); break;
        case ComputeType::f64: compare_decoding<double>(dtype, word); break;
        case ComputeType::i32: compare_decoding<std::int32_t>(dtype, word); break;
        case ComputeType::i64: compare_decoding<std::int64_t>(dtype, word); break;
      }
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace lockstep
