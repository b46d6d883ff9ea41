#include "backends/cpu/contraction/epilogue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/quads.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

// Epilogues with rows up to this long run as one long row.
constexpr std::int64_t kFlatColumns = 15;
// Of results that are turned, what fills whole lines where they come from, and what stays in the first cache.
constexpr std::int64_t kTogether = 16;
constexpr std::int64_t kTurnedBytes = 16 << 10;

/// The program with all dimensions inner. Without reductions, values per row may as well be values per element.
Program flattened(Program program) {
  for (const std::int64_t size : program.inner) program.rows.push_back(size);
  program.inner = program.rows;
  program.rows = {};
  for (Instruction& instruction : program.code) instruction.extent = Extent::vector;
  return program;
}

/// rows x columns out of columns x rows, `stride` words apart. Sixteen columns at a time fill whole cache lines.
template <typename Word>
void transpose_words(const Word* source, std::int64_t stride, std::int64_t rows, std::int64_t columns, Word* target) {
  for (std::int64_t c0 = 0; c0 < columns; c0 += kTogether) {
    const std::int64_t c1 = std::min(c0 + kTogether, columns);
    std::int64_t r = 0;
    if constexpr (sizeof(Word) == 4) {
      for (; r + kQuad <= rows && c1 - c0 == kTogether; r += kQuad) {
        for (std::int64_t c = c0; c < c1; c += kQuad) {
          transpose_quad(reinterpret_cast<const std::byte*>(source + c * stride + r), stride * 4,
                         reinterpret_cast<std::byte*>(target + r * columns + c), columns * 4);
        }
      }
    }
    for (; r < rows; ++r) {
      for (std::int64_t c = c0; c < c1; ++c) target[r * columns + c] = source[c * stride + r];
    }
  }
}

}  // namespace

Epilogue::Epilogue(const Program& program, const Plan& plan, std::int64_t element_size, Isa isa)
    : plan_(plan),
      element_size_(element_size),
      flat_(plan.n <= kFlatColumns),
      program_(RowProgram::epilogue(flat_ ? flattened(program) : program, isa)),
      output_(program_.streams() ? std::nullopt : output_lines(program)),
      operand_(operand_lines(program)) {}

std::optional<Epilogue::SlotLines> Epilogue::lines_of(const Program& program, int slot, std::int64_t offset,
                                                      const Shape& strides, DType dtype) {
  const int rows = program.rows.rank();
  const auto stride_of = [&](const Shape& sizes, int first) {
    Group group{.sizes = sizes, .strides = {}, .coefficients = {}};
    for (int d = 0; d < sizes.rank(); ++d) group.strides.push_back(strides[first + d]);
    return group.single_stride();
  };
  const auto row_stride = stride_of(program.rows, 0);
  const auto inner_stride = stride_of(program.inner, rows);
  if (!row_stride || !inner_stride) return std::nullopt;
  const auto size = static_cast<std::ptrdiff_t>(size_of(dtype));
  if (*row_stride <= 0 || *inner_stride <= 0 || std::min(*row_stride, *inner_stride) != 1) return std::nullopt;
  return SlotLines{
      .slot = slot, .offset = offset * size, .row_stride = *row_stride * size, .inner_stride = *inner_stride * size};
}

std::optional<Epilogue::SlotLines> Epilogue::output_lines(const Program& program) {
  if (program.outputs.empty()) return std::nullopt;
  const Output& output = program.outputs[0];
  return lines_of(program, output.slot, output.offset, output.strides, output.dtype);
}

std::optional<Epilogue::SlotLines> Epilogue::operand_lines(const Program& program) {
  for (const Input& input : program.inputs) {
    if (input.encoding != Encoding::dense || !input.view.bounds.empty()) continue;
    const auto lines = lines_of(program, input.slot, input.view.offset, input.view.strides, input.dtype);
    if (lines) return lines;
  }
  return std::nullopt;
}

Lines Epilogue::lines(const SlotLines& lines, const Binding& binding, std::int64_t row, std::int64_t n) const {
  std::byte* const data = binding.slots[static_cast<std::size_t>(lines.slot)] + lines.offset + row * lines.row_stride +
                          n * lines.inner_stride;
  if (plan_.swapped) return {.data = data, .row_stride = lines.inner_stride, .column_stride = lines.row_stride};
  return {.data = data,
          .row_stride = lines.row_stride,
          .column_stride = lines.inner_stride,
          .image_gap = plan_.n_batch_map(1) * plan_.m * lines.row_stride - plan_.n * lines.inner_stride};
}

Destination Epilogue::destination(const Binding& binding, const Block& block) const {
  if (!output_ && !operand_) return {};
  std::int64_t m = block.row, m_count = block.rows;
  std::int64_t n = block.column, n_count = block.columns;
  if (plan_.swapped) {
    std::swap(m, n);
    std::swap(m_count, n_count);
  }
  // Of several images, which lie apart; as columns they may be equally far from each other.
  const bool has_images = n % plan_.n + n_count > plan_.n;
  if (has_images && (plan_.swapped || plan_.n_batch_map.sizes.rank() != 1)) return {};
  if (!plan_.m_batch_map.identity() && m % plan_.m + m_count > plan_.m) return {};
  const std::int64_t batch =
      plan_.batch_map(block.batch) + plan_.n_batch_map(n / plan_.n) + plan_.m_batch_map(m / plan_.m);
  const std::int64_t row = batch * plan_.m + m % plan_.m;
  Destination destination;
  if (output_) destination.results = lines(*output_, binding, row, n % plan_.n);
  if (operand_) destination.operand = lines(*operand_, binding, row, n % plan_.n);
  if (has_images) {
    destination.image_columns = plan_.n;
    destination.columns_before = n % plan_.n;
  }
  return destination;
}

void Epilogue::run(const Binding& binding, const Block& block, const void* results, std::int64_t stride,
                   Workspace& workspace) const {
  const auto* const data = static_cast<const std::byte*>(results);
  if (!plan_.swapped) return run_rows(binding, block, data, stride, workspace);
  Block turned{
      .batch = block.batch, .row = block.column, .rows = block.columns, .column = block.row, .columns = block.rows};
  if (turned.columns == 1) return run_rows(binding, turned, data, 1, workspace);
  // Some rows at a time, which are still in the first cache when they go through the epilogue.
  const std::int64_t strip =
      std::max(kTurnedBytes / (turned.columns * element_size_) / kTogether, std::int64_t{1}) * kTogether;
  for (std::int64_t row = 0; row < block.columns; row += strip) {
    turned.row = block.column + row;
    turned.rows = std::min(strip, block.columns - row);
    const std::byte* const rows =
        transposed(data + row * element_size_, stride, turned.rows, turned.columns, workspace.transposed);
    run_rows(binding, turned, rows, turned.columns, workspace);
  }
}

void Epilogue::run_rows(const Binding& binding, const Block& block, const std::byte* data, std::int64_t stride,
                        Workspace& workspace) const {
  const std::int64_t m_begin = block.row, m_count = block.rows;
  const std::int64_t n_begin = block.column, n_count = block.columns;
  Scratch& scratch = Scratch::of_this_thread();
  const std::int64_t batch = plan_.batch_map(block.batch);
  const bool rows_in_order = plan_.m_batch_map.identity();
  for (std::int64_t j = 0; j < n_count;) {
    const std::int64_t n = (n_begin + j) % plan_.n;
    const std::int64_t columns = std::min(plan_.n - n, n_count - j);
    const std::int64_t n_batch = plan_.n_batch_map((n_begin + j) / plan_.n);
    for (std::int64_t i = 0; i < m_count;) {
      const std::int64_t m = (m_begin + i) % plan_.m;
      const std::int64_t rows = rows_in_order ? m_count : std::min(plan_.m - m, m_count - i);
      const std::int64_t m_batch = plan_.m_batch_map((m_begin + i) / plan_.m);
      const std::int64_t row = (batch + n_batch + m_batch) * plan_.m + m;
      const std::byte* accumulators = data + (i * stride + j) * element_size_;
      if (!flat_) {
        program_.run_block(binding, row, rows, n, columns, accumulators, stride, scratch);
      } else if (columns == plan_.n) {
        if (stride != columns) accumulators = compacted(accumulators, stride, rows, columns, workspace.compacted);
        program_.run_segment(binding, 0, row * plan_.n, rows * columns, accumulators, scratch);
      } else {
        for (std::int64_t r = 0; r < rows; ++r) {
          program_.run_segment(binding, 0, (row + r) * plan_.n + n, columns,
                                accumulators + r * stride * element_size_, scratch);
        }
      }
      i += rows;
    }
    j += columns;
  }
}

const std::byte* Epilogue::compacted(const std::byte* from, std::int64_t stride, std::int64_t rows,
                                     std::int64_t columns, GrowingBuffer& buffer) const {
  const std::int64_t row_bytes = columns * element_size_;
  std::byte* to = buffer.reserve(rows * row_bytes);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * row_bytes, from + r * stride * element_size_, static_cast<std::size_t>(row_bytes));
  }
  return to;
}

// m x n from n x m.
const std::byte* Epilogue::transposed(const void* results, std::int64_t stride, std::int64_t m_count,
                                      std::int64_t n_count, GrowingBuffer& buffer) const {
  std::byte* to = buffer.reserve(m_count * n_count * element_size_);
  const auto transpose = [&]<typename Word>(Word) {
    transpose_words(static_cast<const Word*>(results), stride, m_count, n_count, reinterpret_cast<Word*>(to));
  };
  element_size_ == 8 ? transpose(std::uint64_t()) : transpose(std::uint32_t());
  return to;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
