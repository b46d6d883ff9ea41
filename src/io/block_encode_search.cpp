// Encoders of the block types of 256 elements, and of those with a table of values: for each group of elements a search
// for the scale (and minimum) of least error, then a second level of codes for the scales. The searches are those of
// ggml's reference code without an importance matrix, operation by operation, so that the bytes are its own.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <lockstep/dtype.h>

#include "io/block_encode.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr int kBigBlock = 256;
// Groups whose largest magnitude is below it are zeros.
constexpr float kLeastMagnitude = 1e-15f;

using Codes = std::array<std::uint8_t, kBigBlock>;

float half(const std::uint8_t* bytes) {
  Float16 value;
  std::memcpy(&value.bits, bytes, sizeof value.bits);
  return to_f32(value);
}
void set_half(std::uint8_t* bytes, float value) {
  const std::uint16_t bits = to_f16(value).bits;
  std::memcpy(bytes, &bits, sizeof bits);
}

// Halves to even, for magnitudes below 2^22.
int nearest(float value) {
  const float shifted = value + 12582912.0f;
  std::int32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  return (bits & 0x007fffff) - 0x00400000;
}
int nearest_code(float value, int least, int most) {
  return std::clamp(nearest(value), least, most);
}

// The first of the largest magnitudes, with its sign; 0 for a group of zeros.
float extreme(const float* x, int n) {
  const float* found = std::max_element(x, x + n, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  return std::fabs(*found) < kLeastMagnitude ? 0.0f : *found;
}

/// What a sum over codes says of the scale that fits them best.
struct Fit {
  float with_values = 0;  // weight * value * code
  float with_codes = 0;   // weight * code * code

  void add(float weight, float value, float code) {
    with_values += weight * value * code;
    with_codes += weight * code * code;
  }
  bool better_than(float best) const { return with_codes > 0 && with_values * with_values > best * with_codes; }
};

/// A scale and a minimum: x is about scale * code - minimum.
struct Range {
  float scale = 0;
  float minimum = 0;
};

/// How to look for them: `steps` + 1 inverse scales around (most + first) / width.
struct RangeSearch {
  int most;  // code
  float first;
  float step;
  int steps;
  bool absolute;  // the error is a sum of magnitudes, not of squares
};

Range search_range(const float* x, const float* weights, int n, const RangeSearch& how, std::uint8_t* codes) {
  const auto most = static_cast<float>(how.most);
  float low = x[0];
  float high = x[0];
  float sum_weights = weights[0];
  float sum_values = sum_weights * x[0];
  for (int i = 1; i < n; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
    sum_weights += weights[i];
    sum_values += weights[i] * x[i];
  }
  if (low > 0) low = 0;
  if (high == low) {
    std::fill_n(codes, n, std::uint8_t{0});
    return {0, -low};
  }
  const auto error_of = [&](const std::uint8_t* with, float scale, float minimum) {
    float error = 0;
    for (int i = 0; i < n; ++i) {
      const float product = scale * static_cast<float>(with[i]);
      const float shifted = product + minimum;
      const float difference = shifted - x[i];
      error += weights[i] * (how.absolute ? std::fabs(difference) : difference * difference);
    }
    return error;
  };
  const auto encode = [&](float inverse, float minimum, std::uint8_t* into) {
    for (int i = 0; i < n; ++i) {
      into[i] = static_cast<std::uint8_t>(nearest_code(inverse * (x[i] - minimum), 0, how.most));
    }
  };
  const float inverse = most / (high - low);
  float scale = 1 / inverse;
  float minimum = low;
  encode(inverse, minimum, codes);
  float best = error_of(codes, scale, minimum);
  std::array<std::uint8_t, 32> tried;
  for (int step = 0; step <= how.steps; ++step) {
    const float moved = how.first + how.step * static_cast<float>(step);
    // From the minimum that is the best so far, over the width of the values.
    encode((moved + most) / (high - low), low, tried.data());
    float sum_codes = 0;
    float sum_squares = 0;
    float sum_products = 0;
    for (int i = 0; i < n; ++i) {
      const auto code = static_cast<float>(tried[static_cast<std::size_t>(i)]);
      sum_codes += weights[i] * code;
      sum_squares += weights[i] * code * code;
      sum_products += weights[i] * code * x[i];
    }
    const float determinant = sum_weights * sum_squares - sum_codes * sum_codes;
    if (!(determinant > 0)) continue;
    float own_scale = (sum_weights * sum_products - sum_values * sum_codes) / determinant;
    float own_minimum = (sum_squares * sum_values - sum_codes * sum_products) / determinant;
    if (own_minimum > 0) {
      own_minimum = 0;
      own_scale = sum_products / sum_squares;
    }
    const float error = error_of(tried.data(), own_scale, own_minimum);
    if (!(error < best)) continue;
    std::copy_n(tried.data(), n, codes);
    best = error;
    scale = own_scale;
    minimum = own_minimum;
    low = minimum;
  }
  return {scale, -minimum};
}

// Codes from -half to half - 1, stored with `half` added; each value counts by its square.
float search_scale(const float* x, int n, int half_range, std::uint8_t* codes) {
  const float largest = extreme(x, n);
  if (largest == 0) {
    std::fill_n(codes, n, std::uint8_t{0});
    return 0;
  }
  const auto fit_of = [&](float inverse) {
    Fit fit;
    for (int i = 0; i < n; ++i) {
      const int code = nearest_code(inverse * x[i], -half_range, half_range - 1);
      fit.add(x[i] * x[i], x[i], static_cast<float>(code));
    }
    return fit;
  };
  const auto encode = [&](float inverse) {
    for (int i = 0; i < n; ++i) {
      codes[i] = static_cast<std::uint8_t>(half_range + nearest_code(inverse * x[i], -half_range, half_range - 1));
    }
  };
  const float first = static_cast<float>(-half_range) / largest;
  Fit fit = fit_of(first);
  encode(first);
  float scale = fit.with_codes != 0 ? fit.with_values / fit.with_codes : 0.0f;
  float best = scale * fit.with_values;
  for (int step = -9; step <= 9; ++step) {
    if (step == 0) continue;
    const float inverse = -(static_cast<float>(half_range) + 0.1f * static_cast<float>(step)) / largest;
    fit = fit_of(inverse);
    if (!fit.better_than(best)) continue;
    encode(inverse);
    scale = fit.with_values / fit.with_codes;
    best = scale * fit.with_values;
  }
  return scale;
}

// The same for Q3_K: codes are moved one by one as long as the fit becomes better.
float search_scale_by_moves(const float* x, int n, int half_range, std::uint8_t* codes) {
  const float largest = extreme(x, n);
  if (largest == 0) {
    std::fill_n(codes, n, std::uint8_t{0});
    return 0;
  }
  constexpr int kRounds = 5;
  const float inverse = static_cast<float>(-half_range) / largest;
  std::array<int, 16> now;
  Fit fit;
  for (int i = 0; i < n; ++i) {
    const int code = nearest_code(inverse * x[i], -half_range, half_range - 1);
    now[static_cast<std::size_t>(i)] = code;
    fit.add(x[i] * x[i], x[i], static_cast<float>(code));
  }
  for (int round = 0; round < kRounds; ++round) {
    bool changed = false;
    for (int i = 0; i < n; ++i) {
      const float weight = x[i] * x[i];
      const auto code = static_cast<float>(now[static_cast<std::size_t>(i)]);
      Fit moved = fit;
      moved.with_values -= weight * x[i] * code;
      if (!(moved.with_values > 0)) continue;
      moved.with_codes -= weight * code * code;
      const int next = nearest_code(x[i] * moved.with_codes / moved.with_values, -half_range, half_range - 1);
      if (next == now[static_cast<std::size_t>(i)]) continue;
      moved.add(weight, x[i], static_cast<float>(next));
      const bool better = moved.with_codes > 0 && moved.with_values * moved.with_values * fit.with_codes >
                                                      fit.with_values * fit.with_values * moved.with_codes;
      if (!better) continue;
      now[static_cast<std::size_t>(i)] = next;
      fit = moved;
      changed = true;
    }
    if (!changed) break;
  }
  for (int i = 0; i < n; ++i) codes[i] = static_cast<std::uint8_t>(now[static_cast<std::size_t>(i)] + half_range);
  return fit.with_codes > 0 ? fit.with_values / fit.with_codes : 0.0f;
}

// Two bits each: of 128 elements those that are 32 apart share a byte.
void put_quarters(std::uint8_t* bytes, const Codes& codes) {
  for (std::size_t j = 0; j < kBigBlock; j += 128) {
    for (std::size_t l = j; l < j + 32; ++l) {
      *bytes++ = static_cast<std::uint8_t>(codes[l] | codes[l + 32] << 2 | codes[l + 64] << 4 | codes[l + 96] << 6);
    }
  }
}

/// The eight groups of 32 of Q4_K and Q5_K: scales and minima of 6 bits, then codes by what these decode to.
void encode_groups_of_32(const float* x, std::uint8_t* block, const RangeSearch& how, Codes& codes) {
  constexpr int kGroups = 8;
  constexpr int kGroup = 32;
  std::array<Range, kGroups> ranges;
  float most_scale = 0;
  float most_minimum = 0;
  for (int j = 0; j < kGroups; ++j) {
    const float* own = x + kGroup * j;
    float squares = 0;
    for (int l = 0; l < kGroup; ++l) squares += own[l] * own[l];
    const float mean = std::sqrt(squares / kGroup);
    std::array<float, kGroup> weights;
    for (int l = 0; l < kGroup; ++l) weights[static_cast<std::size_t>(l)] = mean + std::fabs(own[l]);
    Range& range = ranges[static_cast<std::size_t>(j)];
    range = search_range(own, weights.data(), kGroup, how, codes.data() + kGroup * j);
    most_scale = std::max(most_scale, range.scale);
    most_minimum = std::max(most_minimum, range.minimum);
  }
  const float inverse_scale = most_scale > 0 ? 63.0f / most_scale : 0.0f;
  const float inverse_minimum = most_minimum > 0 ? 63.0f / most_minimum : 0.0f;
  set_half(block, most_scale / 63.0f);
  set_half(block + 2, most_minimum / 63.0f);
  std::uint8_t* packed = block + 4;
  std::memset(packed, 0, 12);
  for (int j = 0; j < kGroups; ++j) {
    const Range& range = ranges[static_cast<std::size_t>(j)];
    const auto scale = static_cast<std::uint8_t>(
        std::min(63, static_cast<int>(static_cast<std::uint8_t>(nearest(inverse_scale * range.scale)))));
    const auto minimum = static_cast<std::uint8_t>(
        std::min(63, static_cast<int>(static_cast<std::uint8_t>(nearest(inverse_minimum * range.minimum)))));
    if (j < 4) {
      packed[j] = scale;
      packed[j + 4] = minimum;
    } else {
      packed[j + 4] = static_cast<std::uint8_t>((scale & 15) | (minimum & 15) << 4);
      packed[j - 4] = static_cast<std::uint8_t>(packed[j - 4] | scale >> 4 << 6);
      packed[j] = static_cast<std::uint8_t>(packed[j] | minimum >> 4 << 6);
    }
    const float d = half(block) * static_cast<float>(scale);
    if (d == 0) continue;
    const float m = half(block + 2) * static_cast<float>(minimum);
    for (int l = kGroup * j; l < kGroup * (j + 1); ++l) {
      codes[static_cast<std::size_t>(l)] = static_cast<std::uint8_t>(nearest_code((x[l] + m) / d, 0, how.most));
    }
  }
}

constexpr std::array<std::int8_t, 16> kTableOfIq4 = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};

float value_of_iq4(std::uint8_t code) {
  return static_cast<float>(kTableOfIq4[code]);
}
// Of two values that are as near the larger one.
std::uint8_t nearest_of_iq4(float x) {
  const auto above = std::upper_bound(kTableOfIq4.begin(), kTableOfIq4.end(), x,
                                      [](float a, std::int8_t b) { return a < static_cast<float>(b); });
  if (above == kTableOfIq4.begin()) return 0;
  if (above == kTableOfIq4.end()) return 15;
  const auto code = static_cast<std::uint8_t>(above - kTableOfIq4.begin());
  const bool lower = x - value_of_iq4(static_cast<std::uint8_t>(code - 1)) < value_of_iq4(code) - x;
  return static_cast<std::uint8_t>(lower ? code - 1 : code);
}

// The scale of 32 elements.
float search_scale_of_iq4(const float* x) {
  constexpr int kGroup = 32;
  constexpr int kTries = 7;
  const float largest = extreme(x, kGroup);
  if (largest == 0) return 0;
  const auto fit_of = [&](float inverse) {
    Fit fit;
    for (int i = 0; i < kGroup; ++i) {
      const float value = value_of_iq4(nearest_of_iq4(inverse * x[i]));
      const float weight = x[i] * x[i];
      fit.with_values += weight * value * x[i];
      fit.with_codes += weight * value * value;
    }
    return fit;
  };
  Fit fit = fit_of(1 / (-largest / value_of_iq4(0)));
  float scale = fit.with_values / fit.with_codes;
  float best = scale * fit.with_values;
  for (int tried = -kTries; tried <= kTries; ++tried) {
    fit = fit_of((static_cast<float>(tried) + value_of_iq4(0)) / largest);
    if (!fit.better_than(best)) continue;
    scale = fit.with_values / fit.with_codes;
    best = scale * fit.with_values;
  }
  return scale;
}

// The codes of 32 elements, those that are 16 apart in a byte.
void put_iq4(const float* x, float inverse, std::uint8_t* bytes) {
  for (int i = 0; i < 16; ++i) {
    bytes[i] = static_cast<std::uint8_t>(nearest_of_iq4(inverse * x[i]) | nearest_of_iq4(inverse * x[i + 16]) << 4);
  }
}

float inverse_or_zero(float scale) {
  return scale != 0 ? 1 / scale : 0.0f;
}

}  // namespace

// 16 bytes of scales and minima, 64 of codes, d, dmin.
void encode_q2_k(const float* x, std::uint8_t* block) {
  constexpr int kGroups = 16;
  constexpr int kGroup = 16;
  constexpr float kMost = 15;
  constexpr RangeSearch kHow{.most = 3, .first = -0.5f, .step = 0.1f, .steps = 15, .absolute = true};
  Codes codes;
  std::array<Range, kGroups> ranges;
  float most_scale = 0;
  float most_minimum = 0;
  for (int j = 0; j < kGroups; ++j) {
    std::array<float, kGroup> weights;
    for (int l = 0; l < kGroup; ++l) weights[static_cast<std::size_t>(l)] = std::fabs(x[kGroup * j + l]);
    Range& range = ranges[static_cast<std::size_t>(j)];
    range = search_range(x + kGroup * j, weights.data(), kGroup, kHow, codes.data() + kGroup * j);
    most_scale = std::max(most_scale, range.scale);
    most_minimum = std::max(most_minimum, range.minimum);
  }
  std::uint8_t* halves = block + 80;
  set_half(halves, most_scale > 0 ? most_scale / kMost : 0.0f);
  set_half(halves + 2, most_minimum > 0 ? most_minimum / kMost : 0.0f);
  const float inverse_scale = most_scale > 0 ? kMost / most_scale : 0.0f;
  const float inverse_minimum = most_minimum > 0 ? kMost / most_minimum : 0.0f;
  for (int j = 0; j < kGroups; ++j) {
    const Range& range = ranges[static_cast<std::size_t>(j)];
    const int scale = nearest(inverse_scale * range.scale);
    const int minimum = nearest(inverse_minimum * range.minimum);
    block[j] = static_cast<std::uint8_t>(scale | minimum << 4);
    const float d = half(halves) * static_cast<float>(block[j] & 15);
    if (d == 0) continue;
    const float m = half(halves + 2) * static_cast<float>(block[j] >> 4);
    for (int l = kGroup * j; l < kGroup * (j + 1); ++l) {
      codes[static_cast<std::size_t>(l)] = static_cast<std::uint8_t>(nearest_code((x[l] + m) / d, 0, kHow.most));
    }
  }
  put_quarters(block + 16, codes);
}

// 32 bytes of highest bits, 64 of lower ones, 12 of scales of 6 bits, d.
void encode_q3_k(const float* x, std::uint8_t* block) {
  constexpr int kGroups = 16;
  constexpr int kGroup = 16;
  Codes codes;
  std::array<float, kGroups> scales;
  for (int j = 0; j < kGroups; ++j) {
    scales[static_cast<std::size_t>(j)] = search_scale_by_moves(x + kGroup * j, kGroup, 4, codes.data() + kGroup * j);
  }
  const float largest =
      *std::max_element(scales.begin(), scales.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  std::uint8_t* packed = block + 96;
  std::uint8_t* d16 = block + 108;
  std::memset(packed, 0, 12);
  const float inverse = largest != 0 ? -32.0f / largest : 0.0f;
  set_half(d16, largest != 0 ? 1 / inverse : 0.0f);
  for (int j = 0; j < kGroups; ++j) {
    const int code = largest != 0 ? nearest_code(inverse * scales[static_cast<std::size_t>(j)], -32, 31) : -32;
    const int stored = code + 32;
    packed[j % 8] = static_cast<std::uint8_t>(packed[j % 8] | (stored & 15) << (j < 8 ? 0 : 4));
    packed[8 + j % 4] = static_cast<std::uint8_t>(packed[8 + j % 4] | stored >> 4 << (2 * (j / 4)));
    const float d = half(d16) * static_cast<float>(code);
    if (d == 0) continue;
    for (int l = kGroup * j; l < kGroup * (j + 1); ++l) {
      codes[static_cast<std::size_t>(l)] = static_cast<std::uint8_t>(nearest_code(x[l] / d, -4, 3) + 4);
    }
  }
  std::memset(block, 0, 32);
  for (std::size_t l = 0; l < kBigBlock; ++l) {
    block[l % 32] = static_cast<std::uint8_t>(block[l % 32] | (codes[l] >> 2) << (l / 32));
    codes[l] &= 3;
  }
  put_quarters(block + 32, codes);
}

// d, dmin, 12 bytes of scales and minima, 128 of codes.
void encode_q4_k(const float* x, std::uint8_t* block) {
  Codes codes;
  encode_groups_of_32(x, block, {.most = 15, .first = -1.0f, .step = 0.1f, .steps = 20, .absolute = false}, codes);
  std::uint8_t* bytes = block + 16;
  for (std::size_t j = 0; j < kBigBlock; j += 64) {
    for (std::size_t l = j; l < j + 32; ++l) *bytes++ = static_cast<std::uint8_t>(codes[l] | codes[l + 32] << 4);
  }
}

// d, dmin, 12 bytes of scales and minima, 32 of highest bits, 128 of lower ones.
void encode_q5_k(const float* x, std::uint8_t* block) {
  Codes codes;
  encode_groups_of_32(x, block, {.most = 31, .first = -0.5f, .step = 0.1f, .steps = 15, .absolute = false}, codes);
  std::uint8_t* highest = block + 16;
  std::uint8_t* bytes = block + 48;
  std::memset(highest, 0, 32);
  for (std::size_t j = 0; j < kBigBlock; j += 64) {
    for (std::size_t l = 0; l < 32; ++l) {
      const int low = codes[j + l];
      const int high = codes[j + l + 32];
      highest[l] = static_cast<std::uint8_t>(highest[l] | (low >> 4) << (j / 32) | (high >> 4) << (j / 32 + 1));
      *bytes++ = static_cast<std::uint8_t>((low & 15) | (high & 15) << 4);
    }
  }
}

// 128 bytes of lower bits, 64 of higher ones, 16 scales, d.
void encode_q6_k(const float* x, std::uint8_t* block) {
  constexpr int kGroups = 16;
  constexpr int kGroup = 16;
  Codes codes;
  std::array<float, kGroups> scales;
  for (int j = 0; j < kGroups; ++j) {
    scales[static_cast<std::size_t>(j)] = search_scale(x + kGroup * j, kGroup, 32, codes.data() + kGroup * j);
  }
  const float largest =
      *std::max_element(scales.begin(), scales.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  std::memset(block, 0, 210);
  if (std::fabs(largest) < kLeastMagnitude) return;
  const float inverse = -128.0f / largest;
  std::uint8_t* d16 = block + 208;
  set_half(d16, 1 / inverse);
  for (int j = 0; j < kGroups; ++j) {
    const int scale = std::min(127, nearest(inverse * scales[static_cast<std::size_t>(j)]));
    block[192 + j] = static_cast<std::uint8_t>(scale);
    const float d = half(d16) * static_cast<float>(scale);
    if (d == 0) continue;
    for (int l = kGroup * j; l < kGroup * (j + 1); ++l) {
      codes[static_cast<std::size_t>(l)] = static_cast<std::uint8_t>(nearest_code(x[l] / d, -32, 31) + 32);
    }
  }
  std::uint8_t* low = block;
  std::uint8_t* high = block + 128;
  for (std::size_t j = 0; j < kBigBlock; j += 128, low += 64, high += 32) {
    for (std::size_t l = 0; l < 32; ++l) {
      const std::uint8_t* own = codes.data() + j + l;
      low[l] = static_cast<std::uint8_t>((own[0] & 15) | (own[64] & 15) << 4);
      low[l + 32] = static_cast<std::uint8_t>((own[32] & 15) | (own[96] & 15) << 4);
      high[l] = static_cast<std::uint8_t>(own[0] >> 4 | own[32] >> 4 << 2 | own[64] >> 4 << 4 | own[96] >> 4 << 6);
    }
  }
}

// d, 16 bytes of codes.
void encode_iq4_nl(const float* x, std::uint8_t* block) {
  const float scale = search_scale_of_iq4(x);
  set_half(block, scale);
  put_iq4(x, inverse_or_zero(scale), block + 2);
}

// d, the higher bits of 8 scales of 6 bits, the lower ones, 128 bytes of codes.
void encode_iq4_xs(const float* x, std::uint8_t* block) {
  constexpr int kGroups = 8;
  constexpr int kGroup = 32;
  std::array<float, kGroups> scales;
  for (int j = 0; j < kGroups; ++j) scales[static_cast<std::size_t>(j)] = search_scale_of_iq4(x + kGroup * j);
  const float largest =
      *std::max_element(scales.begin(), scales.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const float d = -largest / 32;
  set_half(block, d);
  const float inverse = inverse_or_zero(d);
  unsigned higher = 0;
  std::memset(block + 4, 0, 4);
  for (int j = 0; j < kGroups; ++j) {
    const int code = nearest_code(inverse * scales[static_cast<std::size_t>(j)], -32, 31);
    put_iq4(x + kGroup * j, inverse_or_zero(d * static_cast<float>(code)), block + 8 + 16 * j);
    const int stored = code + 32;
    block[4 + j / 2] = static_cast<std::uint8_t>(block[4 + j / 2] | (stored & 15) << (j % 2 * 4));
    higher |= static_cast<unsigned>(stored >> 4) << (2 * j);
  }
  block[2] = static_cast<std::uint8_t>(higher & 255);
  block[3] = static_cast<std::uint8_t>(higher >> 8);
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
