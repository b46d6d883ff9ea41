// The kernel texts in a dialect of their own: `float`, `int` and UINT are four vectors. The functions that networks
// consist of are long chains of dependent operations. A loop over single vectors, which is what the compiler makes of
// the texts, waits for them; with four side by side the processor has enough to do, in half to two thirds of the time.
//
// No guard: included once per instruction set, inside its anonymous namespace; afterwards the macros of prelude.h are
// those of this dialect. Needs canonical-inl.h.

namespace together {

inline constexpr std::size_t kVectors = 4;

// Results v[i] for the four i.
#define LOCKSTEP_FOUR(Type, value)                                                        \
  Type result;                                                                            \
  _Pragma("GCC unroll 4") for (std::size_t i = 0; i < kVectors; ++i) result.v[i] = value; \
  return result;

struct Integers;
struct Floats {
  hn::Vec<D> v[kVectors];

  Floats() = default;
  HWY_INLINE explicit Floats(const Integers& from);
};
struct Words {
  hn::Vec<WordTag> v[kVectors];

  Words() = default;
  HWY_INLINE Words(std::uint32_t all) {  // NOLINT: as a literal among words
    for (auto& one : v) one = hn::Set(WordTag(), all);
  }
  HWY_INLINE explicit Words(const Integers& from);
};
struct Integers {
  hn::Vec<IntegerTag> v[kVectors];

  Integers() = default;
  HWY_INLINE Integers(int all) {  // NOLINT
    for (auto& one : v) one = hn::Set(IntegerTag(), all);
  }
  HWY_INLINE explicit Integers(const Words& from) {
    for (std::size_t i = 0; i < kVectors; ++i) v[i] = hn::BitCast(IntegerTag(), from.v[i]);
  }
};
struct Marks {
  hn::Mask<WordTag> v[kVectors];
};

Floats::Floats(const Integers& from) {
  for (std::size_t i = 0; i < kVectors; ++i) v[i] = hn::ConvertTo(D(), from.v[i]);
}
Words::Words(const Integers& from) {
  for (std::size_t i = 0; i < kVectors; ++i) v[i] = hn::BitCast(WordTag(), from.v[i]);
}

#define LOCKSTEP_BINARY(Type, op, function)                   \
  HWY_INLINE Type operator op(const Type& x, const Type& y) { \
    LOCKSTEP_FOUR(Type, hn::function(x.v[i], y.v[i]))         \
  }
LOCKSTEP_BINARY(Floats, +, Add)
LOCKSTEP_BINARY(Floats, -, Sub)
LOCKSTEP_BINARY(Floats, *, Mul)
LOCKSTEP_BINARY(Words, +, Add)
LOCKSTEP_BINARY(Words, -, Sub)
LOCKSTEP_BINARY(Words, *, Mul)
LOCKSTEP_BINARY(Words, &, And)
LOCKSTEP_BINARY(Words, |, Or)
LOCKSTEP_BINARY(Words, ^, Xor)
LOCKSTEP_BINARY(Words, <<, Shl)
LOCKSTEP_BINARY(Words, >>, Shr)
LOCKSTEP_BINARY(Integers, +, Add)
LOCKSTEP_BINARY(Integers, -, Sub)
#undef LOCKSTEP_BINARY

#define LOCKSTEP_COMPARISON(Type, op, mask)                    \
  HWY_INLINE Marks operator op(const Type& x, const Type& y) { \
    LOCKSTEP_FOUR(Marks, hn::RebindMask(WordTag(), mask))      \
  }
#define LOCKSTEP_COMPARISONS(Type)                      \
  LOCKSTEP_COMPARISON(Type, <, hn::Lt(x.v[i], y.v[i]))  \
  LOCKSTEP_COMPARISON(Type, >, hn::Gt(x.v[i], y.v[i]))  \
  LOCKSTEP_COMPARISON(Type, ==, hn::Eq(x.v[i], y.v[i])) \
  LOCKSTEP_COMPARISON(Type, !=, hn::Ne(x.v[i], y.v[i]))
LOCKSTEP_COMPARISONS(Floats)
LOCKSTEP_COMPARISONS(Words)
LOCKSTEP_COMPARISONS(Integers)
LOCKSTEP_COMPARISON(Floats, <=, hn::Le(x.v[i], y.v[i]))
LOCKSTEP_COMPARISON(Floats, >=, hn::Ge(x.v[i], y.v[i]))
LOCKSTEP_COMPARISON(Words, <=, hn::Not(hn::Gt(x.v[i], y.v[i])))
LOCKSTEP_COMPARISON(Words, >=, hn::Not(hn::Lt(x.v[i], y.v[i])))
#undef LOCKSTEP_COMPARISONS
#undef LOCKSTEP_COMPARISON

HWY_INLINE Marks operator||(const Marks& x,
                            const Marks& y){LOCKSTEP_FOUR(Marks, hn::Or(x.v[i], y.v[i]))} HWY_INLINE Marks
operator&&(const Marks& x, const Marks& y){LOCKSTEP_FOUR(Marks, hn::And(x.v[i], y.v[i]))} HWY_INLINE Words
operator~(const Words& x){LOCKSTEP_FOUR(Words, hn::Not(x.v[i]))} HWY_INLINE Words
operator<<(const Words& x, int bits){LOCKSTEP_FOUR(Words, hn::ShiftLeftSame(x.v[i], bits))} HWY_INLINE Words
operator>>(const Words& x, int bits){LOCKSTEP_FOUR(Words, hn::ShiftRightSame(x.v[i], bits))} HWY_INLINE Integers
operator>>(const Integers& x, int bits) {
  LOCKSTEP_FOUR(Integers, hn::ShiftRightSame(x.v[i], bits))
}

/// -x, which a multiplication and addition takes in.
struct Negated {
  const Floats& x;
  HWY_INLINE operator Floats() const { LOCKSTEP_FOUR(Floats, hn::Neg(x.v[i])) }  // NOLINT
};
HWY_INLINE Negated operator-(const Floats& x) {
  return {x};
}
HWY_INLINE Floats fma(const Floats& x, const Floats& y,
                      const Floats& z){LOCKSTEP_FOUR(Floats, hn::MulAdd(x.v[i], y.v[i], z.v[i]))} HWY_INLINE Floats
    fma(const Negated& x, const Floats& y,
        const Floats& z){LOCKSTEP_FOUR(Floats, hn::NegMulAdd(x.x.v[i], y.v[i], z.v[i]))} HWY_INLINE Floats
    fma(const Floats& x, const Floats& y,
        const Negated& z){LOCKSTEP_FOUR(Floats, hn::MulSub(x.v[i], y.v[i], z.x.v[i]))} HWY_INLINE Floats
    square_root(const Floats& x){LOCKSTEP_FOUR(Floats, hn::Sqrt(x.v[i]))} HWY_INLINE Words
    bits_of(const Floats& x){LOCKSTEP_FOUR(Words, hn::BitCast(WordTag(), x.v[i]))} HWY_INLINE Floats
    from_bits(const Words& x){
        LOCKSTEP_FOUR(Floats, hn::BitCast(D(), x.v[i]))} HWY_INLINE hn::Vec<WordTag> multiply_high(hn::Vec<WordTag> x,
                                                                                                   hn::Vec<WordTag> y) {
  const hn::RepartitionToWide<WordTag> wide;
  const auto odd_of = [wide](hn::Vec<WordTag> words)
                          HWY_ATTR { return hn::BitCast(WordTag(), hn::ShiftRight<32>(hn::BitCast(wide, words))); };
  const auto even = hn::BitCast(WordTag(), hn::ShiftRight<32>(hn::MulEven(x, y)));
  return hn::OddEven(hn::BitCast(WordTag(), hn::MulEven(odd_of(x), odd_of(y))), even);
}
HWY_INLINE Words multiply_high(const Words& x, const Words& y){LOCKSTEP_FOUR(Words, multiply_high(x.v[i], y.v[i]))}

HWY_INLINE Floats select(const Marks& where, const Floats& x, const Floats& y){
    LOCKSTEP_FOUR(Floats, hn::IfThenElse(hn::RebindMask(D(), where.v[i]), x.v[i], y.v[i]))} HWY_INLINE Words
    select(const Marks& where, const Words& x,
           const Words& y){LOCKSTEP_FOUR(Words, hn::IfThenElse(where.v[i], x.v[i], y.v[i]))} HWY_INLINE Words
    select(const Marks& where, std::uint32_t x, std::uint32_t y) {
  return select(where, Words(x), Words(y));
}
HWY_INLINE Integers select(const Marks& where, const Integers& x, const Integers& y){
    LOCKSTEP_FOUR(Integers, hn::IfThenElse(hn::RebindMask(IntegerTag(), where.v[i]), x.v[i], y.v[i]))}

HWY_INLINE Floats
    load(const float* from){LOCKSTEP_FOUR(Floats, hn::LoadU(D(), from + i * hn::Lanes(D())))} HWY_INLINE Floats
    copies(float one){LOCKSTEP_FOUR(Floats, hn::Set(D(), one))} HWY_INLINE void store(const Floats& x, float* to) {
  for (std::size_t i = 0; i < kVectors; ++i) hn::StoreU(x.v[i], D(), to + i * hn::Lanes(D()));
}
/// What math.h's of this name gives.
HWY_INLINE Floats canonical_result(const Floats& x) {
  LOCKSTEP_FOUR(Floats, with_one_nan(flushed(x.v[i])))
}
#undef LOCKSTEP_FOUR

#undef FLOAT
#undef UINT
#undef BITS
#undef FROM_BITS
#undef FMA
#undef SQRT
#undef MUL_HIGH
#undef SELECT
#define FLOAT Floats
#define UINT Words
#define BITS(x) bits_of(x)
#define FROM_BITS(u) from_bits(Words(u))
#define FMA(x, y, z) fma(x, y, z)
#define SQRT(x) square_root(x)
#define MUL_HIGH(x, y) multiply_high(x, y)
#define SELECT(condition, x, y) select(condition, x, y)
#define float Floats
#define int Integers
#define bool Marks
#include "kernels/math.h"
#undef float
#undef int
#undef bool

}  // namespace together
