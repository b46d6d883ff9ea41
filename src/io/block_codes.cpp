#include "io/block_codes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include <lockstep/dtype.h>
#include <lockstep/encoding.h>
#include <lockstep/ops.h>

#include "core/assert.h"
#include "graph/dense_data.h"
#include "graph/make.h"
#include "io/block_layout.h"
#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

/// An encoding by its codes: stored ones, unsigned but for q8_0, are `zero` above those of the matrix.
struct Form {
  Encoding encoding;
  bool offsets;
  int lowest, highest;  // of the matrix
  int zero;
};
// The smaller one first.
constexpr std::array kForms = {Form{Encoding::q4_0, false, -8, 7, 8}, Form{Encoding::q5_0, false, -16, 15, 16},
                               Form{Encoding::q8_0, false, -128, 127, 0}, Form{Encoding::q4_1, true, 0, 15, 0},
                               Form{Encoding::q5_1, true, 0, 31, 0}};

bool are_halves(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return to_f32(to_f16(value)) == value; });
}

bool have_common_groups(const std::vector<std::int32_t>& group_of) {
  if (group_of.size() % kShortBlock != 0) return false;
  for (std::size_t i = 0; i < group_of.size(); ++i) {
    if (group_of[i] != group_of[i / kShortBlock * kShortBlock]) return false;
  }
  return true;
}

const Form* form_of(const CodedMatrix& matrix) {
  if (matrix.codes.empty() || !have_common_groups(matrix.group_of)) return nullptr;
  if (!are_halves(matrix.scales) || !are_halves(matrix.offsets)) return nullptr;
  const auto [least, most] = std::ranges::minmax(matrix.codes);
  const int lowest = least;
  const int highest = most;
  const auto form = std::find_if(kForms.begin(), kForms.end(), [&](const Form& one) {
    return one.offsets == !matrix.offsets.empty() && one.lowest <= lowest && highest <= one.highest;
  });
  return form == kForms.end() ? nullptr : &*form;
}

Tensor packed_tensor(const CodedMatrix& matrix, const Form& form) {
  const std::size_t bytes = info_of(form.encoding).bytes;
  std::vector<std::uint8_t> blocks(matrix.codes.size() / kShortBlock * bytes);
  const auto blocks_of_row = static_cast<std::size_t>(matrix.columns / kShortBlock);
  std::uint8_t* block = blocks.data();
  const std::int16_t* given = matrix.codes.data();
  for (std::size_t row = 0; row < static_cast<std::size_t>(matrix.rows); ++row) {
    for (std::size_t b = 0; b < blocks_of_row; ++b, block += bytes, given += kShortBlock) {
      const std::size_t at =
          row * static_cast<std::size_t>(matrix.groups) + static_cast<std::size_t>(matrix.group_of[b * kShortBlock]);
      std::uint8_t* to = block;
      put_half(to, matrix.scales[at]);
      to += sizeof(std::uint16_t);
      if (form.offsets) {
        put_half(to, matrix.offsets[at]);
        to += sizeof(std::uint16_t);
      }
      if (form.encoding == Encoding::q8_0) {
        for (int i = 0; i < kShortBlock; ++i) to[i] = static_cast<std::uint8_t>(given[i]);
        continue;
      }
      int codes[kShortBlock];
      for (int i = 0; i < kShortBlock; ++i) codes[i] = given[i] + form.zero;
      if (form.highest - form.lowest > 15) {
        put_fifth_bits(to, codes);
        to += kShortBlock / 8;
      }
      put_nibbles(to, codes);
    }
  }
  return Tensor::from_blocks(blocks.data(), blocks.size(), {matrix.rows, matrix.columns}, form.encoding);
}

}  // namespace

Tensor tensor_of(const CodedMatrix& matrix, bool packed) {
  if (const Form* form = packed ? form_of(matrix) : nullptr) return packed_tensor(matrix, *form);
  std::vector<float> values(matrix.codes.size());
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t column = 0; column < matrix.columns; ++column) {
      const auto i = static_cast<std::size_t>(row * matrix.columns + column);
      const auto at = static_cast<std::size_t>(row * matrix.groups + matrix.group_of[static_cast<std::size_t>(column)]);
      const float product = static_cast<float>(matrix.codes[i]) * matrix.scales[at];
      values[i] = matrix.offsets.empty() ? product : product + matrix.offsets[at];
    }
  }
  return Tensor::from(values, {matrix.rows, matrix.columns});
}

namespace {

// By what is known of the scales.
Encoding encoding_of(const ScaledFloats& matrix) {
  if (matrix.floats.dtype() == DType::f8e5m2) return Encoding::e5m2;
  LOCKSTEP_ASSERT(matrix.floats.dtype() == DType::f8e4m3);
  if (matrix.wide >= matrix.floats.shape()[1]) return Encoding::e4m3_rows;
  return matrix.tall % 128 == 0 || matrix.tall >= matrix.floats.shape()[0] ? Encoding::e4m3_squares : Encoding::e4m3;
}

}  // namespace

Tensor tensor_of(const ScaledFloats& matrix, bool packed) {
  const Encoding encoding = encoding_of(matrix);
  const Shape shape = matrix.floats.shape();
  const auto rows = static_cast<std::size_t>(shape[0]);
  const auto columns = static_cast<std::size_t>(shape[1]);
  const auto tall = static_cast<std::size_t>(matrix.tall);
  const auto wide = static_cast<std::size_t>(matrix.wide);
  const std::size_t across = (columns + wide - 1) / wide;
  const graph::DenseData held = graph::dense_data(graph::node_of(matrix.floats));
  const auto* code = reinterpret_cast<const std::uint8_t*>(held.buffer->data()) + held.offset;
  const auto each = static_cast<std::size_t>(info_of(encoding).elements);
  if (!packed || columns % each != 0 || (wide % each != 0 && wide < columns)) {
    std::vector<float> values(rows * columns);
    float decoded[256];
    for (unsigned i = 0; i < 256; ++i)
      decoded[i] = holds_e4m3(encoding) ? scalar::e4m3_value(i) : scalar::e5m2_value(i);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float scale = matrix.scales[i / columns / tall * across + i % columns / wide];
      values[i] = scalar::canonical_f32(decoded[code[i]] * scalar::operand_f32(scale));
    }
    return Tensor::from(values, shape);
  }
  const std::size_t bytes = info_of(encoding).bytes;
  const auto blocks = std::make_shared<std::vector<std::uint8_t>>(rows * columns / each * bytes);
  std::uint8_t* to = blocks->data();
  for (std::size_t row = 0; row < rows; ++row) {
    const float* const scales = matrix.scales.data() + row / tall * across;
    for (std::size_t column = 0; column < columns; column += each, code += each, to += bytes) {
      std::memcpy(to, scales + column / wide, sizeof(float));
      std::memcpy(to + sizeof(float), code, each);
    }
  }
  return Tensor::from_blob(blocks->data(), shape, encoding, [blocks] {});
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
