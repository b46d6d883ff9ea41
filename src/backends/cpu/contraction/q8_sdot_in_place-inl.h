// One row times weights whose blocks are read where they lie, as a token's products are (q8.h), with NEON's `sdot`: a
// vector holds 16 codes of one column, and sums of four columns are added across lanes together. Part of q8_tile-inl.h,
// in its namespace, where q8_sdot_kernels.cpp includes that.

constexpr bool is_read_in_place(Encoding encoding) {
  return encoding == Encoding::q8_0 || encoding == Encoding::q4_0;
}

// Sums of products of a column's block of 32, four of them; `at` is the block, behind whose scale the codes begin.
template <int kForm> HWY_INLINE int32x4_t sums_of_block(const std::uint8_t* at, int8x16_t first, int8x16_t second) {
  const int32x4_t none = vdupq_n_s32(0);
  if constexpr (kQ8Forms[kForm].nibbles()) {
    const uint8x16_t both = vld1q_u8(at + 2);
    const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15)));
    const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(both, 4));
    return add_dots(add_dots(none, low, first), high, second);
  } else {
    const int8x16_t low = vreinterpretq_s8_u8(vld1q_u8(at + 2));
    const int8x16_t high = vreinterpretq_s8_u8(vld1q_u8(at + 18));
    return add_dots(add_dots(none, low, first), high, second);
  }
}

template <int kForm> HWY_NOINLINE void q8_in_place(const Q8InPlaceArgs& args) {
  constexpr Q8Form form = kQ8Forms[kForm];
  static_assert(kQ8Lanes == 4 && form.elements() == order::kQ8Block && !form.offsets() && !form.factors);
  const Tag<float> df;
  using VF = hn::Vec<decltype(df)>;
  const auto column = [&](int lane) HWY_ATTR {
    return reinterpret_cast<const std::uint8_t*>(args.weights) + args.columns[lane] / order::kQ8Block * form.bytes();
  };
  const std::uint8_t *a = column(0), *b = column(1), *c = column(2), *e = column(3);
  VF total = hn::Zero(df);
  VF partial = hn::Zero(df);
  std::ptrdiff_t at = 0;
  for (std::int64_t block = 0; block < args.blocks; ++block, at += form.bytes()) {
    const Q8Activations& row = args.row[block];
    const int8x16_t first = vld1q_s8(row.codes), second = vld1q_s8(row.codes + 16);
    const int32x4_t ab =
        vpaddq_s32(sums_of_block<kForm>(a + at, first, second), sums_of_block<kForm>(b + at, first, second));
    const int32x4_t ce =
        vpaddq_s32(sums_of_block<kForm>(c + at, first, second), sums_of_block<kForm>(e + at, first, second));
    int32x4_t sums = vpaddq_s32(ab, ce);
    if constexpr (form.zero != 0) sums = vaddq_s32(sums, vdupq_n_s32(row.shifts[0]));
    // Whatever address a block has: two bytes of each.
    const auto word = [at](const std::uint8_t* from) HWY_ATTR {
      std::uint16_t bits;
      std::memcpy(&bits, from + at, 2);
      return bits;
    };
    uint16x4_t words = vdup_n_u16(word(a));
    words = vset_lane_u16(word(b), words, 1);
    words = vset_lane_u16(word(c), words, 2);
    words = vset_lane_u16(word(e), words, 3);
    const VF scale(vcvt_f32_f16(vreinterpret_f16_u16(words)));
    VF product = hn::Mul(scale, hn::Set(df, row.scale));
    if (HWY_UNLIKELY(args.careful)) product = canonical_result(df, product);
    partial = hn::MulAdd(VF(vcvtq_f32_s32(sums)), product, partial);
    if ((block & 7) == 7 || block + 1 == args.blocks) {
      total = block < 8 ? partial : hn::Add(total, partial);
      partial = hn::Zero(df);
    }
  }
  hn::StoreU(total, df, args.results);
}
