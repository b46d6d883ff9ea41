// A few rows times packed columns whose weights are decoded in registers, per instruction set, for two rows at a time.
// Each lane has a block of k of one column, its neighbours the blocks that follow in memory: such blocks are summed
// each by itself (thin-inl.h has the order of terms, and includes this), and memory is read from one end to the other,
// in as many places as vectors are multiplied together. They go through panels as wide as a vector (q8.h), made once
// for all rows.

#if defined(LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_
#undef LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_
#else
#define LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backends/cpu/contraction/packing-inl.h"
#include "backends/cpu/contraction/q4_0_lanes-inl.h"
#include "backends/cpu/contraction/q8_panel-inl.h"
#include "backends/cpu/contraction/thin_args.h"
#include "backends/cpu/contraction/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if !LOCKSTEP_SCALAR_TILE

/// Encodings whose elements are scale * code, or that + offset, with scales and offsets of f16 and small integers.
constexpr bool has_f32_panels(Encoding encoding) {
  switch (encoding) {
    case Encoding::q8_0:
    case Encoding::q4_0:
    case Encoding::q4_1:
    case Encoding::q5_0:
    case Encoding::q5_1:
    case Encoding::q4_k:
    case Encoding::q5_k:
    case Encoding::q6_k: return true;
    default: return false;
  }
}

/// Codes that offsets are added to are not negative, and 32 have one scale; nibbles are codes less 8 or not negative.
constexpr bool suits_reader(const Q8Form& form) {
  if (!has_f32_panels(form.encoding)) return true;
  if (form.offsets()) return form.zero == 0 && !form.is_signed() && form.groups() == 1;
  return !form.nibbles() || form.zero == 8;
}
static_assert(std::ranges::all_of(kQ8Forms, suits_reader));

inline const Q8Form& q8_form(Encoding encoding) {
  return kQ8Forms[static_cast<int>(encoding) - 1];  // rows are in the order of encodings.def
}

/// Products of kThinBlockPieces vectors of blocks.
struct BlockLanes {
  const Q8Form* form;
  const std::byte* panels;  ///< of each vector
  std::int64_t panel_bytes;
  std::int64_t blocks;  ///< of 32 k
  /// What they are multiplied by: of every k the numbers of a vector's lanes, `stride` from one k to the next, and
  /// `row_stride` from one row to the next.
  const float* row;
  std::int64_t stride;
  std::int64_t row_stride;
  const std::byte* soon[kThinBlockPieces];  ///< what is asked for meanwhile
  std::int64_t soon_bytes;                  ///< for every 32 k
  float* sums;
  std::int64_t sums_stride;      ///< from vector to vector
  std::int64_t row_sums_stride;  ///< from row to row
};

/// Codes of words, four bytes of a lane, as floats, times 2^kPower. kNibbles: two codes to a byte, of which those of a
/// half are the lower or the upper ones. kShifted: no code is negative.
template <bool kNibbles, bool kShifted> class CodeReader {
 public:
  using V = hn::Vec<Tag<float> >;

  /// A permutation looks up codes of four bits.
  static constexpr bool kLooksUp = kNibbles && HWY_TARGET == HWY_AVX3;
  /// Others become the topmost bits of a word, whose lower ones are zeros.
  static constexpr int kPower = kLooksUp ? 0 : kNibbles && !kShifted ? 28 : 24;

  explicit CodeReader(const Q8Form& form) : zero_(hn::Set(d8_, static_cast<std::int8_t>(form.zero))) {
    alignas(16) static constexpr std::uint8_t kSecond[16] = {128, 128, 128, 1, 128, 128, 128, 5,
                                                             128, 128, 128, 9, 128, 128, 128, 13};
    alignas(16) static constexpr std::uint8_t kThird[16] = {128, 128, 128, 2,  128, 128, 128, 6,
                                                            128, 128, 128, 10, 128, 128, 128, 14};
    second_ = hn::BitCast(d8_, hn::LoadDup128(hn::RebindToUnsigned<Q8D8>(), kSecond));
    third_ = hn::BitCast(d8_, hn::LoadDup128(hn::RebindToUnsigned<Q8D8>(), kThird));
  }

  /// A word as `code` takes it.
  template <int kHalf> HWY_INLINE Q8V word(const std::byte* at) const {
    const Q8D d;
    const Q8V bytes = hn::LoadU(d, reinterpret_cast<const std::int32_t*>(at));
    if constexpr (kLooksUp) return bytes;
    if constexpr (!kNibbles) return hn::BitCast(d, hn::Sub(hn::BitCast(d8_, bytes), zero_));
    if constexpr (kShifted) return hn::And(kHalf == 0 ? bytes : hn::ShiftRight<4>(bytes), hn::Set(d, 0x0f0f0f0f));
    // Codes less 8 are signed numbers of four bits.
    const Q8V four = hn::Xor(bytes, hn::Set(d, static_cast<std::int32_t>(0x88888888)));
    return hn::And(kHalf == 0 ? hn::ShiftLeft<4>(four) : four, hn::Set(d, static_cast<std::int32_t>(0xf0f0f0f0)));
  }

  /// Number `kI` of it.
  template <int kHalf, int kI> HWY_INLINE V code(Q8V word) const {
    const Q8D d;
#if HWY_TARGET == HWY_AVX3
    if constexpr (kLooksUp) {
      const auto index = hn::ShiftRight<8 * kI + 4 * kHalf>(word);  // of which only four bits count
      return V{_mm512_permutexvar_ps(index.raw, hn::Iota(Tag<float>(), kShifted ? 0.0f : -8.0f).raw)};
    }
#endif
    Q8V top = word;
    if constexpr (kI == 0) top = hn::ShiftLeft<24>(word);
    if constexpr (kI == 1) top = hn::BitCast(d, hn::TableLookupBytesOr0(hn::BitCast(d8_, word), second_));
    if constexpr (kI == 2) top = hn::BitCast(d, hn::TableLookupBytesOr0(hn::BitCast(d8_, word), third_));
    if constexpr (kI == 3) top = hn::And(word, hn::Set(d, static_cast<std::int32_t>(0xff000000)));
    return hn::ConvertTo(Tag<float>(), top);
  }

 private:
  static constexpr Q8D8 d8_{};

  Q8V8 zero_, second_, third_;
};

/// False where a sum is no finite number: a scale or an offset may be none.
template <bool kNibbles, bool kShifted, int kRows> HWY_NOINLINE bool multiply_lanes(const BlockLanes& args) {
  using V = hn::Vec<Tag<float> >;
  using Reader = CodeReader<kNibbles, kShifted>;
  const Tag<float> d;
  constexpr int kPieces = kThinBlockPieces;
  const Q8Form& form = *args.form;
  const Reader reader(form);
  V acc[kRows][kPieces];
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPieces; ++p) acc[r][p] = hn::Zero(d);
  }
  const float* row = args.row;
  const std::byte* at = args.panels;
  const std::byte* scales = at;
  for (int block = 0; block < args.blocks; ++block) {
    if (!form.large || block == 0) {
      scales = at;
      at += (form.scales_bytes() + form.factors_bytes() + form.shares_bytes()) * kQ8Lanes;
    }
    for (std::int64_t byte = 0; byte < args.soon_bytes; byte += 64) {
      for (const std::byte* const soon : args.soon) fetch_later(soon + block * args.soon_bytes + byte);
    }
    V scale[kPieces], offset[kPieces];
    // Of the half, too, so that it is inlined.
    const auto read_group = [&]<int kHalf>(std::integral_constant<int, kHalf>) HWY_ATTR {
      const int group = form.groups() * block + kHalf;
#pragma GCC unroll 4
      for (int p = 0; p < kPieces; ++p) {
        const std::byte* const own = scales + p * args.panel_bytes;
        const std::byte* const factors = own + form.scales_bytes() * kQ8Lanes;
        scale[p] = load_scales<false>(own);
        if (form.factors) scale[p] = hn::Mul(scale[p], number_of_group(factors, group));
        if constexpr (Reader::kPower > 0) scale[p] = hn::Mul(scale[p], hn::Set(d, 1.0f / (1 << Reader::kPower)));
        if constexpr (kShifted) {
          offset[p] = load_scales<false>(own + 2 * kQ8Lanes);
          // A share is minus what the block has; the sign of a zero is that of the encoding's rule.
          if (form.shares) {
            const auto share = hn::Abs(number_of_group(factors + form.factors_bytes() * kQ8Lanes, group));
            offset[p] = hn::Mul(hn::Neg(offset[p]), share);
          }
        }
      }
    };
    const auto add_half = [&]<int kHalf>(std::integral_constant<int, kHalf>) HWY_ATTR {
      for (int word = 0; word < 4; ++word) {
        const std::byte* const codes = at + (kNibbles ? word : 4 * kHalf + word) * 4 * kQ8Lanes;
        Q8V four[kPieces];
#pragma GCC unroll 4
        for (int p = 0; p < kPieces; ++p) four[p] = reader.template word<kHalf>(codes + p * args.panel_bytes);
        const auto add = [&]<int kI>(std::integral_constant<int, kI>) HWY_ATTR {
          V number[kRows];
          for (int r = 0; r < kRows; ++r) number[r] = hn::LoadU(d, row + r * args.row_stride);
          row += args.stride;
#pragma GCC unroll 4
          for (int p = 0; p < kPieces; ++p) {
            const V code = reader.template code<kHalf, kI>(four[p]);
            // The product is exact: the sum is rounded as if it were added by itself.
            const V value = kShifted ? hn::MulAdd(code, scale[p], offset[p]) : hn::Mul(code, scale[p]);
            for (int r = 0; r < kRows; ++r) acc[r][p] = hn::MulAdd(number[r], value, acc[r][p]);
          }
        };
        add(std::integral_constant<int, 0>());
        add(std::integral_constant<int, 1>());
        add(std::integral_constant<int, 2>());
        add(std::integral_constant<int, 3>());
      }
    };
    read_group(std::integral_constant<int, 0>());
    add_half(std::integral_constant<int, 0>());
    if (!kShifted && form.groups() == 2) read_group(std::integral_constant<int, 1>());
    add_half(std::integral_constant<int, 1>());
    at += form.codes_bytes() * kQ8Lanes;
  }
  auto finite = hn::IsFinite(acc[0][0]);
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPieces; ++p) {
      finite = hn::And(finite, hn::IsFinite(acc[r][p]));
      hn::StoreU(acc[r][p], d, args.sums + r * args.row_sums_stride + p * args.sums_stride);
    }
  }
  return hn::AllTrue(d, finite);
}

template <int kRows> bool multiply_lanes(const BlockLanes& args) {
  if (args.form->nibbles()) {
    return args.form->offsets() ? multiply_lanes<true, true, kRows>(args) : multiply_lanes<true, false, kRows>(args);
  }
  return args.form->offsets() ? multiply_lanes<false, true, kRows>(args) : multiply_lanes<false, false, kRows>(args);
}

/// Rows as blocks of columns meet them, each lane its own block.
class LaneRows {
 public:
  static constexpr int kN = kLanes<float>;

  /// Of args' rows, into memory (thin_block_bytes).
  LaneRows(const ThinArgs& args, float* memory)
      : blocks_(args.k / kBlock),
        stride_(stride_of(blocks_)),
        row_stride_(thin_block_row(args.k, kN)),
        lanes_(memory),
        rest_(memory + kBlock * stride_) {
    for (std::int64_t r = 0; r < args.row_count; ++r) {
      write(args.rows + r, args.rows_stride, args.k, lanes_ + r * row_stride_, rest_ + r * row_stride_);
    }
  }

  /// For lanes that begin with a column's block `first`, the next columns' after its last one.
  const float* from(std::int64_t first) const { return lanes_ + first; }
  std::int64_t stride() const { return stride_; }
  /// From row to row.
  std::int64_t row_stride() const { return row_stride_; }
  /// For what is left behind whole blocks, a column in each lane; kN from one k to the next.
  const float* rest() const { return rest_; }

 private:
  // `k` numbers, `step` from one to the next.
  void write(const float* from, std::int64_t step, std::int64_t k, float* lanes, float* rest) const {
    const Tag<float> d;
    if (step != 1) {
      float* const plain = rest + kBlock * kN;
      for (std::int64_t i = 0; i < k; ++i) plain[i] = from[i * step];
      from = plain;
    }
    for (std::int64_t lane = 0; lane < stride_; lane += kN) {
      const float* blocks[kN];
      for (int i = 0; i < kN; ++i) blocks[i] = from + (lane + i) % blocks_ * kBlock;
      for (std::int64_t i = 0; i < kBlock; i += 4) {
        hn::Vec<Tag<float> > four[4];
        transpose_four<false>(blocks, i, four);
        for (int j = 0; j < 4; ++j) hn::StoreU(four[j], d, lanes + (i + j) * stride_ + lane);
      }
    }
    for (std::int64_t i = blocks_ * kBlock; i < k; ++i) {
      hn::StoreU(hn::Set(d, from[i]), d, rest + i % kBlock * kN);
    }
  }

  // Lanes begin with any block, unless blocks fill vectors.
  static std::int64_t stride_of(std::int64_t blocks) {
    if (blocks == 0 || blocks % kN == 0) return blocks;
    return kN % blocks == 0 ? kN : (blocks + kN - 1 + kN - 1) / kN * kN;
  }

  std::int64_t blocks_, stride_, row_stride_;
  float* lanes_;
  float* rest_;
};

/// Columns that are multiplied one group after the other: neighbours, of which each vector has a part.
class BlockColumns {
 public:
  explicit BlockColumns(const ThinArgs& args)
      : args_(args),
        form_(q8_form(args.encoding)),
        whole_(args.k / kBlock),
        address_(args.table->address.data() + args.piece_begin * kLanes<float>),
        sums_(reinterpret_cast<float*>(args.packed + kThinBlockPieces * args.packed_bytes)) {
    lanes_.form = &form_;
    lanes_.panels = args.packed;
    lanes_.panel_bytes = args.packed_bytes;
    lanes_.soon_bytes = kLanes<float> * order::kQ8Block * form_.bytes() / form_.elements();
#if HWY_TARGET == HWY_AVX3
    if (args.encoding == Encoding::q4_0 && args.row_count == 1 && args.k % kBlock == 0)
      neighbours_ = count_neighbours();
#endif
  }

  /// Results of `count` columns from number `first` on, at most kThinBlockColumns, to args' results. False where they
  /// must be decoded element by element.
  bool multiply(const LaneRows& rows, std::int64_t first, std::int64_t count) {
    first_ = first;
    count_ = count;
    const std::int64_t part = (count + kThinBlockPieces - 1) / kThinBlockPieces;
    const std::int64_t whole_sums = round_up(part * whole_), rest_sums = round_up(part);
    float* const rest = sums_ + kThinBlockPieces * whole_sums;
    const bool has_rest = args_.k % kBlock != 0;
    lanes_.row_stride = rows.row_stride();
    lanes_.row_sums_stride = row_sums();
    lanes_.blocks = kBlock / order::kQ8Block;
    lanes_.stride = rows.stride();
    lanes_.sums_stride = whole_sums;
    for (std::int64_t item = 0; item < part * whole_; item += kLanes<float>) {
      if (!multiply_blocks(part, item / whole_, item % whole_, whole_, rows.from(item % whole_), sums_ + item))
        return false;
    }
    lanes_.blocks = args_.k % kBlock / order::kQ8Block;
    lanes_.stride = kLanes<float>;
    lanes_.sums_stride = rest_sums;
    for (std::int64_t item = 0; has_rest && item < part; item += kLanes<float>) {
      if (!multiply_blocks(part, item, whole_, 1, rows.rest(), rest + item)) return false;
    }
    for (std::int64_t r = 0; r < args_.row_count; ++r) {
      float* to = args_.results + r * args_.results_stride + first;
      for (std::int64_t own = 0, left = count; left > 0; ++own, left -= part) {
        const float* const of_rest = has_rest ? rest + r * row_sums() + own * rest_sums : nullptr;
        to = add_blocks(sums_ + r * row_sums() + own * whole_sums, of_rest, std::min(part, left), to);
      }
    }
    return true;
  }

  /// Behind the sums.
  float* row_memory() const { return sums_ + args_.row_count * row_sums(); }

 private:
  std::int64_t row_sums() const { return thin_block_sums(args_.k, kLanes<float>); }
  static std::int64_t round_up(std::int64_t count) {
    return (count + kLanes<float> - 1) / kLanes<float> * kLanes<float>;
  }

  // The sums of `count` columns' whole blocks, and of what is left behind them if that is not null.
  float* add_blocks(const float* sums, const float* rest, std::int64_t count, float* to) const {
    const Tag<float> d;
    std::int64_t c = 0;
    // A vector of columns, because a column waits for each of its additions.
    const auto columns = hn::Mul(hn::Iota(Q8D(), 0), hn::Set(Q8D(), static_cast<std::int32_t>(whole_)));
    for (; rest == nullptr && c + kLanes<float> <= count; c += kLanes<float>, sums += kLanes<float> * whole_) {
      auto sum = hn::GatherIndex(d, sums, columns);
      for (std::int64_t b = 1; b < whole_; ++b) sum = hn::Add(sum, hn::GatherIndex(d, sums + b, columns));
      hn::StoreU(sum, d, to + c);
    }
    for (; c < count; ++c, sums += whole_) {
      const float last = rest != nullptr ? rest[c] : 0;
      float sum = whole_ == 0 ? last : sums[0];
      for (std::int64_t b = 1; b < whole_; ++b) sum += sums[b];
      to[c] = whole_ != 0 && rest != nullptr ? sum + last : sum;
    }
    return to + count;
  }

  // Lanes begin with block `block` of a part's column `column`; each column has `blocks`, those behind the last are not
  // used. `row` and `sums`: those of the first row.
  bool multiply_blocks(std::int64_t part, std::int64_t column, std::int64_t block, std::int64_t blocks,
                       const float* row, float* sums) {
    constexpr int kN = kLanes<float>;
#if HWY_TARGET == HWY_AVX3
    // Whether all vectors' lanes follow each other in memory.
    const std::int64_t item = (first_ + column) * whole_ + block, step = part * whole_;
    if (item + (kThinBlockPieces - 1) * step + kN <= neighbours_ * whole_) return multiply_q4_0(item, step, row, sums);
#endif
    const std::int64_t begin = blocks == 1 ? block : 0;
    for (int p = 0; p < kThinBlockPieces; ++p) {
      std::int64_t elements[kN];
      std::int64_t at = column, first = block;
      for (int i = 0; i < kN; ++at, first = begin) {
        const std::int64_t number = first_ + std::min(p * part + at, count_ - 1);
        const std::int64_t from = args_.first + address_[number] + first * kBlock;
        const int end = static_cast<int>(std::min<std::int64_t>(i + begin + blocks - first, kN));
        for (int j = i; j < end; ++j) elements[j] = from + (j - i) * kBlock;
        i = end;
      }
      // What is packed after the next vector, if columns lie one after the other.
      lanes_.soon[p] = args_.blocks + (elements[0] + 2 * kN * kBlock) / form_.elements() * form_.bytes();
      args_.pack_blocks(args_.blocks, elements, lanes_.blocks, args_.packed + p * args_.packed_bytes);
    }
    const std::int64_t soon_bytes = lanes_.soon_bytes;
    bool finite = true;
    for (std::int64_t r = 0; r < args_.row_count && finite; r += 2) {
      lanes_.row = row + r * lanes_.row_stride;
      lanes_.sums = sums + r * lanes_.row_sums_stride;
      finite = r + 1 < args_.row_count ? multiply_lanes<2>(lanes_) : multiply_lanes<1>(lanes_);
      lanes_.soon_bytes = 0;  // the first rows have asked
    }
    lanes_.soon_bytes = soon_bytes;
    return finite;
  }

#if HWY_TARGET == HWY_AVX3
  // Columns, from the first one on, that lie one after the other.
  std::int64_t count_neighbours() const {
    const std::int64_t end = args_.piece_end * kLanes<float>;
    std::int64_t count = 1;
    while (args_.piece_begin * kLanes<float> + count < end && address_[count] == address_[count - 1] + args_.k) ++count;
    return count;
  }

  // Vectors of blocks of neighbours, from number `item` on, `step` from one vector to the next.
  bool multiply_q4_0(std::int64_t item, std::int64_t step, const float* row, float* sums) {
    const std::byte* const at = args_.blocks + (args_.first + address_[0]) / 32 * 18 + item * kQ4_0Bytes;
    const std::ptrdiff_t bytes = step * kQ4_0Bytes;
    for (int p = 0; p < kThinBlockPieces; ++p) pack_q4_0_lanes(at + p * bytes, args_.packed + p * kQ4_0Panel);
    return multiply_q4_0_lanes(args_.packed, row, lanes_.stride, {at + kQ4_0Panel, bytes}, sums, lanes_.sums_stride);
  }
#endif

  const ThinArgs& args_;
  const Q8Form& form_;
  std::int64_t neighbours_ = 0;
  std::int64_t whole_;  ///< blocks of a column
  const std::int64_t* address_;
  float* sums_;
  std::int64_t first_ = 0, count_ = 0;
  BlockLanes lanes_{};
};

// Whether columns have whole blocks alone, of an encoding that panels can be decoded from.
inline bool has_whole_blocks(const ThinArgs& args) {
  const std::int64_t elements = info_of(args.encoding).elements;  // a power of two
  if (!has_f32_panels(args.encoding) || args.k == 0 || args.k % elements != 0) return false;
  std::int64_t all = 0;
  for (std::int64_t i = args.piece_begin * kLanes<float>; i < args.piece_end * kLanes<float>; ++i) {
    all |= args.first + args.table->address[static_cast<std::size_t>(i)];
  }
  return (all & (elements - 1)) == 0;
}

/// False where something must be decoded element by element.
inline bool thin_block_lanes(const ThinArgs& args) {
  if (!has_whole_blocks(args)) return false;
  const std::int64_t count = (args.piece_end - args.piece_begin) * kLanes<float>;
  BlockColumns columns(args);
  const LaneRows rows(args, columns.row_memory());
  for (std::int64_t c = 0; c < count; c += kThinBlockColumns) {
    if (!columns.multiply(rows, c, std::min(kThinBlockColumns, count - c))) return false;
  }
  return true;
}

#endif  // !LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
