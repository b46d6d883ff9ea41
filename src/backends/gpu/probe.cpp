#include "backends/gpu/probe.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <lockstep/dtype.h>
#include <lockstep/error.h>

#include "backends/gpu/probe_functions.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kVectors = 4096;

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

/// What the kernel computes of a, b and c, and what comes of it in IEEE arithmetic; NaN of any kind is one result.
struct Fact {
  const char* text;  ///< a UINT in the kernel subset
  std::uint32_t (*expected)(float a, float b, float c);
  /// Where operands, intermediate results and the result are normal numbers or zero (ordinary): here devices may differ
  /// in subnormals only. Null: everywhere.
  bool (*ordinary)(float a, float b, float c);
  const char* complaint;  ///< where ordinary results differ; null: there are variants
};

template <typename... Values> bool are_normal(Values... values) {
  return ((std::fpclassify(values) != FP_SUBNORMAL && std::fabs(values) != std::numeric_limits<float>::min()) && ...);
}
std::uint32_t bits(float x) {
  return std::isnan(x) ? 0x7fc00000 : std::bit_cast<std::uint32_t>(x);
}
std::uint32_t folded(double x) {
  const auto word = std::bit_cast<std::uint64_t>(x);
  return std::isnan(x) ? 0x7fc00000 : static_cast<std::uint32_t>(word) ^ static_cast<std::uint32_t>(word >> 32);
}
std::int64_t long_of(float a, float b) {
  return static_cast<std::int64_t>((std::uint64_t{std::bit_cast<std::uint32_t>(a)} << 32) |
                                   std::bit_cast<std::uint32_t>(b));
}
/// a's sign and significand with another exponent.
float scaled(float a, std::uint32_t exponent) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(a) & 0x807fffffU) | exponent);
}
/// A normal f64 of a's bits, made without a conversion, which may flush: a itself where that is normal.
double z_of(float a) {
  const std::uint64_t word = std::bit_cast<std::uint32_t>(a);
  return std::bit_cast<double>(((word & 0x80000000) << 32) | (((word & 0x7fffffff) << 29) + 0x3800000000000000));
}
double x_of(float a) {
  return z_of(a) * static_cast<double>(1.1F);
}
double y_of(float b) {
  return z_of(b) * static_cast<double>(1.2F);
}

enum Index { sum, product, quotient, root, fused, kOthers };
constexpr Fact kFacts[] = {
    {"BITS(a + b)", [](float a, float b, float) { return bits(a + b); },
     [](float a, float b, float) { return are_normal(a, b, a + b); }, "its additions are not IEEE's"},
    {"BITS(a * b)", [](float a, float b, float) { return bits(a * b); },
     [](float a, float b, float) { return are_normal(a, b, a * b); }, "its multiplications are not IEEE's"},
    {"BITS(DIV(a, b))", [](float a, float b, float) { return bits(a / b); },
     [](float a, float b, float) { return are_normal(a, b, a / b); }, nullptr},
    {"BITS(SQRT(a))", [](float a, float, float) { return bits(std::sqrt(a)); },
     [](float a, float, float) { return are_normal(a); }, nullptr},
    {"BITS(FMA(a, b, c))", [](float a, float b, float c) { return bits(std::fma(a, b, c)); },
     // A fused sum may be tiny only because terms cancel; what counts are its own bits.
     [](float a, float b, float c) { return are_normal(a, b, c, std::fma(a, b, c)); }, nullptr},
    {"BITS(a * b + c)", [](float a, float b, float c) { return bits(a * b + c); },
     [](float a, float b, float c) { return are_normal(a, b, c, a * b, a * b + c); },
     "it contracts a * b + c to one rounding where the text has two"},
    {"BITS((a + b) - a)", [](float a, float b, float) { return bits((a + b) - a); },
     [](float a, float b, float) { return are_normal(a, b, a + b, (a + b) - a); },
     "it reassociates sums: (a + b) - a is not computed as written"},
    {"UINT(SELECT(a < b, 1, 0)) + UINT(SELECT(a == b, 2, 0)) + UINT(SELECT(a != a, 4, 0))",
     [](float a, float b, float) { return (a < b ? 1U : 0U) + (a == b ? 2U : 0U) + (std::isnan(a) ? 4U : 0U); },
     [](float a, float b, float) { return are_normal(a, b); }, "it compares NaN, zeros or numbers wrongly"},
    {"BITS(float(int(BITS(a))))",
     [](float a, float, float) { return bits(static_cast<float>(static_cast<int>(std::bit_cast<std::uint32_t>(a)))); },
     nullptr, "its conversions of integers do not round to nearest even"},
    {"BITS(float(LONG((ULONG(BITS(a)) << 32) | ULONG(BITS(b)))))",
     [](float a, float b, float) { return bits(static_cast<float>(long_of(a, b))); }, nullptr,
     "its conversions of 64-bit integers do not round to nearest even"},
    {"UINT(int(FROM_BITS((BITS(a) & 0x807fffffu) | 0x4a000000u)))",
     [](float a, float, float) { return static_cast<std::uint32_t>(static_cast<int>(scaled(a, 0x4a000000U))); },
     nullptr, "its conversions of f32 to integers do not round towards zero"},
    {"UINT(ULONG(LONG(FROM_BITS((BITS(a) & 0x807fffffu) | 0x5d000000u))) >> 32)",
     [](float a, float, float) {
       const auto whole = static_cast<std::uint64_t>(static_cast<std::int64_t>(scaled(a, 0x5d000000U)));
       return static_cast<std::uint32_t>(whole >> 32);
     },
     nullptr, "its conversions of f32 to 64-bit integers are wrong"},
    {"UINT(int(BITS(a)) >> int(BITS(b) & 31u)) ^ UINT((ULONG(BITS(a)) * ULONG(BITS(b))) >> 32)",
     [](float a, float b, float) {
       const auto x = std::bit_cast<std::uint32_t>(a);
       const auto y = std::bit_cast<std::uint32_t>(b);
       return static_cast<std::uint32_t>(static_cast<int>(x) >> (y & 31)) ^
              static_cast<std::uint32_t>((std::uint64_t{x} * y) >> 32);
     },
     nullptr, "its shifts or products of integers are wrong"},
};
/// Of doubles, where the language has them. NaN is not looked at.
#define FOLDED(value) "UINT(BITS64(" value ")) ^ UINT(BITS64(" value ") >> 32)"
enum DoubleIndex { fused_64, quotient_64, root_64, widened, narrowed };
constexpr Fact kDoubleFacts[] = {
    {FOLDED("FMA64(x, y, z)"), [](float a, float b, float c) { return folded(std::fma(x_of(a), y_of(b), z_of(c))); },
     nullptr, nullptr},
    {FOLDED("x / y"), [](float a, float b, float) { return folded(x_of(a) / y_of(b)); }, nullptr, nullptr},
    {FOLDED("SQRT64(x)"), [](float a, float, float) { return folded(std::sqrt(x_of(a))); }, nullptr, nullptr},
    {FOLDED("double(c)"), [](float, float, float c) { return folded(static_cast<double>(c)); },
     [](float, float, float c) { return are_normal(c); }, "its conversions of f32 to f64 are wrong"},
    {"BITS(float(x))", [](float a, float, float) { return bits(static_cast<float>(x_of(a))); },
     [](float a, float, float) { return are_normal(static_cast<float>(x_of(a))); },
     "its conversions of f64 to f32 do not round to nearest even"},
};
#undef FOLDED
/// Of the variants chosen: what accumulators are made of keeps subnormals.
constexpr Fact kChosenFacts[] = {
    {"BITS(FMA_EXACT(a, b, c))", [](float a, float b, float c) { return bits(std::fma(a, b, c)); },
     [](float a, float b, float) { return are_normal(a, b); }, "no variant of fma keeps subnormals"},
    {"BITS(ADD_EXACT(a, b))", [](float a, float b, float) { return bits(a + b); }, nullptr,
     "no variant of its additions keeps subnormals"},
    {"BITS(MUL_EXACT(a, b))", [](float a, float b, float) { return bits(a * b); }, nullptr,
     "no variant of its multiplications keeps subnormals"},
};

/// Of languages with quick forms. What goes in may be a product's NaN, or flushed.
float stored(float x) {
  return std::fabs(x) <= std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}
std::uint32_t encoded_bf16(float x) {
  const std::uint32_t word = to_bf16(x).bits;
  return (word & 0x7fff) <= 0x0080 ? word & 0x8000 : word;
}
float of_half(float x) {
  return to_f32(Float16{static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16)});
}
/// Its own NaN, which nothing may stand in for.
std::uint32_t one_nan(float x) {
  return bits(x) == 0x7fc00000 ? 0x7fc01 : bits(x);
}
#define ONE_NAN(x) "SELECT(BITS(" x ") == 0x7fc00000u, 0x7fc01u, BITS(" x "))"
#define ANY_ZERO(x) "SELECT((BITS(" x ") << 1) == 0u, 0u, BITS(" x "))"
constexpr Fact kQuickFloatFacts[] = {
    {ONE_NAN("CANONICAL_F32(a)"), [](float a, float, float) { return one_nan(stored(a)); }, nullptr, nullptr},
    {ONE_NAN("CANONICAL_F32(a * b)"), [](float a, float b, float) { return one_nan(stored(a * b)); }, nullptr, nullptr},
    {"BITS(FLUSHED_F32(a))", [](float a, float, float) { return bits(stored(a)); }, nullptr, nullptr},
    {"ENCODE_BF16(a)", [](float a, float, float) { return encoded_bf16(a); }, nullptr, nullptr},
    {"ENCODE_BF16(FROM_BITS((BITS(a) & 0x81ffffffu)))",
     [](float a, float, float) {
       return encoded_bf16(std::bit_cast<float>(std::bit_cast<std::uint32_t>(a) & 0x81ffffff));
     },
     nullptr, nullptr},
    {ONE_NAN("ROUND_BF16(a)"), [](float a, float, float) { return one_nan(stored(to_f32(to_bf16(a)))); }, nullptr,
     nullptr},
    {ANY_ZERO("LARGER(CANONICAL_F32(a), CANONICAL_F32(b))"),
     [](float a, float b, float) {
       return bits((std::isnan(a) || std::isnan(b) ? a + b : std::max(stored(a), stored(b))) + 0.0F);
     },
     nullptr, nullptr},
    {ANY_ZERO("SMALLER(CANONICAL_F32(a), CANONICAL_F32(b))"),
     [](float a, float b, float) {
       return bits((std::isnan(a) || std::isnan(b) ? a + b : std::min(stored(a), stored(b))) + 0.0F);
     },
     nullptr, nullptr},
};
/// What HASTY_BF16 may not give of what it is not for.
std::uint32_t hasty_bf16(float x) {
  return std::fabs(x) < 0x1p112F ? encoded_bf16(x) << 16 : 0x7f800000;
}
/// What is no number, or infinite, is the one or the other.
#define HASTY(x) "SELECT((BITS(" x ") & 0x7f800000u) == 0x7f800000u, 0x7f800000u, BITS(" x "))"
constexpr Fact kHastyFacts[] = {
    {HASTY("HASTY_BF16(a)"), [](float a, float, float) { return hasty_bf16(a); }, nullptr, nullptr},
    {HASTY("HASTY_BF16(a * b)"), [](float a, float b, float) { return hasty_bf16(a * b); }, nullptr, nullptr},
    {"wrong_bf16(UINT(i) * 16u)", [](float, float, float) { return 0U; }, nullptr, nullptr},
};
#undef HASTY

constexpr Fact kQuickHalfFacts[] = {
    {"ENCODE_F16(a)", [](float a, float, float) -> std::uint32_t { return to_f16(a).bits; }, nullptr, nullptr},
    // Of f16's subnormal and smallest normal numbers.
    {"ENCODE_F16(FROM_BITS((BITS(a) & 0x83ffffffu) + 0x32000000u))",
     [](float a, float, float) -> std::uint32_t {
       return to_f16(std::bit_cast<float>((std::bit_cast<std::uint32_t>(a) & 0x83ffffff) + 0x32000000)).bits;
     },
     nullptr, nullptr},
    {ONE_NAN("DECODE_F16(BITS(a) >> 16)"), [](float a, float, float) { return one_nan(of_half(a)); }, nullptr, nullptr},
    {"BITS(ANY_DECODE_F16((BITS(a) >> 16) & 0x83ffu))",
     [](float a, float, float) {
       return bits(to_f32(Float16{static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(a) >> 16) & 0x83ff)}));
     },
     nullptr, nullptr},
    {ONE_NAN("ROUND_F16(a)"), [](float a, float, float) { return one_nan(to_f32(to_f16(a))); }, nullptr, nullptr},
    {"joined_halves(a, b)",
     [](float a, float b, float) { return to_f16(a).bits | std::uint32_t{to_f16(b).bits} << 16; }, nullptr, nullptr},
    {"wrong_halves(UINT(i) * 16u)", [](float, float, float) { return 0U; }, nullptr, nullptr},
};
#undef ANY_ZERO
#undef ONE_NAN

constexpr Fact kNearTeamFacts[] = {
    {"SELECT(ARE_TEAMS, 1u, 0u)", [](float, float, float) { return 1U; }, nullptr, nullptr},
    {"UINT(NEAR_OTHER(float(THREAD), 16)) ^ THREAD ^ UINT(NEAR_OTHER(float(THREAD), 1)) ^ THREAD",
     [](float, float, float) { return 17U; }, nullptr, nullptr},
};

constexpr Fact kEstimateFacts[] = {
    {"wrong_gelus_bf16(UINT(i) * 16u)", [](float, float, float) { return 0U; }, nullptr, nullptr},
    {"wrong_gelus_f16(UINT(i) * 16u)", [](float, float, float) { return 0U; }, nullptr, nullptr},
};

/// Of devices that say they are quick at it.
constexpr Fact kByteDotFacts[] = {
    {"UINT(DOT4(BITS(a), BITS(b), int(BITS(c))))",
     [](float a, float b, float c) {
       auto sum = std::bit_cast<std::uint32_t>(c);
       for (const int shift : {0, 8, 16, 24}) {
         const auto byte = [shift](float x) {
           return static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(x) >> shift & 0xff);
         };
         sum += static_cast<std::uint32_t>(byte(a) * byte(b));
       }
       return sum;
     },
     nullptr, nullptr},
};

std::vector<Fact> facts_of(bool doubles) {
  std::vector<Fact> facts(std::begin(kFacts), std::end(kFacts));
  if (doubles) facts.insert(facts.end(), std::begin(kDoubleFacts), std::end(kDoubleFacts));
  return facts;
}

/// Thread i computes everything of vector i; its first address is the vectors', its second the results'.
static_assert(kLeastThreads == 64);
KernelText probe_text(const std::vector<Fact>& facts, const Arithmetic& arithmetic) {
  const bool doubles = facts.size() > std::size(kFacts);
  KernelText text;
  text.words = 4;
  text.addresses = {0, 2};
  text.threads = kLeastThreads;  // every device runs so many
  // Kernels are known by their texts, and the same facts are asked of all forms of halves.
  text.body = arithmetic.float_halves    ? "  // halves by sums\n"
              : arithmetic.native_halves ? "  // halves by their type\n"
                                         : "";
  text.body += R"(  MEMORY from = MEMORY_AT(0, 0);
  MEMORY to = MEMORY_AT(1, 2);
  int i = int(GROUP) * 64 + int(THREAD);
  float a = FROM_BITS(LOAD_U32(from, i * 4));
  float b = FROM_BITS(LOAD_U32(from, i * 4 + 1));
  float c = FROM_BITS(LOAD_U32(from, i * 4 + 2));
)";
  if (doubles) {
    for (const char* const number : {"a", "b", "c"}) {
      text.body += fmt::format(
          "  ULONG wide_{0} = (ULONG(BITS({0}) & 0x80000000u) << 32) | "
          "((ULONG(BITS({0}) & 0x7fffffffu) << 29) + 0x3800000000000000);\n",
          number);
    }
    text.body += R"(  double x = FROM_BITS64(wide_a) * double(FROM_BITS(0x3f8ccccdu));
  double y = FROM_BITS64(wide_b) * double(FROM_BITS(0x3f99999au));
  double z = FROM_BITS64(wide_c);
)";
  }
  const auto asks = [&](const char* function) {
    return std::any_of(facts.begin(), facts.end(),
                       [&](const Fact& fact) { return std::string_view(fact.text).starts_with(function); });
  };
  if (asks("wrong_gelus_bf16")) text.functions += kEstimateFunctions;
  if (asks("wrong_bf16")) text.functions += kHastyFunctions;
  if (asks("wrong_halves")) text.functions += kHalfFunctions;
  for (std::size_t fact = 0; fact < facts.size(); ++fact) {
    text.body += fmt::format("  STORE_U32(to, i + {}, {});\n", fact * kVectors, facts[fact].text);
  }
  return text;
}

bool is_nan(std::uint32_t bits_of_result) {
  return (bits_of_result & 0x7fffffff) > 0x7f800000;
}

/// How many results differ.
struct Differences {
  int all = 0;
  int ordinary = 0;  ///< where no number is subnormal
};

/// How many results of the facts' kernel differ, fact by fact. Throws BackendError where one must not.
std::vector<Differences> differences_of(const std::vector<Fact>& facts, const Arithmetic& arithmetic, Driver& driver,
                                        Memory& memory, KernelCache& kernels) {
  const std::shared_ptr<const Module> module = kernels.get(probe_text(facts, arithmetic), arithmetic);
  const std::vector<Vector> in = vectors();
  std::vector<std::uint32_t> out(kVectors * facts.size());
  const std::uint64_t from = memory.allocate(in.size() * sizeof(Vector));
  const std::uint64_t to = memory.allocate(4 * out.size());
  driver.upload(from, in.data(), in.size() * sizeof(Vector));
  const std::uint32_t words[] = {static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(from >> 32),
                                 static_cast<std::uint32_t>(to), static_cast<std::uint32_t>(to >> 32)};
  const Access accesses[] = {{from, 0, false}, {to, 2, true}};
  driver.launch(*module, kVectors / kLeastThreads, words, accesses);
  driver.download(out.data(), to, 4 * out.size());
  memory.release(from, in.size() * sizeof(Vector));
  memory.release(to, 4 * out.size());

  std::vector<Differences> differences(facts.size());
  for (std::size_t i = 0; i < kVectors; ++i) {
    const auto a = std::bit_cast<float>(in[i].a);
    const auto b = std::bit_cast<float>(in[i].b);
    const auto c = std::bit_cast<float>(in[i].c);
    for (std::size_t f = 0; f < facts.size(); ++f) {
      const std::uint32_t got = out[f * kVectors + i];
      const std::uint32_t expected = facts[f].expected(a, b, c);
      if (got == expected || (expected == 0x7fc00000 && (is_nan(got) || f >= std::size(kFacts)))) continue;
      ++differences[f].all;
      if (facts[f].ordinary == nullptr || facts[f].ordinary(a, b, c)) ++differences[f].ordinary;
    }
  }
  for (std::size_t f = 0; f < facts.size(); ++f) {
    if (facts[f].complaint == nullptr || differences[f].ordinary == 0) continue;
    throw BackendError(
        fmt::format("{} cannot give exact results: {} ({} of {} cases)\n"
                    "  fix: use another device; all give the same bits",
                    driver.info().name, facts[f].complaint, differences[f].ordinary, kVectors));
  }
  return differences;
}

}  // namespace

Arithmetic probe(Driver& driver, Memory& memory, KernelCache& kernels) {
  const bool doubles = driver.info().doubles;
  const std::vector<Differences> differences = differences_of(facts_of(doubles), {}, driver, memory, kernels);
  Arithmetic arithmetic;
  arithmetic.fused_fma = differences[fused].ordinary == 0;
  arithmetic.fma_keeps_subnormals = differences[fused].all == 0;
  arithmetic.sums_keep_subnormals = differences[sum].all == 0 && differences[product].all == 0;
  arithmetic.exact_division = differences[quotient].ordinary == 0;
  arithmetic.exact_square_root = differences[root].ordinary == 0;
  arithmetic.f64 = doubles;
  if (doubles) {
    const Differences* of = differences.data() + std::size(kFacts);
    arithmetic.widening_keeps_subnormals = of[widened].all == 0;
    arithmetic.narrowing_keeps_subnormals = of[narrowed].all == 0;
    arithmetic.f64 = of[fused_64].all == 0 && of[quotient_64].all == 0 && of[root_64].all == 0;
  }
  if (!(arithmetic.fma_keeps_subnormals && arithmetic.sums_keep_subnormals)) {
    differences_of({std::begin(kChosenFacts), std::end(kChosenFacts)}, arithmetic, driver, memory, kernels);
  }
  // A compiler of shaders that is too old for some of these is no error: everything works without.
  const auto try_it = [](bool& has, bool listed, const auto& is_right) {
    try {
      has = listed && is_right();
    } catch (const BackendError&) {
      has = false;
    }
  };
  const auto all_hold = [&](std::span<const Fact> facts, bool Arithmetic::*form) {
    Arithmetic with = arithmetic;
    with.*form = true;
    const std::vector<Differences> found = differences_of({facts.begin(), facts.end()}, with, driver, memory, kernels);
    return std::all_of(found.begin(), found.end(), [](const Differences& one) { return one.all == 0; });
  };
  try_it(arithmetic.quick_floats, driver.info().quick_forms,
         [&] { return all_hold(kQuickFloatFacts, &Arithmetic::quick_floats); });
  try_it(arithmetic.hasty_bf16, arithmetic.quick_floats,
         [&] { return all_hold(kHastyFacts, &Arithmetic::hasty_bf16); });
  try_it(arithmetic.quick_halves, driver.info().quick_forms,
         [&] { return all_hold(kQuickHalfFacts, &Arithmetic::quick_halves); });
  try_it(arithmetic.native_halves, driver.info().has_halves && !arithmetic.quick_halves,
         [&] { return all_hold(kQuickHalfFacts, &Arithmetic::native_halves); });
  try_it(arithmetic.float_halves, driver.info().quick_forms && !arithmetic.quick_halves && !arithmetic.native_halves,
         [&] { return all_hold(kQuickHalfFacts, &Arithmetic::float_halves); });
  try_it(arithmetic.near_estimates, driver.info().quick_forms,
         [&] { return all_hold(kEstimateFacts, &Arithmetic::near_estimates); });
  try_it(arithmetic.near_teams, driver.info().near_teams,
         [&] { return all_hold(kNearTeamFacts, &Arithmetic::near_teams); });
  try_it(arithmetic.byte_dots, driver.info().quick_byte_dots,
         [&] { return all_hold(kByteDotFacts, &Arithmetic::byte_dots); });
  try_it(arithmetic.byte_matrices, driver.info().byte_matrices,
         [&] { return multiplies_matrices(arithmetic, driver, memory, kernels); });
  return arithmetic;
}

std::vector<std::uint32_t> exact_answers(std::span<const std::uint32_t> operands, bool doubles) {
  static_assert(kProbeWords == kVectors * sizeof(Vector) / sizeof(std::uint32_t));
  std::vector<std::uint32_t> answers;
  for (const Fact& fact : facts_of(doubles)) {
    for (std::size_t i = 0; i < kVectors; ++i) {
      const auto value = [&](std::size_t of) { return std::bit_cast<float>(operands[4 * i + of]); };
      answers.push_back(fact.expected(value(0), value(1), value(2)));
    }
  }
  return answers;
}

std::string to_string(const Arithmetic& arithmetic) {
  const char* fma = !arithmetic.fused_fma             ? "software fma"
                    : arithmetic.fma_keeps_subnormals ? "fma"
                                                      : "fma (software where subnormals matter)";
  return fmt::format("exact with {}, {} division, {} square root, {}{}", fma,
                     arithmetic.exact_division ? "hardware" : "software",
                     arithmetic.exact_square_root ? "hardware" : "software", arithmetic.f64 ? "f64" : "no f64",
                     arithmetic.byte_matrices ? ", matrices of bytes"
                     : arithmetic.byte_dots   ? ", dot products of bytes"
                                              : "");
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
