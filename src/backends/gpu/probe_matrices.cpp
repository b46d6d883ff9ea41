// Whether a device's cooperative matrices of bytes are what KernelText::byte_matrices says: that threads find their
// sums by reading numbers in the same way, that all sums are somebody's, and that they are exact.
#include <array>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/probe.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kTeams = 2;
constexpr int kSumsOfTeam = 256;
constexpr int kStep = 3;  // words by fours from row to row, the third unused
constexpr int kOperandFours = 16 * kStep;
constexpr int kNumbersAt = 2 * 64;  // fours: behind both operands
static_assert(2 * kOperandFours <= kNumbersAt);

std::uint32_t word_of_operands(std::uint32_t i) {
  return (i * 2654435761U) ^ 0x80ff7f01U;
}

KernelText matrix_text() {
  KernelText text;
  text.words = 2;
  text.addresses = {0};
  text.threads = 32 * kTeams;
  text.byte_matrices = true;
  text.shared = {{.type = ComputeType::i32, .name = "tile_digits", .size = 4 * (kNumbersAt + 64), .fours = true}};
  text.body = fmt::format(R"(  MEMORY to = MEMORY_AT(0, 0);
  int thread_id = int(THREAD);
  UINT words[4];
  for (int f = 0; f < 2; f++) {{
    for (int j = 0; j < 4; j++) words[j] = (UINT((f * 64 + thread_id) * 4 + j) * 2654435761u) ^ 0x80ff7f01u;
    PUT_FOUR(tile_digits, f * 64 + thread_id, words)
  }}
  for (int j = 0; j < 4; j++) words[j] = UINT(thread_id * 4 + j);
  PUT_FOUR(tile_digits, {0} + thread_id, words)
  BARRIER();
  BYTES_16_BY_32 rows;
  BYTES_32_BY_16 columns;
  SUMS_16_BY_16 numbers;
  SUMS_16_BY_16 sums;
  TAKE_ROWS(rows, tile_digits, 0, {1})
  TAKE_COLUMNS(columns, tile_digits, {2}, {1})
  TAKE_SUMS(numbers, tile_digits, {0}, 4)
  FILL_SUMS(sums, 64)
  MULTIPLY_MATRICES(sums, rows, columns)
  MULTIPLY_MATRICES(sums, rows, columns)
  UNROLL
  for (int e = 0; e < 8; e++) {{
    int number = numbers[e];
    if (number >= 0 && number < {3}) STORE_U32(to, int(TEAM) * {3} + number, UINT(int(sums[e])));
  }}
)",
                          kNumbersAt, kStep, kOperandFours, kSumsOfTeam);
  return text;
}

int byte_at(int four, int k) {
  const std::uint32_t word = word_of_operands(static_cast<std::uint32_t>(4 * four + k / 4));
  return static_cast<std::int8_t>(word >> (8 * (k % 4)) & 0xff);
}

}  // namespace

bool multiplies_matrices(const Arithmetic& arithmetic, Driver& driver, Memory& memory, KernelCache& kernels) {
  const std::shared_ptr<const Module> module = kernels.get(matrix_text(), arithmetic);
  std::vector<std::int32_t> sums(kTeams * kSumsOfTeam, 0);
  const std::uint64_t to = memory.allocate(4 * sums.size());
  driver.upload(to, sums.data(), 4 * sums.size());
  const std::array<std::uint32_t, 2> words = {static_cast<std::uint32_t>(to), static_cast<std::uint32_t>(to >> 32)};
  const std::array<Access, 1> accesses = {{{to, 0, true}}};
  driver.launch(*module, 1, words, accesses);
  driver.download(sums.data(), to, 4 * sums.size());
  memory.release(to, 4 * sums.size());
  for (int i = 0; i < kTeams * kSumsOfTeam; ++i) {
    const int row = i % kSumsOfTeam / 16;
    const int column = i % 16;
    int expected = 64;
    for (int k = 0; k < 32; ++k)
      expected += 2 * byte_at(row * kStep + k / 16, k % 16) * byte_at(kOperandFours + column * kStep + k / 16, k % 16);
    if (sums[static_cast<std::size_t>(i)] != expected) return false;
  }
  return true;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
