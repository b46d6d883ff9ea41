// Products of states and weights of bytes, summed in 32 bits: 16-bit pairs by what every instruction set has, and with
// AVX-512 VNNI unsigned by signed bytes, in functions of their own target, since it is not part of Highway's AVX-512.
// No guard: included once per instruction set, inside its anonymous namespace. Needs recurrence_cells-inl.h.

struct DotArgs {
  std::int64_t words = 0;                ///< of a row's multipliers
  const std::int32_t* states = nullptr;  ///< [rows][state_stride]
  std::int64_t state_stride = 0;
  const std::byte* weight = nullptr;  ///< [words][stride][group]
  std::int64_t stride = 0;
  std::int32_t* results = nullptr;  ///< [rows][stride]
};

// sum + the products of pairs.
HWY_INLINE hn::Vec<IntegerTag> add_pairs(hn::Vec<hn::Repartition<std::int16_t, IntegerTag>> a,
                                         hn::Vec<hn::Repartition<std::int16_t, IntegerTag>> b,
                                         hn::Vec<IntegerTag> sum) {
  const IntegerTag d;
  auto odd = hn::Zero(d);
#if HWY_TARGET == HWY_NEON
  const auto even = hn::ReorderWidenMulAccumulate(d, a, b, hn::Zero(d), odd);
  return hn::Add(sum, hn::RearrangeToOddPlusEven(even, odd));
#else
  return hn::ReorderWidenMulAccumulate(d, a, b, sum, odd);
#endif
}

template <int kRows, int kVectors> HWY_INLINE void dot_pairs(const DotArgs& args, std::int64_t column) {
  const IntegerTag d;
  const hn::Repartition<std::int16_t, IntegerTag> d16;
  const hn::Rebind<std::int8_t, decltype(d16)> d8;
  hn::Vec<IntegerTag> sum[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  const auto* weight = reinterpret_cast<const std::int8_t*>(args.weight) + 2 * column;
  for (std::int64_t k = 0; k < args.words; ++k, weight += 2 * args.stride) {
    hn::Vec<decltype(d16)> columns[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::PromoteTo(d16, hn::LoadU(d8, weight + 2 * v * lanes()));
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const auto state = hn::BitCast(d16, hn::Set(d, args.states[r * args.state_stride + k]));
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] = add_pairs(state, columns[v], sum[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, args.results + r * args.stride + column + v * lanes());
  }
}

/// From `column` on; what is left of the widest tiles by narrower ones.
template <int kRows, int kVectors> HWY_INLINE void all_pairs(const DotArgs& args, std::int64_t column = 0) {
  for (; column + kVectors * lanes() <= args.stride; column += kVectors * lanes()) {
    dot_pairs<kRows, kVectors>(args, column);
  }
  if constexpr (kVectors > 1) all_pairs<kRows, kVectors / 2>(args, column);
}

void pairs_of_rows(const DotArgs& args, std::int64_t rows) {
  switch (rows) {
    case 1: all_pairs<1, 8>(args); break;
    case 2: all_pairs<2, 4>(args); break;
    case 3: all_pairs<3, 2>(args); break;
    default: all_pairs<4, 2>(args); break;
  }
}

#if HWY_TARGET == HWY_AVX3

#define LOCKSTEP_VNNI __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx512vnni,fma")))

template <int kRows, int kVectors> LOCKSTEP_VNNI void dot_quads(const DotArgs& args, std::int64_t column) {
  __m512i sum[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_si512();
  }
  const std::byte* weight = args.weight + 4 * column;
  for (std::int64_t k = 0; k < args.words; ++k, weight += 4 * args.stride) {
    __m512i columns[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) columns[v] = _mm512_loadu_si512(weight + 64 * v);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m512i state = _mm512_set1_epi32(args.states[r * args.state_stride + k]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], state, columns[v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_si512(args.results + r * args.stride + column + 16 * v, sum[r][v]);
  }
}

template <int kRows, int kVectors> LOCKSTEP_VNNI void all_quads(const DotArgs& args, std::int64_t column = 0) {
  for (; column + kVectors * 16 <= args.stride; column += kVectors * 16) dot_quads<kRows, kVectors>(args, column);
  if constexpr (kVectors > 1) all_quads<kRows, kVectors / 2>(args, column);
}

void quads_of_rows(const DotArgs& args, std::int64_t rows) {
  switch (rows) {
    case 1: all_quads<1, 8>(args); break;
    case 2: all_quads<2, 4>(args); break;
    case 3: all_quads<3, 4>(args); break;
    default: all_quads<4, 4>(args); break;
  }
}

#undef LOCKSTEP_VNNI

#endif
