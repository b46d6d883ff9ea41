// The loops that connect buffers with compute types: loads, stores, casts, words, iota and random words. What a cast
// means stands in kernels/cast.h.
#define HWY_TARGET_INCLUDE "backends/cpu/row/convert_table.cpp"
#include "backends/cpu/simd_table.h"

#include <cstring>
#include <type_traits>

#include "backends/cpu/row/tables.h"
#include "kernels/prelude.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

#include "kernels/texts.h"

/// Per dtype: the stored Word, the compute type Value, and the way between them.
template <DType dtype>
struct Format;

#define INTEGER_FORMAT(dtype, Stored, Value_)                                                           \
  template <>                                                                                           \
  struct Format<DType::dtype> {                                                                         \
    using Word = std::make_unsigned_t<Stored>;                                                          \
    using Value = Value_;                                                                               \
    static HWY_INLINE Value decode(Word word) { return static_cast<Value>(static_cast<Stored>(word)); } \
    static HWY_INLINE Value decode_canonical(Word word) { return decode(word); }                        \
    static HWY_INLINE Word encode(Value value) { return static_cast<Word>(value); }                     \
    template <typename T>                                                                               \
    static HWY_INLINE Value cast(T value) {                                                             \
      return cast_##dtype(value);                                                                       \
    }                                                                                                   \
  };
INTEGER_FORMAT(u8, std::uint8_t, std::int32_t)
INTEGER_FORMAT(i8, std::int8_t, std::int32_t)
INTEGER_FORMAT(i16, std::int16_t, std::int32_t)
INTEGER_FORMAT(i32, std::int32_t, std::int32_t)
INTEGER_FORMAT(i64, std::int64_t, std::int64_t)
INTEGER_FORMAT(u32, std::uint32_t, std::int64_t)
#undef INTEGER_FORMAT

#define OTHER_FORMAT(dtype, cast_function, Word_, Value_, decode_, decode_canonical_, encode_) \
  template <>                                                                                  \
  struct Format<DType::dtype> {                                                                \
    using Word = Word_;                                                                        \
    using Value = Value_;                                                                      \
    static HWY_INLINE Value decode(Word word) { return decode_; }                              \
    static HWY_INLINE Value decode_canonical(Word word) { return decode_canonical_; }          \
    static HWY_INLINE Word encode(Value value) { return static_cast<Word>(encode_); }          \
    template <typename T>                                                                      \
    static HWY_INLINE Value cast(T value) {                                                    \
      return cast_function(value);                                                             \
    }                                                                                          \
  };
OTHER_FORMAT(boolean, cast_bool, std::uint8_t, std::int32_t, word, word, value)
OTHER_FORMAT(f16, cast_f16, std::uint16_t, float, decode_f16(word), decode_f16(word), encode_f16(value))
OTHER_FORMAT(bf16, cast_bf16, std::uint16_t, float, decode_bf16(word), FROM_BITS(UINT(word) << 16), encode_bf16(value))
OTHER_FORMAT(f32, cast_f32, std::uint32_t, float, operand_f32(FROM_BITS(word)), FROM_BITS(word), BITS(value))
OTHER_FORMAT(f64, cast_f64, std::uint64_t, double, FROM_BITS64(word), FROM_BITS64(word), BITS64(value))
#undef OTHER_FORMAT

/// The signed word type that carries Word in a program.
template <typename Word>
using Carrier = std::conditional_t<sizeof(Word) == 8, std::int64_t, std::int32_t>;

// Buffers may be unaligned, so elements travel by memcpy, which is one instruction (and vectorises).
template <typename Word>
HWY_INLINE Word read(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}
template <typename Word>
HWY_INLINE void write(std::byte* to, Word word) {
  std::memcpy(to, &word, sizeof word);
}

// Vectors of f16 where the processor converts them: to nearest even, subnormals kept, as encode_f16 and decode_f16 do
// one by one. Each returns how many of n elements it took.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
using F32 = hn::ScalableTag<float>;
using F16 = hn::Rebind<hwy::float16_t, F32>;
using Floats = hn::Vec<F32>;

HWY_INLINE Floats with_one_nan(Floats x) {
  const auto nan = hn::BitCast(F32(), hn::Set(hn::RebindToUnsigned<F32>(), 0x7fc00000u));
  return hn::IfThenElse(hn::IsNaN(x), nan, x);
}
HWY_INLINE hn::Vec<F16> halves_at(const float* x) {
  return hn::DemoteTo(F16(), with_one_nan(hn::LoadU(F32(), x)));
}
template <class Fn> HWY_INLINE std::size_t each_vector(std::size_t n, Fn fn) {
  const std::size_t width = hn::Lanes(F32());
  std::size_t i = 0;
  for (; i + width <= n; i += width) fn(i);
  return i;
}
std::size_t load_halves(float* out, const std::byte* from, std::size_t n) {
  const auto* const words = reinterpret_cast<const hwy::float16_t*>(from);
  return each_vector(n, [&](std::size_t i) HWY_ATTR {
    hn::StoreU(with_one_nan(hn::PromoteTo(F32(), hn::LoadU(F16(), words + i))), F32(), out + i);
  });
}
std::size_t store_halves(std::byte* to, const float* values, std::size_t n) {
  auto* const words = reinterpret_cast<hwy::float16_t*>(to);
  return each_vector(n, [&](std::size_t i) HWY_ATTR { hn::StoreU(halves_at(values + i), F16(), words + i); });
}
std::size_t round_to_halves(float* out, const float* values, std::size_t n) {
  return each_vector(
      n, [&](std::size_t i) HWY_ATTR { hn::StoreU(hn::PromoteTo(F32(), halves_at(values + i)), F32(), out + i); });
}
#else
std::size_t load_halves(float*, const std::byte*, std::size_t) {
  return 0;
}
std::size_t store_halves(std::byte*, const float*, std::size_t) {
  return 0;
}
std::size_t round_to_halves(float*, const float*, std::size_t) {
  return 0;
}
#endif

struct Decode {
  template <DType d>
  static HWY_INLINE auto apply(typename Format<d>::Word word) {
    return Format<d>::decode(word);
  }
};
struct DecodeCanonical {
  template <DType d>
  static HWY_INLINE auto apply(typename Format<d>::Word word) {
    return Format<d>::decode_canonical(word);
  }
};
struct Bits {
  template <DType d>
  static HWY_INLINE auto apply(typename Format<d>::Word word) {
    return static_cast<Carrier<typename Format<d>::Word>>(word);
  }
};

template <class How, DType d>
void load(void* out, const std::byte* from, std::int64_t stride, std::size_t n) {
  using Word = typename Format<d>::Word;
  using Value = decltype(How::template apply<d>(Word()));
  auto* value = static_cast<Value*>(out);
  if (stride == 1) {
    std::size_t first = 0;
    if constexpr (d == DType::f16 && std::is_same_v<Value, float>) first = load_halves(value, from, n);
    LOCKSTEP_INDEPENDENT
    for (std::size_t i = first; i < n; ++i) value[i] = How::template apply<d>(read<Word>(from + i * sizeof(Word)));
  } else if (stride == 0) {
    const Value one = n == 0 ? Value(0) : How::template apply<d>(read<Word>(from));
    for (std::size_t i = 0; i < n; ++i) value[i] = one;
  } else {
    const std::int64_t step = stride * static_cast<std::int64_t>(sizeof(Word));
    for (std::size_t i = 0; i < n; ++i, from += step) value[i] = How::template apply<d>(read<Word>(from));
  }
}

struct Encode {
  template <DType d>
  using Source = typename Format<d>::Value;
  template <DType d>
  static HWY_INLINE auto apply(Source<d> value) {
    return Format<d>::encode(value);
  }
};
struct EncodeBits {
  template <DType d>
  using Source = Carrier<typename Format<d>::Word>;
  template <DType d>
  static HWY_INLINE auto apply(Source<d> value) {
    return static_cast<typename Format<d>::Word>(value);
  }
};

template <class How, DType d>
void store(std::byte* to, std::int64_t stride, const void* values, std::size_t n) {
  using Word = typename Format<d>::Word;
  const auto* value = static_cast<const typename How::template Source<d>*>(values);
  if (stride == 1) {
    std::size_t first = 0;
    if constexpr (d == DType::f16 && std::is_same_v<How, Encode>) first = store_halves(to, value, n);
    LOCKSTEP_INDEPENDENT
    for (std::size_t i = first; i < n; ++i) write<Word>(to + i * sizeof(Word), How::template apply<d>(value[i]));
  } else {
    const std::int64_t step = stride * static_cast<std::int64_t>(sizeof(Word));
    for (std::size_t i = 0; i < n; ++i, to += step) write<Word>(to, How::template apply<d>(value[i]));
  }
}

template <DType from, DType to>
void cast(void* out, const void* a, const void*, const void*, std::size_t n) {
  const auto* x = static_cast<const typename Format<from>::Value*>(a);
  auto* result = static_cast<typename Format<to>::Value*>(out);
  std::size_t first = 0;
  if constexpr (from == DType::f32 && to == DType::f16) first = round_to_halves(result, x, n);
  LOCKSTEP_INDEPENDENT
  for (std::size_t i = first; i < n; ++i) result[i] = Format<to>::cast(x[i]);
}

template <DType d>
void to_bits(void* out, const void* a, const void*, const void*, std::size_t n) {
  using Word = typename Format<d>::Word;
  const auto* x = static_cast<const typename Format<d>::Value*>(a);
  auto* result = static_cast<Carrier<Word>*>(out);
  LOCKSTEP_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) result[i] = static_cast<Carrier<Word>>(Format<d>::encode(x[i]));
}

template <DType d>
void from_bits(void* out, const void* a, const void*, const void*, std::size_t n) {
  using Word = typename Format<d>::Word;
  const auto* x = static_cast<const Carrier<Word>*>(a);
  auto* result = static_cast<typename Format<d>::Value*>(out);
  LOCKSTEP_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) result[i] = Format<d>::decode(static_cast<Word>(x[i]));
}

template <typename T>
void splat(void* out, const void* a, const void*, const void*, std::size_t n) {
  const T value = *static_cast<const T*>(a);
  auto* result = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; ++i) result[i] = value;
}

template <typename T>
void make_canonical(void* out, const void* a, const void*, const void*, std::size_t n) {
  const auto* x = static_cast<const T*>(a);
  auto* result = static_cast<T*>(out);
  LOCKSTEP_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) result[i] = canonical(x[i]);
}

void widen(void* out, const void* a, const void*, const void*, std::size_t n) {
  const auto* x = static_cast<const std::int32_t*>(a);
  auto* result = static_cast<std::int64_t*>(out);
  for (std::size_t i = 0; i < n; ++i) result[i] = x[i];
}

void random_words(void* out, const void* a, const void* b, const void* c, std::size_t n) {
  const auto* position = static_cast<const std::uint64_t*>(a);
  const std::uint64_t seed = *static_cast<const std::uint64_t*>(b);
  const std::uint64_t draw = *static_cast<const std::uint64_t*>(c);
  const auto low = [](std::uint64_t x) HWY_ATTR { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) HWY_ATTR { return static_cast<std::uint32_t>(x >> 32); };
  auto* word = static_cast<std::uint32_t*>(out);
  for (std::size_t i = 0; i < n; ++i) {
    word[i] = philox_word(low(seed), high(seed), low(draw), high(draw), low(position[i]), high(position[i]));
  }
}

void iota(std::int64_t* out, std::int64_t start, std::int64_t step, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = start + step * static_cast<std::int64_t>(i);
}

void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t width = hn::Lanes(d);
  const std::size_t head = (width - reinterpret_cast<std::uintptr_t>(to) % width) % width;
  if (bytes < head + width) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  std::size_t i = head;
  for (; i + width <= bytes; i += width) {
    hn::Stream(hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(from + i)), d, reinterpret_cast<std::uint8_t*>(to + i));
  }
  std::memcpy(to + i, from + i, bytes - i);
}

template <DType from>
void fill_casts(ConvertTable& table) {
  auto& row = table.cast[index_of(from)];
#define LOCKSTEP_DTYPE(name, ...) \
  if constexpr (!is_storage_only(DType::name)) row[index_of(DType::name)] = cast<from, DType::name>;
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE
}

template <DType d>
void fill(ConvertTable& table) {
  const std::size_t i = index_of(d);
  if constexpr (!is_storage_only(d)) {
    table.load[i] = load<Decode, d>;
    table.load_canonical[i] = load<DecodeCanonical, d>;
    table.load_bits[i] = load<Bits, d>;
    table.store[i] = store<Encode, d>;
    table.store_bits[i] = store<EncodeBits, d>;
    table.to_bits[i] = to_bits<d>;
    table.from_bits[i] = from_bits<d>;
  }
}

template <typename T>
void fill_type(ConvertTable& table, ComputeType type) {
  table.splat[index_of(type)] = splat<T>;
  table.canonical[index_of(type)] = make_canonical<T>;
}

ConvertTable make_table() {
  ConvertTable table;
#define LOCKSTEP_DTYPE(name, ...) fill<DType::name>(table);
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE
  // Casts depend on the compute type of their source alone.
  fill_casts<DType::i32>(table);
  fill_casts<DType::i64>(table);
  fill_casts<DType::f32>(table);
  fill_casts<DType::f64>(table);
  for (std::size_t d = 0; d < table.cast.size(); ++d) {
    const auto dtype = static_cast<DType>(d);
    if (!is_storage_only(dtype)) table.cast[d] = table.cast[index_of(dtype_of(compute_type(dtype)))];
  }
  fill_type<float>(table, ComputeType::f32);
  fill_type<double>(table, ComputeType::f64);
  fill_type<std::int32_t>(table, ComputeType::i32);
  fill_type<std::int64_t>(table, ComputeType::i64);
  table.widen = widen;
  table.random = random_words;
  table.iota = iota;
  table.stream = stream;
  return table;
}

}  // namespace

LOCKSTEP_TARGET_END(ConvertTable, convert_table, make_table())
