// The lemmas that NeededRoundings rests on, tried on every value of 16 bits (f16 and bf16), and what follows from them:
// programs computed with the roundings that are left, on a device that makes the worst of its freedom, store the words
// that all roundings give.
#include "backends/gpu/renderer/needed_roundings.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/scalar.h"

namespace lockstep {
namespace {

using namespace gpu;
using Kind = Instruction::Kind;

constexpr std::uint32_t kNan = 0x7fc00000U;
constexpr std::uint32_t kWords = 0x10000U;

float of_bf16(std::uint32_t word) {
  return FROM_BITS(word << 16);
}
bool is_small(float x) {
  return (BITS(x) & 0x7fffffffU) <= 0x00800000U;
}
bool is_clean(float x) {
  return !is_small(x) || (BITS(x) << 1) == 0;
}
float zero_of(float x) {
  return FROM_BITS(BITS(x) & 0x80000000U);
}

/// The rows of ops.def that take floats: the bits of the result, before it is canonical; comparisons give 0 or 1.
struct FloatOp {
  Op op;
  std::uint32_t (*bits)(float a, float b);
  const OpInfo& info() const { return info_of(op); }
  /// The canonical result.
  std::uint32_t operator()(float a, float b = 0.0F) const {
    const std::uint32_t result = bits(a, b);
    return info().kind == OpKind::arithmetic ? BITS(scalar::canonical(FROM_BITS(result))) : result;
  }
  Instruction instruction() const {
    Instruction step;
    step.kind = Kind::elementwise;
    step.op = op;
    step.type = info().kind == OpKind::arithmetic ? ComputeType::f32 : ComputeType::i32;
    step.a = 0;
    step.b = info().arity > 1 ? 0 : -1;
    return step;
  }
};
template <typename T> std::uint32_t bits_of(T result) {
  if constexpr (std::is_same_v<T, float>) return BITS(result);
  return static_cast<std::uint32_t>(result);
}
const std::vector<FloatOp>& float_ops() {
  static const std::vector<FloatOp> all = [] {
    std::vector<FloatOp> ops = {
#define ROW(name, ...) {Op::name, [](float a, float b) { return bits_of(scalar::row_##name<float>(a, b, 0.0F)); }},
#include "kernels/ops.def"
#undef ROW
    };
    std::erase_if(
        ops, [](const FloatOp& op) { return (op.info().types & kTypeF32) == 0 || op.info().kind == OpKind::move; });
    return ops;
  }();
  return all;
}

/// Calls of(x, y) with x in one place of an op and all values of bf16 in the other, if it has two.
void in_every_place(const FloatOp& op, float x, const std::function<void(float, float)>& of) {
  if (op.info().arity == 1) return of(x, 0.0F);
  for (std::uint32_t word = 0; word < kWords; ++word) {
    of(x, of_bf16(word));
    of(of_bf16(word), x);
  }
}

TEST(ExhaustiveRoundingLemma, RoundingTo16BitsMakesCanonical) {
  // All upper halves, so all words of bf16 and f16, with lower halves on both sides of every tie.
  for (std::uint32_t word = 0; word < kWords; ++word) {
    for (const std::uint32_t low : {0x0000U, 0x0001U, 0x0fffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const float x = FROM_BITS(word << 16 | low);
      const float canonical = scalar::canonical(x);
      ASSERT_EQ(scalar::encode_bf16(x), scalar::encode_bf16(canonical)) << x;
      ASSERT_EQ(scalar::encode_f16(x), scalar::encode_f16(canonical)) << x;
      ASSERT_EQ(BITS(scalar::cast_bf16(x)), BITS(scalar::canonical(scalar::cast_bf16(canonical)))) << x;
      ASSERT_EQ(BITS(scalar::cast_f16(x)), BITS(scalar::canonical(scalar::cast_f16(canonical)))) << x;
      // Once more changes nothing, and the word of what is rounded to bf16 is the upper half of its bits.
      ASSERT_EQ(BITS(scalar::cast_bf16(scalar::cast_bf16(x))), BITS(scalar::cast_bf16(x))) << x;
      ASSERT_EQ(BITS(scalar::cast_f16(scalar::cast_f16(x))), BITS(scalar::cast_f16(x))) << x;
      ASSERT_EQ(scalar::encode_bf16(x), BITS(scalar::cast_bf16(x)) >> 16) << x;
    }
  }
}

TEST(ExhaustiveRoundingLemma, ValuesOfF16AreClean) {
  for (std::uint32_t word = 0; word < kWords; ++word) ASSERT_TRUE(is_clean(scalar::decode_f16(word))) << word;
}

TEST(ExhaustiveRoundingLemma, TakesAnyNan) {
  int ops = 0;
  for (const FloatOp& op : float_ops()) {
    if (!takes_any_nan(op.instruction())) continue;
    ++ops;
    const auto same = [&](float nan) {
      for (const bool first : {true, false}) {
        if (op.info().arity == 1) {
          ASSERT_EQ(op(nan), op(FROM_BITS(kNan))) << op.info().name << " of " << std::hex << BITS(nan);
          continue;
        }
        for (std::uint32_t word = 0; word < kWords; ++word) {
          const float y = of_bf16(word);
          ASSERT_EQ(first ? op(nan, y) : op(y, nan), first ? op(FROM_BITS(kNan), y) : op(y, FROM_BITS(kNan)))
              << op.info().name << " of " << std::hex << BITS(nan) << " and " << y;
        }
      }
    };
    if (op.info().arity == 1) {
      for (std::uint32_t word = 0x7f81U; word <= 0x7fffU; ++word) {
        same(of_bf16(word));
        same(of_bf16(word | 0x8000U));
      }
    }
    for (const std::uint32_t bits : {0x7f800001U, 0x7fffffffU, 0xff800001U, 0xffffffffU}) same(FROM_BITS(bits));
  }
  EXPECT_GT(ops, 50);
  // What looks at a NaN's sign must not be among them.
  for (const Op op : {Op::signbit, Op::copysign}) {
    const auto found =
        std::find_if(float_ops().begin(), float_ops().end(), [op](const FloatOp& f) { return f.op == op; });
    ASSERT_NE(found, float_ops().end());
    EXPECT_FALSE(takes_any_nan(found->instruction()));
    EXPECT_NE((*found)(op == Op::signbit ? FROM_BITS(kNan) : 1.0F, FROM_BITS(kNan)),
              (*found)(op == Op::signbit ? FROM_BITS(0xffc00000U) : 1.0F, FROM_BITS(0xffc00000U)));
  }
  for (const std::uint32_t bits : {0x7f800001U, 0x7fffffffU, 0xff800001U, 0xffffffffU}) {
    const float nan = FROM_BITS(bits);
    EXPECT_EQ(BITS(scalar::cast_f32(nan)), kNan);
    EXPECT_EQ(BITS64(scalar::cast_f64(nan)), BITS64(scalar::cast_f64(FROM_BITS(kNan))));
    EXPECT_EQ(scalar::cast_i32(nan), scalar::cast_i32(FROM_BITS(kNan)));
    EXPECT_EQ(scalar::cast_i64(nan), scalar::cast_i64(FROM_BITS(kNan)));
    EXPECT_EQ(scalar::cast_bool(nan), scalar::cast_bool(FROM_BITS(kNan)));
    EXPECT_EQ(scalar::max_key(nan), scalar::max_key(FROM_BITS(kNan)));  // reductions
    EXPECT_EQ(scalar::min_key(nan), scalar::min_key(FROM_BITS(kNan)));
  }
}

TEST(ExhaustiveRoundingLemma, TakesSmall) {
  int ops = 0;
  for (const FloatOp& op : float_ops()) {
    if (!takes_small(op.instruction())) continue;
    ++ops;
    ASSERT_EQ(op.info().arity, 1);
    for (std::uint32_t bits = 0; bits <= 0x00800000U; ++bits) {
      for (const float x : {FROM_BITS(bits), FROM_BITS(bits | 0x80000000U)}) {
        ASSERT_EQ(op(x), op(zero_of(x))) << op.info().name << " of " << x;
      }
    }
  }
  EXPECT_EQ(ops, 2);
}

TEST(ExhaustiveRoundingLemma, TakesAnyZero) {
  int ops = 0;
  for (const FloatOp& op : float_ops()) {
    if (!takes_any_zero(op.instruction())) continue;
    ++ops;
    in_every_place(op, 0.0F, [&](float a, float b) {
      ASSERT_EQ(op(a, b), op(BITS(a) == 0 ? -0.0F : a, BITS(b) == 0 ? -0.0F : b)) << op.info().name;
      ASSERT_EQ(op(a, b), op(BITS(a) == 0 ? -0.0F : a, b)) << op.info().name;
      ASSERT_EQ(op(a, b), op(a, BITS(b) == 0 ? -0.0F : b)) << op.info().name;
    });
  }
  EXPECT_EQ(ops, 10);
}

TEST(ExhaustiveRoundingLemma, PassesZero) {
  int ops = 0;
  for (const FloatOp& op : float_ops()) {
    if (!passes_zero(op.instruction(), 0)) continue;
    ++ops;
    in_every_place(op, 0.0F, [&](float a, float b) {
      const auto same = [&](float x, float y) {
        const std::uint32_t result = op(a, b);
        const std::uint32_t other = op(x, y);
        ASSERT_TRUE(result == other || (result << 1 == 0 && other << 1 == 0)) << op.info().name << " " << a << " " << b;
      };
      if (BITS(a) == 0) same(-0.0F, b);
      if (BITS(b) == 0) same(a, -0.0F);
    });
  }
  EXPECT_EQ(ops, 4);
}

TEST(ExhaustiveRoundingLemma, GivesOperands) {
  int ops = 0;
  for (const FloatOp& op : float_ops()) {
    if (!gives_operands(op.instruction())) continue;
    ++ops;
    for (std::uint32_t word = 0; word < kWords; ++word) {
      const float a = of_bf16(word);
      for (const float b : {0.0F, -0.0F, 1.0F, -1.0F, 0x1.8p-126F, -0x1.8p-126F, INFINITY, -INFINITY, std::nanf("")}) {
        const float result = FROM_BITS(op.bits(a, b));
        const std::uint32_t magnitude = BITS(result) << 1;
        ASSERT_TRUE(magnitude == 0 || magnitude == BITS(a) << 1 || magnitude == BITS(b) << 1) << op.info().name;
        ASSERT_TRUE(is_clean(result) || !is_clean(a) || !is_clean(b)) << op.info().name << " " << a << " " << b;
      }
    }
  }
  EXPECT_EQ(ops, 5);
}

TEST(ExhaustiveRoundingLemma, GivesClean) {
  int ops = 0;
  for (const FloatOp& op : float_ops()) {
    if (!gives_clean(op.instruction())) continue;
    ++ops;
    for (std::uint32_t word = 0; word < kWords; ++word) {
      ASSERT_TRUE(is_clean(FROM_BITS(op.bits(of_bf16(word), 0.0F)))) << op.info().name << " " << of_bf16(word);
      ASSERT_TRUE(is_clean(FROM_BITS(op.bits(scalar::decode_f16(word), 0.0F)))) << op.info().name;
    }
  }
  EXPECT_EQ(ops, 1);
}

// ProgramWriter's second ways, each where only a rounding to bf16 takes the result.

TEST(ExhaustiveRoundingLemma, GeluOfBf16IsRoundedFromAShorterOne) {
  for (std::uint32_t word = 0; word < kWords; ++word) {
    const float x = of_bf16(word);  // small ones, too: gelu takes them
    ASSERT_EQ(scalar::encode_bf16(scalar::ls_gelu_to_bf16(x)), scalar::encode_bf16(scalar::ls_gelu(x))) << x;
  }
}

TEST(ExhaustiveRoundingLemma, NextToNoMiddleTheNeighboursOfAQuotientRoundAlike) {
  // What quick_quotient_to_bf16 answers for: all lower halves, and upper halves of all kinds.
  for (std::uint32_t high = 0; high < kWords; high += high < 0x100U || high >= 0xff00U ? 1 : 0x3bU) {
    for (std::uint32_t low = 0; low < kWords; ++low) {
      const float q = FROM_BITS(high << 16 | low);
      float quotient;
      if (!scalar::quick_quotient_to_bf16(q, 1.0F, quotient) || q != q) continue;
      ASSERT_EQ(BITS(quotient), BITS(q));
      for (const float near : {FROM_BITS(BITS(q) - 1), FROM_BITS(BITS(q) + 1)}) {
        if ((BITS(near) ^ BITS(q)) >> 31 != 0 || near != near) continue;
        ASSERT_EQ(scalar::encode_bf16(near), scalar::encode_bf16(q)) << q;
      }
    }
  }
}

TEST(ExhaustiveRoundingLemma, QuotientsOfBf16AreThoseOfDivision) {
  // All numerators; all significands of divisors, with exponents at the ends and in the middle of where it answers.
  std::uint64_t answered = 0;
  for (const std::uint32_t exponent : {0x3780U, 0x3f80U, 0x5d00U}) {
    for (std::uint32_t significand = 0; significand < 0x80U; ++significand) {
      const float d = of_bf16(exponent + significand);
      const float inverse = 1.0F / d;
      for (std::uint32_t word = 0; word < kWords; ++word) {
        const float x = scalar::decode_bf16(word);
        const float full = scalar::canonical(x / d);
        float quotient;
        if (scalar::quick_quotient(x, d, inverse, quotient)) {
          ++answered;
          ASSERT_EQ(BITS(quotient), BITS(full)) << x << " / " << d;
        }
        if (scalar::quick_quotient_to_bf16(x, inverse, quotient)) {
          ++answered;
          ASSERT_EQ(scalar::encode_bf16(quotient), scalar::encode_bf16(full)) << x << " / " << d;
        }
      }
    }
  }
  EXPECT_GT(answered, std::uint64_t{3} * 0x80 * kWords);
}

TEST(ExhaustiveRoundingLemma, QuotientsOfF16AreThoseOfDivision) {
  for (std::uint32_t significand = 0; significand < 0x400U; ++significand) {
    const float d = scalar::decode_f16(0x3c00U + significand);
    const float inverse = 1.0F / d;
    for (std::uint32_t word = 0x3c00U; word < 0x4400U; ++word) {  // two exponents: more change nothing
      const float x = scalar::decode_f16(word);
      float quotient;
      if (!scalar::quick_quotient(x, d, inverse, quotient)) FAIL() << x << " / " << d;
      ASSERT_EQ(BITS(quotient), BITS(x / d)) << x << " / " << d;
      if (!scalar::quick_quotient_to_bf16(x, inverse, quotient)) continue;
      ASSERT_EQ(scalar::encode_bf16(quotient), scalar::encode_bf16(x / d)) << x << " / " << d;
    }
  }
}

// --- programs

/// One element of a program of a load, unary ops and casts, whose outputs are stored as ProgramWriter stores them.
class Element {
 public:
  Element(const Program& program, bool all_roundings)
      : program_(program), roundings_(program), all_(all_roundings), values_(program.code.size()) {
    for (const Instruction& step : program.code) {
      const auto op =
          std::find_if(float_ops().begin(), float_ops().end(), [&](const FloatOp& f) { return f.op == step.op; });
      ops_.push_back(step.kind == Kind::elementwise ? &*op : nullptr);
    }
  }

  std::uint64_t outputs(std::uint32_t word) {
    for (std::size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& step = program_.code[i];
      const Rounding rounding = all_ ? Rounding::canonical : roundings_.results[i];
      const float a = step.a < 0 ? 0.0F : values_[static_cast<std::size_t>(step.a)];
      if (ops_[i] != nullptr) {
        values_[i] = rounded(DType::f32, FROM_BITS(ops_[i]->bits(a, 0.0F)), rounding);
      } else if (step.kind == Kind::cast) {
        values_[i] = rounded(step.dtype, a, rounding);
      } else {
        const float x = step.dtype == DType::f16 ? scalar::decode_f16(word) : scalar::decode_bf16(word);
        values_[i] = step.dtype == DType::f16 && rounding == Rounding::flushed ? any_nan(x) : x;
      }
    }
    std::uint64_t words = 0;
    for (const Output& output : program_.outputs) {
      const auto value = static_cast<std::size_t>(output.value);
      const float x = values_[value];
      const std::uint32_t stored = output.dtype == DType::f32        ? BITS(x)
                                   : output.dtype == DType::f16      ? scalar::encode_f16(x)
                                   : !all_ && roundings_.bf16[value] ? BITS(x) >> 16
                                                                     : scalar::encode_bf16(x);
      words = words << 32 | stored;
    }
    return words;
  }

 private:
  /// What a device may make of a NaN where it may be any.
  static float any_nan(float x) { return x != x ? FROM_BITS(0xffffffffU) : x; }
  static float flushed(float x) { return is_small(x) ? zero_of(x) : x; }

  static float rounded(DType dtype, float x, Rounding rounding) {
    if (rounding == Rounding::none) return any_nan(x);
    if (dtype == DType::f32) {
      return rounding == Rounding::canonical ? scalar::canonical(x)
             : rounding == Rounding::flushed ? any_nan(flushed(x))
                                             : any_nan(x);
    }
    const bool half = dtype == DType::f16;
    if (rounding == Rounding::canonical) return half ? scalar::cast_f16(x) : scalar::cast_bf16(x);
    const float nearest = half ? scalar::cast_f16(x) : FROM_BITS(scalar::nearest_bf16(x) << 16);
    return any_nan(rounding == Rounding::flushed ? flushed(nearest) : nearest);
  }

  const Program& program_;
  NeededRoundings roundings_;
  bool all_;
  std::vector<const FloatOp*> ops_;
  std::vector<float> values_;
};

/// Programs of one input, step by step.
struct Chain {
  Program program;
  explicit Chain(DType dtype) {
    program.inputs.resize(1);
    program.inputs[0].dtype = dtype;
    Instruction load;
    load.dtype = dtype;
    load.index = 0;
    program.code.push_back(load);
  }
  int last() const { return static_cast<int>(program.code.size()) - 1; }
  int op(Op which) {
    Instruction step;
    step.kind = Kind::elementwise;
    step.op = which;
    step.a = last();
    program.code.push_back(step);
    return last();
  }
  int cast(DType dtype) {
    Instruction step;
    step.kind = Kind::cast;
    step.from = step.dtype = dtype;
    step.a = last();
    program.code.push_back(step);
    return last();
  }
  void store(int value, DType dtype) {
    Output output;
    output.dtype = dtype;
    output.value = value;
    program.outputs.push_back(output);
  }
};

void expect_same_words(const Chain& chain, const std::string& what) {
  Element exact(chain.program, true);
  Element free(chain.program, false);
  for (std::uint32_t word = 0; word < kWords; ++word) {
    ASSERT_EQ(exact.outputs(word), free.outputs(word)) << what << " of " << std::hex << word;
  }
}

// One after the other, each rounded to its dtype: from op to op, into memory, and both.
TEST(ExhaustiveNeededRoundings, ChainsOfOpsStoreTheWordsThatAllRoundingsGive) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const FloatOp& first : float_ops()) {
      if (first.info().arity != 1 || first.info().kind != OpKind::arithmetic) continue;
      // One of each kind: takes small numbers; gives its operand; neither.
      const bool all = dtype == DType::bf16;
      for (const Op second : all ? std::vector{Op::exp, Op::relu, Op::floor} : std::vector{Op::exp}) {
        for (const bool rounds : {false, true}) {
          for (const bool stores : {false, true}) {
            Chain chain(dtype);
            int value = chain.op(first.op);
            if (rounds) value = chain.cast(dtype);
            if (stores) chain.store(value, rounds ? dtype : DType::f32);
            chain.store(chain.op(second), dtype);
            expect_same_words(chain, std::string(first.info().name) + ", " + info_of(second).name +
                                         (rounds ? ", rounded" : "") + (stores ? ", stored" : ""));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
