// Cooperative matrices of bytes (KernelText::byte_matrices) in plain GLSL, for Vulkan devices without them: operands
// stay in the kernel's shared array until they are multiplied. Which sums are whose differs from NVIDIA's.
#pragma once

#include <string>

namespace lockstep::test {

inline std::string with_soft_matrices(std::string text) {
  constexpr const char* kWords = R"(
#define TEAM (gl_LocalInvocationIndex >> 5)
struct Bytes { int at; int between; };
#define BYTES_16_BY_32 Bytes
#define BYTES_32_BY_16 Bytes
#define SUMS_16_BY_16 int[8]
#define TAKE_ROWS(m, s, i, step) { m.at = i; m.between = step; }
#define TAKE_COLUMNS(m, s, i, step) TAKE_ROWS(m, s, i, step)
#define PLACE_OF_SUM(e) int(((((gl_LocalInvocationIndex & 31u) << 3) | uint(e)) * 77u + 5u) & 255u)
#define TAKE_SUMS(m, s, i, step) for (int e_ = 0; e_ < 8; e_++) { int p_ = PLACE_OF_SUM(e_); m[e_] = int(s[(i) + (p_ >> 4) * (step) + ((p_ & 15) >> 2)][p_ & 3]); }
#define FILL_SUMS(m, value) for (int e_ = 0; e_ < 8; e_++) m[e_] = value;
int soft_byte(int four, int k) { return bitfieldExtract(int(tile_digits[four + (k >> 4)][(k >> 2) & 3]), (k & 3) * 8, 8); }
int soft_dot(Bytes rows, Bytes columns, int place) {
  int sum = 0;
  for (int k = 0; k < 32; k++) sum += soft_byte(rows.at + (place >> 4) * rows.between, k) * soft_byte(columns.at + (place & 15) * columns.between, k);
  return sum;
}
#define MULTIPLY_MATRICES(m, rows, columns) for (int e_ = 0; e_ < 8; e_++) m[e_] += soft_dot(rows, columns, PLACE_OF_SUM(e_));
#define PUT_FOUR(s, i, words4) s[i] = uvec4(words4[0], words4[1], words4[2], words4[3]);
#define TAKE_FOUR(s, i, words4) { uvec4 v = s[i]; words4[0] = v.x; words4[1] = v.y; words4[2] = v.z; words4[3] = v.w; }
#define WORD_OF_FOURS(s, i) s[(i) >> 2][(i) & 3]
)";
  return text.insert(text.find("layout(local_size_x"), kWords);
}

}  // namespace lockstep::test
