// Integer products of codes in q8 numerics with NEON's `sdot`, which multiplies and adds four neighbours along k of
// every lane, all signed: weights by one quad of a row's 16. Part of q8_dots-inl.h, in its namespace, where
// q8_sdot_kernels.cpp includes that.

/// What is added to an encoding's codes, so that they are not negative: as they lie in panels.
constexpr int raise_of(Q8Form form) {
  return form.zero;
}
/// What makes up for that, of a group whose activations' codes have this sum (Q8Activations::shifts).
template <int kForm> std::int32_t shift_of(std::int32_t sum) {
  return -raise_of(kQ8Forms[kForm]) * sum;
}

/// The sums I (docs/numerics.md section 14) of 32 k, of a panel's columns and each row; `group`: the first factor.
template <int kForm, int kRows>
HWY_INLINE void block_products(const std::byte* codes, const std::byte* factors, int group, const Q8Activations* rows,
                               std::int64_t row_stride, hn::Vec<Tag<float> >* sums) {
  constexpr Q8Form form = kQ8Forms[kForm];
  const Q8D d;
  const Q8D8 d8;
  const Tag<float> df;
  Q8V8 row[kRows][2];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    row[r][0] = hn::LoadU(d8, rows[r * row_stride].codes);
    row[r][1] = hn::LoadU(d8, rows[r * row_stride].codes + 16);
  }
  Q8V8 both = hn::Zero(d8);
  const auto add_group = [&]<int g>(std::integral_constant<int, g>) HWY_ATTR __attribute__((always_inline)) {
    Q8V sum[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      sum[r] = raise_of(form) == 0 ? hn::Zero(d) : hn::Set(d, rows[r * row_stride].shifts[g]);
    }
    const auto add = [&]<int kStep>(std::integral_constant<int, kStep>) HWY_ATTR __attribute__((always_inline)) {
      constexpr int kQuad = quad_at<kForm>(g, kStep);
      const Q8V8 weights = load_quad<kForm>(codes, kQuad, both);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        sum[r] = Q8V(add_dots<kQuad % 4>(sum[r].raw, weights.raw, row[r][kQuad / 4].raw));
      }
    };
    [add]<int... kSteps>(std::integer_sequence<int, kSteps...>) HWY_ATTR __attribute__((always_inline)) {
      (add(std::integral_constant<int, kSteps>()), ...);
    }(std::make_integer_sequence<int, form.group() / 4>());
    if constexpr (form.factors) {  // all these integers are floats, too
      const auto factor = number_of_group(factors, group + g);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const auto number = hn::ConvertTo(df, sum[r]);
        sums[r] = g == 0 ? hn::Mul(number, factor) : hn::MulAdd(number, factor, sums[r]);
      }
    } else {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sums[r] = hn::ConvertTo(df, sum[r]);
    }
  };
  add_group(std::integral_constant<int, 0>());
  if constexpr (form.groups() == 2) add_group(std::integral_constant<int, 1>());
}
