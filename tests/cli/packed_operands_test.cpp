// Every op of the check with packed operands: it has the bits that it has with unpacked ones, or refuses them by the
// name of dequantize; it neither reads blocks as elements nor fails in another way.
#include <set>

#include <lockstep/random.h>

#include "cli/check/ops.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

using cli::CheckOp;
using cli::Form;
using cli::Probe;
using cli::Tensors;

// Operands whose last size is one of whole blocks come packed: of the second matrices, the right one alone.
std::vector<Shape> shapes_of(Form form) {
  switch (form) {
    case Form::elementwise:
    case Form::rows:
    case Form::small: return {{3, 32}, {32}};
    case Form::matrix: return {{32, 64, 32}, {5, 60, 32}};
    case Form::signal: return {{2, 4, 32}};
    case Form::image: return {{2, 4, 8, 32}};
    case Form::volume: return {{1, 4, 5, 6, 32}};
    case Form::sequence: return {{5, 2, 32}};
  }
  return {};
}

struct Outcome {
  Tensors results;
  std::string refusal;
};
Outcome outcome_of(const CheckOp& op, const cli::Point& point, Probe::Packing packing) {
  Outcome outcome;
  manual_seed(42);
  Probe probe(DType::f32, point, Device{});
  probe.pack(Encoding::q8_0, packing);
  try {
    for (const Tensor& result : op.run(probe)) outcome.results.push_back(dequantize(result).eval());
  } catch (const Error& error) {
    outcome.results.clear();
    outcome.refusal = error.what();
  }
  return outcome;
}

TEST(PackedOperands, EveryOpReadsThemRightOrNamesDequantize) {
  std::set<std::string> readers;
  int refused = 0;
  for (const CheckOp& op : cli::all_check_ops()) {
    for (const Shape& shape : shapes_of(op.form)) {
      for (int variant = 0; variant < op.variants; ++variant) {
        const cli::Point point{.shape = shape, .variant = variant};
        SCOPED_TRACE(std::string(op.name) + " " + to_string(point));
        const Outcome dense = outcome_of(op, point, Probe::Packing::unpacked);
        const Outcome packed = outcome_of(op, point, Probe::Packing::packed);
        if (!packed.refusal.empty()) {
          const bool named = packed.refusal.find("dequantize(") != std::string::npos;
          EXPECT_TRUE(named || !dense.refusal.empty()) << packed.refusal;
          refused += named;
          continue;
        }
        EXPECT_EQ(dense.refusal, "");
        ASSERT_EQ(packed.results.size(), dense.results.size());
        for (std::size_t i = 0; i < dense.results.size(); ++i) EXPECT_BITS_EQ(packed.results[i], dense.results[i]);
        readers.insert(op.name);
      }
    }
  }
  EXPECT_GT(refused, 300);
  for (const char* op : {"matmul", "mm", "bmm", "tensordot", "einsum", "embedding", "gather", "take", "dequantize"}) {
    EXPECT_TRUE(readers.contains(op)) << op;
  }
}

}  // namespace
}  // namespace lockstep::test
