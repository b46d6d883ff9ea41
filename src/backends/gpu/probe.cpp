#include "backends/gpu/probe.h"

#include <bit>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kVectors = 4096;
constexpr int kResults = 10;
enum Result { sum, product, quotient, root, fused, from_long, fused_64, quotient_64, root_64, from_double };

struct Vector {
  std::uint32_t a, b, c, pad;
};

/// Operands of all kinds: ordinary ones whose fused and unfused results differ, subnormals, NaN, infinities, zeros.
std::vector<Vector> vectors() {
  constexpr std::uint32_t kSpecial[] = {0,          0x80000000, 1,          0x807fffff, 0x00800000, 0x80800001,
                                        0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x3f800000, 0x3f800001,
                                        0x00ffffff, 0x34000000, 0x0c000000, 0x4b800001};
  std::vector<Vector> result;
  std::uint64_t state = 1;
  const auto next = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::uint32_t>(state >> 32);
  };
  for (std::uint32_t i = 0; i < kVectors; ++i) {
    Vector v{next(), next(), next(), 0};
    if (i < 256) {
      v = {kSpecial[i % 16], kSpecial[i / 16], kSpecial[(i * 7 + 3) % 16], 0};
    } else if (i % 4 == 0) {  // moderate: fused and unfused differ in the last bit
      v = {(v.a & 0x81ffffff) | 0x3e000000, (v.b & 0x81ffffff) | 0x3e000000, (v.c & 0x81ffffff) | 0x3c000000, 0};
    } else if (i % 4 == 1) {  // the product is about the addend's negative
      v.a = (v.a & 0x807fffff) | 0x3f800000;
      v.b = (v.b & 0x807fffff) | 0x3f800000;
      v.c = std::bit_cast<std::uint32_t>(-(std::bit_cast<float>(v.a) * std::bit_cast<float>(v.b)));
    } else if (i % 4 == 2) {  // results about the smallest normal number
      v = {(v.a & 0x81ffffff) | 0x1f000000, (v.b & 0x81ffffff) | 0x1f000000, v.c & 0x80ffffff, 0};
    }
    result.push_back(v);
  }
  return result;
}

KernelText probe_text() {
  KernelText text;
  text.words = 6;
  text.body = fmt::format(R"(  ULONG from = (ULONG(P(1)) << 32) | ULONG(P(0));
  ULONG to = (ULONG(P(3)) << 32) | ULONG(P(2));
  int i = int(GROUP) * 256 + int(THREAD);
  float a = FROM_BITS(LOAD_U32(from, i * 4));
  float b = FROM_BITS(LOAD_U32(from, i * 4 + 1));
  float c = FROM_BITS(LOAD_U32(from, i * 4 + 2));
  STORE_U32(to, i + {0}, BITS(a + b));
  STORE_U32(to, i + {1}, BITS(a * b));
  STORE_U32(to, i + {2}, BITS(DIV(a, b)));
  STORE_U32(to, i + {3}, BITS(SQRT(a)));
  STORE_U32(to, i + {4}, BITS(FMA(a, b, c)));
  STORE_U32(to, i + {5}, BITS(float(LONG((ULONG(BITS(a)) << 32) | ULONG(BITS(b))))));
  double x = double(a) * double(FROM_BITS(0x3f8ccccdu));
  double y = double(b) * double(FROM_BITS(0x3f99999au));
  double fused = FMA64(x, y, double(c));
  double divided = x / y;
  double rooted = SQRT64(x);
  STORE_U32(to, i + {6}, UINT(BITS64(fused)) ^ UINT(BITS64(fused) >> 32));
  STORE_U32(to, i + {7}, UINT(BITS64(divided)) ^ UINT(BITS64(divided) >> 32));
  STORE_U32(to, i + {8}, UINT(BITS64(rooted)) ^ UINT(BITS64(rooted) >> 32));
  STORE_U32(to, i + {9}, BITS(float(x)));
)",
                          sum * kVectors, product * kVectors, quotient * kVectors, root * kVectors, fused * kVectors,
                          from_long * kVectors, fused_64 * kVectors, quotient_64 * kVectors, root_64 * kVectors,
                          from_double * kVectors);
  return text;
}

bool is_nan(std::uint32_t bits) {
  return (bits & 0x7fffffff) > 0x7f800000;
}
bool is_tiny(std::uint32_t bits) {
  return (bits & 0x7fffffff) <= 0x00800000 && (bits & 0x7fffffff) != 0;
}

std::uint32_t folded(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  return static_cast<std::uint32_t>(bits) ^ static_cast<std::uint32_t>(bits >> 32);
}

/// How many results differ, apart from the bits of NaN.
struct Differences {
  int all = 0;
  int ordinary = 0;  ///< where neither operands nor result are subnormal
};

}  // namespace

Arithmetic probe(Driver& driver, Memory& memory, KernelCache& kernels) {
  const std::vector<Vector> in = vectors();
  std::vector<std::uint32_t> out(kVectors * kResults);
  const std::uint64_t from = memory.allocate(in.size() * sizeof(Vector));
  const std::uint64_t to = memory.allocate(4 * out.size());
  driver.upload(from, in.data(), in.size() * sizeof(Vector));
  const std::shared_ptr<const Module> module = kernels.get(probe_text(), {});
  const std::uint32_t words[] = {static_cast<std::uint32_t>(from),
                                 static_cast<std::uint32_t>(from >> 32),
                                 static_cast<std::uint32_t>(to),
                                 static_cast<std::uint32_t>(to >> 32),
                                 0,
                                 0};
  const Access accesses[] = {{from, 0, false}, {to, 2, true}};
  driver.launch(*module, kVectors / 256, words, accesses);
  driver.download(out.data(), to, 4 * out.size());
  memory.release(from);
  memory.release(to);

  Differences differences[kResults];
  for (std::size_t i = 0; i < kVectors; ++i) {
    const auto a = std::bit_cast<float>(in[i].a);
    const auto b = std::bit_cast<float>(in[i].b);
    const auto c = std::bit_cast<float>(in[i].c);
    const double x = static_cast<double>(a) * static_cast<double>(1.1F);
    const double y = static_cast<double>(b) * static_cast<double>(1.2F);
    const auto whole = static_cast<std::int64_t>((static_cast<std::uint64_t>(in[i].a) << 32) | in[i].b);
    const float singles[] = {a + b, a * b, a / b, std::sqrt(a), std::fma(a, b, c), static_cast<float>(whole)};
    const double doubles[] = {std::fma(x, y, static_cast<double>(c)), x / y, std::sqrt(x)};
    for (std::size_t r = 0; r < kResults; ++r) {
      const std::uint32_t got = out[r * kVectors + i];
      const bool is_double = r >= fused_64 && r <= root_64;
      if (is_double) {
        const double expected = doubles[r - fused_64];
        if (!std::isnan(expected) && got != folded(expected)) ++differences[r].all;
        continue;
      }
      const float value = r == from_double ? static_cast<float>(x) : singles[r];
      const auto expected = std::bit_cast<std::uint32_t>(value);
      if (got == expected || (is_nan(got) && is_nan(expected))) continue;
      ++differences[r].all;
      const bool operands_tiny =
          is_tiny(in[i].a) || (r != root && is_tiny(in[i].b)) || (r == fused && is_tiny(in[i].c));
      // A fused sum may be tiny only because terms cancel; what counts are its own bits.
      if (!operands_tiny && !is_tiny(expected)) ++differences[r].ordinary;
    }
  }
  const auto refuse = [&](const char* fact) {
    throw BackendError(
        fmt::format("{} cannot give exact results: {}\n  fix: use another device; all give the same bits",
                    driver.info().name, fact));
  };
  if (differences[sum].all > 0) refuse("its additions are not IEEE's");
  if (differences[product].all > 0) refuse("its multiplications are not IEEE's");
  if (differences[from_long].all > 0) refuse("its conversions of 64-bit integers do not round to nearest even");
  if (differences[from_double].ordinary > 0) refuse("its conversions of f64 to f32 do not round to nearest even");
  Arithmetic arithmetic;
  arithmetic.fused_fma = differences[fused].ordinary == 0;
  arithmetic.fma_keeps_subnormals = differences[fused].all == 0;
  arithmetic.exact_division = differences[quotient].ordinary == 0;
  arithmetic.exact_square_root = differences[root].ordinary == 0;
  arithmetic.narrowing_keeps_subnormals = differences[from_double].all == 0;
  arithmetic.f64 = differences[fused_64].all == 0 && differences[quotient_64].all == 0 && differences[root_64].all == 0;
  return arithmetic;
}

std::string to_string(const Arithmetic& arithmetic) {
  const char* fma = !arithmetic.fused_fma             ? "software fma"
                    : arithmetic.fma_keeps_subnormals ? "fma"
                                                      : "fma (software where subnormals matter)";
  return fmt::format("exact with {}, {} division, {} square root, {}", fma,
                     arithmetic.exact_division ? "hardware" : "software",
                     arithmetic.exact_square_root ? "hardware" : "software", arithmetic.f64 ? "f64" : "no f64");
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
