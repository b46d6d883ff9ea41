// Random row programs over random views, against the reference backend, by equality of bits. A failure prints its seed.
#include <gtest/gtest.h>

#include "kernels/scalar.h"
#include "support/long_forms.h"
#include "support/program_builder.h"
#include "support/random_view.h"

namespace lockstep {
namespace {

using testing::ProgramBuilder;
using testing::Random;
using testing::random_view;
using testing::RandomView;
using testing::same_bits;

const std::vector<DType> kDTypes = {DType::boolean, DType::u8,  DType::i8,   DType::i16, DType::i32, DType::i64,
                                    DType::u32,     DType::f16, DType::bf16, DType::f32, DType::f32, DType::f64};

class Generator {
 public:
  Generator(Random& random, Shape rows, Shape inner, bool reductions)
      : random_(random), builder_(rows, inner), reductions_(reductions && inner.numel() > 0) {}

  ProgramBuilder& make() {
    const int inputs = 1 + random_.below(4);
    for (int i = 0; i < inputs; ++i) add_input();
    const int steps = 1 + random_.below(14);
    for (int i = 0; i < steps; ++i) add_step();
    const int outputs = 1 + random_.below(3);
    for (int i = 0; i < outputs; ++i) {
      const Value& value = i == 0 ? values_.back() : random_.pick(values_);
      builder_.output(value.index, value.dtype);
    }
    return builder_;
  }

 private:
  /// A value and the dtype that it is one of (f32 for results in f32 ...).
  struct Value {
    int index;
    DType dtype;
  };

  void add_input() {
    const Shape space = builder_.space();
    const DType dtype = random_.pick(kDTypes);
    const bool row_only = random_.one_in(4);
    const bool canonical = random_.one_in(2);
    const int first_inner = builder_.program().rows.rank();
    RandomView view = random_view(random_, space, dtype, row_only ? first_inner : -1);
    if (canonical && dtype == DType::f32) view.view.fill = BITS(scalar::operand_f32(FROM_BITS(view.view.fill)));
    if (canonical && dtype == DType::bf16) {
      view.view.fill = BITS(scalar::decode_bf16(static_cast<std::uint32_t>(view.view.fill))) >> 16;
    }
    const int slot = builder_.add_buffer(random_, dtype, view.elements, !canonical);
    const int input = builder_.add_input(slot, dtype, view.view, canonical);
    const Extent extent = row_only && random_.one_in(2) ? Extent::row : Extent::vector;
    if (random_.one_in(5)) {
      Instruction convert;
      convert.kind = Instruction::Kind::from_bits;
      convert.dtype = dtype;
      convert.type = compute_type(dtype);
      convert.extent = extent;
      convert.a = builder_.load_bits(input, extent);
      values_.push_back({builder_.add(convert), dtype});
    } else {
      values_.push_back({builder_.load(input, extent), dtype});
    }
  }

  void add_step() {
    const Value a = random_.pick(values_);
    if (reductions_ && builder_.extent_of(a.index) == Extent::vector && random_.one_in(4)) return add_reduction(a);
    if (random_.one_in(5)) return add_cast(a);
    if (random_.one_in(10)) return add_where(a);
    const auto op = static_cast<Op>(random_.below(static_cast<int>(Op::where)));
    const OpInfo& info = info_of(op);
    if (info.kind == OpKind::move) return;
    const ComputeType type = compute_type(a.dtype);
    const unsigned wanted = a.dtype == DType::boolean  ? unsigned{kTypeBool}
                            : type == ComputeType::f32 ? unsigned{kTypeF32}
                            : type == ComputeType::f64 ? unsigned{kTypeF64}
                                                       : unsigned{kTypeInt};
    if ((info.types & wanted) == 0) return;
    const int b = info.arity < 2 ? -1 : operand_like(a);
    const int result = builder_.op(op, type, a.index, b);
    // A result in the compute type is rounded to its storage type by a cast, as the scheduler would do it.
    const DType dtype = info.kind == OpKind::comparison ? DType::boolean : widest(a.dtype);
    values_.push_back({result, dtype});
  }

  static DType widest(DType dtype) {
    switch (compute_type(dtype)) {
      case ComputeType::f32: return DType::f32;
      case ComputeType::f64: return DType::f64;
      case ComputeType::i32: return dtype == DType::boolean ? DType::boolean : DType::i32;
      case ComputeType::i64: return DType::i64;
    }
    return dtype;
  }

  /// A value or constant of the same compute type.
  int operand_like(const Value& a) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      const Value& b = random_.pick(values_);
      if (compute_type(b.dtype) == compute_type(a.dtype) &&
          (a.dtype == DType::boolean) == (b.dtype == DType::boolean)) {
        return b.index;
      }
    }
    switch (compute_type(a.dtype)) {
      case ComputeType::f32: return builder_.constant(random_.one_in(2) ? 0.5f : -1.75f);
      case ComputeType::f64: return builder_.constant(ComputeType::f64, BITS64(0.3));
      case ComputeType::i32: return builder_.constant(ComputeType::i32, a.dtype == DType::boolean ? 1 : 3);
      case ComputeType::i64: return builder_.constant(ComputeType::i64, std::uint64_t(-7));
    }
    return -1;
  }

  void add_reduction(const Value& a) {
    const auto op = static_cast<ReduceOp>(random_.below(7));
    const int b = op == ReduceOp::dot ? operand_like(a) : -1;
    const int result = builder_.reduce(op, a.index, b);
    const bool i64 = builder_.type_of(result) == ComputeType::i64;
    values_.push_back({result, i64 ? DType::i64 : widest(a.dtype)});
  }

  void add_cast(const Value& a) {
    Instruction cast;
    cast.kind = Instruction::Kind::cast;
    cast.from = a.dtype;
    cast.dtype = random_.pick(kDTypes);
    cast.type = compute_type(cast.dtype);
    cast.extent = builder_.extent_of(a.index);
    cast.a = a.index;
    values_.push_back({builder_.add(cast), cast.dtype});
  }

  int to_bits(int value, DType dtype) {
    Instruction convert;
    convert.kind = Instruction::Kind::to_bits;
    convert.dtype = dtype;
    convert.type = word_type(dtype);
    convert.extent = builder_.extent_of(value);
    convert.a = value;
    return builder_.add(convert);
  }

  void add_where(const Value& a) {
    const int condition = builder_.op(Op::ne, compute_type(a.dtype), a.index, operand_like(a));
    const int b = to_bits(a.index, a.dtype);
    const int c = to_bits(operand_like(a), a.dtype);
    Instruction convert;
    convert.kind = Instruction::Kind::from_bits;
    convert.dtype = a.dtype;
    convert.type = compute_type(a.dtype);
    convert.a = builder_.op(Op::where, word_type(a.dtype), condition, b, c);
    convert.extent = builder_.extent_of(convert.a);
    values_.push_back({builder_.add(convert), a.dtype});
  }

  Random& random_;
  ProgramBuilder builder_;
  bool reductions_;
  std::vector<Value> values_;
};

Shape random_dims(Random& random, int largest_rank, std::int64_t about) {
  Shape shape;
  const int rank = random.below(largest_rank + 1);
  for (int d = 0; d < rank; ++d) {
    const auto bound = static_cast<int>(d + 1 == rank ? about : std::min<std::int64_t>(about, 6));
    shape.push_back(random.one_in(100) ? 0 : 1 + random.below(bound));
    about = std::max<std::int64_t>(1, about / std::max<std::int64_t>(1, shape.back()));
  }
  return shape;
}

void check(std::uint64_t seed, Shape rows, Shape inner, bool reductions, Random& random) {
  Generator generator(random, rows, inner, reductions);
  ASSERT_TRUE(generator.make().agrees_everywhere())
      << "seed " << seed << ", rows " << rows.to_string() << ", inner " << inner.to_string();
}

TEST(RowRandom, SmallProgramsOfAllOpsAndDTypes) {
  for (std::uint64_t seed = 0; seed < enough_of(1500U); ++seed) {
    Random random(seed);
    const Shape rows = random_dims(random, 3, 90);
    const Shape inner = random_dims(random, 3, 90);
    check(seed, rows, inner, random.one_in(2), random);
    if (HasFatalFailure()) return;
  }
}

TEST(RowRandom, BlocksOfShortRows) {
  for (std::uint64_t seed = 20000; seed < 20000 + enough_of(400U); ++seed) {
    Random random(seed);
    const bool many = random.one_in(2);
    const Shape rows = random.one_in(2) ? Shape{many ? 100 : 7} : Shape{many ? 9 : 2, 5};
    const int about = many ? 64 + random.below(100) : 2 + random.below(600);
    const Shape inner = random.one_in(3) ? Shape{2, about} : Shape{about};
    check(seed, rows, inner, true, random);
    if (HasFatalFailure()) return;
  }
}

TEST(RowRandom, EpiloguesInBlocksOfSomeRowsAndColumns) {
  for (std::uint64_t seed = 30000; seed < 30000 + enough_of(400U); ++seed) {
    Random random(seed);
    const Shape rows =
        random.one_in(2) ? Shape{1 + random.below(150)} : Shape{1 + random.below(5), 1 + random.below(30)};
    const int about = 1 + random.below(random.one_in(4) ? 1500 : 200);
    const Shape inner = random.one_in(3) ? Shape{2, about} : Shape{about};
    Generator generator(random, rows, inner, false);
    const ProgramBuilder& builder = generator.make();
    const ProgramBuilder::Buffers expected = builder.run_reference();
    const std::int64_t some_rows = 1 + random.below(static_cast<int>(rows.numel()));
    const std::int64_t some_columns =
        random.one_in(2) ? inner.numel() : 1 + random.below(static_cast<int>(inner.numel()));
    for (const Isa isa : available_isas()) {
      ASSERT_TRUE(same_bits(builder.program(), expected, builder.run_blocks(isa, some_rows, some_columns)))
          << "seed " << seed << ", rows " << rows.to_string() << ", inner " << inner.to_string() << ", blocks of "
          << some_rows << " by " << some_columns << ", " << name_of(isa);
    }
  }
}

TEST(RowRandom, LargeProgramsCrossTilesAndChunks) {
  for (std::uint64_t seed = 10000; seed < 10000 + enough_of(100U); ++seed) {
    Random random(seed);
    const bool tall = random.one_in(2);
    const Shape rows = random_dims(random, 2, tall ? 600 : 6);
    const Shape inner = random_dims(random, 2, tall ? 40 : 12000);
    check(seed, rows, inner, !random.one_in(3), random);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace lockstep
