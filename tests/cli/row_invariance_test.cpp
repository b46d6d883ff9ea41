// Every op of the check's table: a row of a batch equals the row computed alone, bit for bit. The table's own call
// makes the batch; the row is the same call at a shape whose batch is 1, with that row of every operand.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <lockstep/linalg.h>
#include <lockstep/random.h>

#include "cli/check/ops.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

using cli::CheckOp;
using cli::Probe;
using cli::Tensors;

constexpr std::int64_t kBatch = 5;

// Where rows are none: along `dim` (-1: any) in `variants` (none: all) of an op's row in the table of the check.
struct NotRows {
  const char* op;
  int dim;
  std::vector<int> variants;
  const char* why;
};
const NotRows kNotRows[] = {
    {"batch_norm_training", 0, {}, "normalises over the batch"},
    {"dropout", 0, {0, 1}, "an element's number in the batch draws its mask"},
    {"alpha_dropout", 0, {0, 1}, "an element's number in the batch draws its mask"},
    {"feature_dropout", 0, {0, 1}, "a channel's number in the batch draws its mask"},
    {"feature_alpha_dropout", 0, {0, 1}, "a channel's number in the batch draws its mask"},
    {"dropout1d", 0, {0, 1}, "a channel's number in the batch draws its mask"},
    {"dropout2d", 0, {0, 1}, "a channel's number in the batch draws its mask"},
    {"dropout3d", 0, {0, 1}, "a channel's number in the batch draws its mask"},
    {"scaled_dot_product_attention", 0, {1, 2, 6}, "what a causal query sees hangs on its position"},
    {"rope", 1, {}, "turns by the position"},
    {"tril", 1, {}, "chooses by the place in the matrix"},
    {"triu", 1, {}, "chooses by the place in the matrix"},
    {"diagonal_scatter", 0, {}, "chooses by the place in the matrix"},
    {"dequantize", 2, {}, "a probe makes the blocks of a smaller table anew"},
    {"index_put", 0, {}, "writes to rows by their number"},
    {"hstack", 1, {}, "joins along it"},
    {"vstack", 0, {}, "joins along it"},
    {"column_stack", 1, {}, "joins along it"},
    {"fliplr", 1, {}, "reverses it"},
    {"flipud", 0, {}, "reverses it"},
    {"reshape", -1, {}, "the check reverses all elements"},
    {"roll", -1, {1}, "moves all elements"},
    {"rot90", -1, {0, 1, 2}, "moves rows"},
    {"repeat_interleave", 1, {1}, "repeats all elements"},
    {"multi_dot", 0, {}, "chooses the order of its products by the sizes"},
    {"masked_scatter", -1, {}, "takes elements by how many were taken before"},
    {"unique", -1, {}, "numbers the values of all elements"},
    {"unique_consecutive", -1, {}, "numbers the values of all elements"},
};

// Ops that have no rows at all.
const std::map<std::string, std::string> kWithoutRows = {
    {"alibi_slopes", "has no tensor operand"},
    {"allclose", "answers for all elements"},
    {"arange", "has no tensor operand"},
    {"batch_norm_training", "normalises over the batch"},
    {"bincount", "counts all elements"},
    {"diag", "makes a matrix of a vector, a vector of a matrix"},
    {"dot", "is one sum"},
    {"empty", "has no tensor operand"},
    {"equal", "answers for all elements"},
    {"eye", "has no tensor operand"},
    {"fft.fftfreq", "has no tensor operand"},
    {"fft.rfftfreq", "has no tensor operand"},
    {"full", "has no tensor operand"},
    {"histc", "counts all elements"},
    {"linspace", "has no tensor operand"},
    {"logspace", "has no tensor operand"},
    {"masked_scatter", "takes elements by how many were taken before"},
    {"masked_select", "its size hangs on all elements"},
    {"multi_dot", "chooses the order of its products by the sizes"},
    {"nonzero", "its size hangs on all elements"},
    {"ones", "has no tensor operand"},
    {"rand", "has no tensor operand"},
    {"randn", "has no tensor operand"},
    {"rope_tables", "has no tensor operand"},
    {"trace", "is one sum"},
    {"tril_indices", "has no tensor operand"},
    {"triu_indices", "has no tensor operand"},
    {"unique", "numbers the values of all elements"},
    {"unique_consecutive", "numbers the values of all elements"},
    {"vdot", "is one sum"},
    {"zeros", "has no tensor operand"},
};

// A shape with a batch, and the dimension of the batch.
struct Batched {
  Shape shape;
  int dim;
};
std::vector<Batched> batches_of(const CheckOp& op, int variant) {
  if (std::string_view(op.name).starts_with("linalg.")) return {};  // whose rows are matrices: kOwnRows
  switch (op.form) {
    case cli::Form::elementwise: return {{{kBatch, 67}, 0}};
    case cli::Form::small: return {{{kBatch, 3}, 0}, {{3, kBatch}, 1}};
    case cli::Form::rows: {  // along a dimension that the op does not work along
      std::vector<Batched> batches = {{{kBatch, 3, 67}, 0}, {{3, kBatch, 67}, 1}};
      const Probe probe(DType::f32, {.shape = batches[0].shape, .variant = variant}, Device{});
      std::erase_if(batches, [&](const Batched& batch) { return batch.dim == probe.dim(); });
      return batches;
    }
    case cli::Form::matrix:  // rows of the left operand, columns of the right one
      return {{{kBatch, 67, 9}, 0}, {{9, 67, kBatch}, 2}, {{kBatch, 600, 40}, 0}};
    case cli::Form::signal: return {{{kBatch, 4, 37}, 0}};
    case cli::Form::image: return {{{kBatch, 4, 9, 7}, 0}};
    case cli::Form::volume: return {{{kBatch, 4, 5, 6, 7}, 0}};
    case cli::Form::sequence: return {{{7, kBatch, 4}, 1}};
  }
  return {};
}

// The dimension in which a batch has kBatch times the elements of a row; none if shapes differ in another way.
std::optional<int> batch_dim(const Shape& whole, const Shape& alone) {
  std::optional<int> found;
  if (whole.rank() != alone.rank()) return std::nullopt;
  for (int d = 0; d < whole.rank(); ++d) {
    if (whole[d] == alone[d]) continue;
    if (found || whole[d] != kBatch * alone[d]) return std::nullopt;
    found = d;
  }
  return found;
}

Tensor row_of(const Tensor& whole, int dim, std::int64_t row) {
  const std::int64_t size = whole.size(dim) / kBatch;
  return whole.narrow(dim, row * size, size);
}

// Calls with a batch where the probe of the check has none.
struct OwnRows {
  const char* op;
  Shape shape;  ///< [kBatch, ...]
  Tensors (*run)(const Tensor& x);
};
constexpr std::int64_t kMatrix = 37;  // beyond a panel of the factorisations
const Shape kMatrices{kBatch, kMatrix, kMatrix};
const Shape kTall{kBatch, 9, 6};

Tensor constant(const Shape& shape, DType dtype, std::uint64_t seed) {
  return random_tensor(shape, dtype, seed, Device{});
}
Tensor regular_matrices(const Tensor& x) {
  return x + roll(eye(kMatrix, std::nullopt, {.dtype = x.dtype()}) * 100.0, {1}, {1});
}
Tensor definite_matrices(const Tensor& x) {
  return (x + x.transpose(-2, -1)) * 0.5 + eye(kMatrix, std::nullopt, {.dtype = x.dtype()}) * 100.0;
}
Tensor right_sides(const Tensor& x) {
  return contiguous(x.narrow(2, 0, 3));
}
Tensor small_symmetric(const Tensor& x) {
  const Tensor a = x.narrow(1, 0, 6);
  return a + a.transpose(-2, -1);
}

const OwnRows kOwnRows[] = {
    {"linalg.solve", kMatrices,
     [](const Tensor& x) -> Tensors { return {linalg::solve(regular_matrices(x), right_sides(x))}; }},
    {"linalg.solve_ex", kMatrices,
     [](const Tensor& x) -> Tensors {
       const linalg::ResultInfo r = linalg::solve_ex(regular_matrices(x), right_sides(x));
       return {r.result, r.info};
     }},
    {"linalg.solve_triangular", kMatrices,
     [](const Tensor& x) -> Tensors {
       return {linalg::solve_triangular(definite_matrices(x), right_sides(x), {.upper = true}),
               linalg::solve_triangular(definite_matrices(x), right_sides(x), {.upper = false})};
     }},
    {"linalg.inv", kMatrices, [](const Tensor& x) -> Tensors { return {linalg::inv(regular_matrices(x))}; }},
    {"linalg.inv_ex", kMatrices,
     [](const Tensor& x) -> Tensors {
       const linalg::ResultInfo r = linalg::inv_ex(regular_matrices(x));
       return {r.result, r.info};
     }},
    {"linalg.det", kMatrices, [](const Tensor& x) -> Tensors { return {linalg::det(regular_matrices(x) * 0.01)}; }},
    {"linalg.slogdet", kMatrices,
     [](const Tensor& x) -> Tensors {
       const linalg::SignLogDet r = linalg::slogdet(regular_matrices(x));
       return {r.sign, r.logabs};
     }},
    {"linalg.cholesky", kMatrices, [](const Tensor& x) -> Tensors { return {linalg::cholesky(definite_matrices(x))}; }},
    {"linalg.cholesky_ex", kMatrices,
     [](const Tensor& x) -> Tensors {
       const linalg::ResultInfo r = linalg::cholesky_ex(definite_matrices(x));
       return {r.result, r.info};
     }},
    {"linalg.qr", kMatrices,
     [](const Tensor& x) -> Tensors {
       const linalg::Qr square = linalg::qr(x);
       const linalg::Qr tall = linalg::qr(x.narrow(2, 0, 7));
       return {square.q, square.r, tall.q, tall.r};
     }},
    {"linalg.eigh", kTall,
     [](const Tensor& x) -> Tensors {
       const linalg::Eigh r = linalg::eigh(small_symmetric(x));
       return {r.eigenvalues, r.eigenvectors};
     }},
    {"linalg.eigvalsh", kTall, [](const Tensor& x) -> Tensors { return {linalg::eigvalsh(small_symmetric(x))}; }},
    {"linalg.svd", kTall,
     [](const Tensor& x) -> Tensors {
       const linalg::Svd r = linalg::svd(x, {.full_matrices = false});
       return {r.u, r.s, r.vh};
     }},
    {"linalg.svdvals", kTall, [](const Tensor& x) -> Tensors { return {linalg::svdvals(x)}; }},
    {"linalg.lstsq", kTall,
     [](const Tensor& x) -> Tensors { return {linalg::lstsq(x, contiguous(x.narrow(2, 0, 2))).solution}; }},
    {"scaled_dot_product_attention",
     {kBatch, 2, 7, 8},
     [](const Tensor& x) -> Tensors {
       return {scaled_dot_product_attention(x, x, x), scaled_dot_product_attention(x, x, x, {.causal = true}),
               scaled_dot_product_attention(x, x, x, {.causal = true, .window_left = 3})};
     }},
    {"rope",
     {kBatch, 7, 8},
     [](const Tensor& x) -> Tensors {
       return {rope(x), rope(x, {.interleaved = true}), rope(x, {.dims = 4, .offset = 5})};
     }},
    {"ctc_loss",
     {kBatch, 11, 4},
     [](const Tensor& x) -> Tensors {
       const std::int64_t n = x.size(0);
       const std::vector<std::int64_t> lengths(static_cast<std::size_t>(n), 11);
       const std::vector<std::int64_t> target_lengths(static_cast<std::size_t>(n), 3);
       const Tensor targets = contiguous(argmax(x, 2).narrow(1, 0, 3)) % 3 + 1;
       return {ctc_loss(log_softmax(contiguous(x.transpose(0, 1)), 2), targets, lengths, target_lengths,
                        {.reduction = Reduction::none})};
     }},
    {"embedding",
     {kBatch, 67},
     [](const Tensor& x) -> Tensors {
       return {embedding(constant({67, 19}, x.dtype(), 3), argsort(x, 1))};
     }},
    {"take",
     {kBatch, 67},
     [](const Tensor& x) -> Tensors { return {take(constant({67}, x.dtype(), 4), argsort(x, 1))}; }},
    {"kron",
     {kBatch, 7},
     [](const Tensor& x) -> Tensors {
       return {kron(x, constant({2, 3}, x.dtype(), 5))};
     }},
    {"reshape",
     {kBatch, 3, 67},
     [](const Tensor& x) -> Tensors {
       return {contiguous(x.transpose(1, 2).reshape({-1, 201}).flip({1}))};
     }},
};

struct OfRows {
  int compared = 0;
  std::string difference;
};

const NotRows* not_rows(const CheckOp& op, int variant, int dim) {
  for (const NotRows& none : kNotRows) {
    if (std::string_view(none.op) != op.name || (none.dim >= 0 && none.dim != dim)) continue;
    if (none.variants.empty() || std::ranges::find(none.variants, variant) != none.variants.end()) return &none;
  }
  return nullptr;
}

Tensors results_of(const CheckOp& op, Probe& probe, Numerics numerics) {
  manual_seed(42);
  const NumericsScope scope(numerics);
  return op.run(probe);
}

void compare_row(const CheckOp& op, DType dtype, cli::Point point, const Batched& batch, std::int64_t row,
                 const Tensors& operands, const Tensors& whole, OfRows& found) {
  point.shape[batch.dim] = 1;
  Probe probe(dtype, point, Device{});
  bool of_rows = false;
  probe.choose([&](std::size_t i, const Tensor& made) {
    if (i >= operands.size()) return made;
    if (made.shape() == operands[i].shape()) return operands[i];
    const std::optional<int> dim = batch_dim(operands[i].shape(), made.shape());
    if (!dim) return made;
    of_rows = true;
    return contiguous(row_of(operands[i], *dim, row));
  });
  const Tensors alone = results_of(op, probe, point.numerics);
  if (!of_rows || alone.size() != whole.size()) return;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const std::optional<int> dim = batch_dim(whole[i].shape(), alone[i].shape());
    if (!dim) continue;
    ++found.compared;
    const Tensor expected = row_of(whole[i], *dim, row);
    const auto equal = bits_equal("batch", "alone", expected, alone[i]);
    if (!equal && found.difference.empty())
      found.difference = fmt::format("result {}, row {}: {}", i, row, equal.message());
  }
}

OfRows compare_rows(const CheckOp& op, DType dtype, const cli::Point& point, const Batched& batch) {
  OfRows found;
  Probe probe(dtype, point, Device{});
  Tensors whole;
  try {
    for (const Tensor& result : results_of(op, probe, point.numerics)) whole.push_back(result.eval());
  } catch (const Error&) {
    return found;  // not of this dtype or rank
  }
  try {
    for (std::int64_t row = 0; row < kBatch; ++row)
      compare_row(op, dtype, point, batch, row, probe.operands(), whole, found);
  } catch (const Error& error) {
    found.difference = fmt::format("alone: {}", error.what());
  }
  return found;
}

int compare_own_rows(const OwnRows& own) {
  int compared = 0;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(fmt::format("{} {}", own.op, name_of(dtype)));
    const Tensor x = random_tensor(own.shape, dtype, 7, Device{});
    Tensors whole;
    try {
      whole = own.run(x);
    } catch (const DTypeError&) {
      EXPECT_NE(dtype, DType::f32);
      continue;
    }
    for (std::int64_t row = 0; row < kBatch; ++row) {
      const Tensors alone = own.run(contiguous(x.narrow(0, row, 1)));
      for (std::size_t i = 0; i < whole.size(); ++i, ++compared)
        EXPECT_BITS_EQ(row_of(whole[i], 0, row), alone[i]) << "result " << i << ", row " << row;
    }
  }
  return compared;
}

TEST(RowInvariance, OfEveryOp) {
  std::map<std::string, int> compared;
  std::set<const NotRows*> met;
  for (const CheckOp& op : cli::all_check_ops()) {
    compared[op.name] = 0;
    for (const DType dtype : {DType::f32, DType::bf16, DType::i32}) {
      for (int variant = 0; variant < op.variants; ++variant) {
        for (const Batched& batch : batches_of(op, variant)) {
          std::vector<Numerics> all = cli::numerics_beside_exact(op, dtype);
          all.push_back(Numerics::exact);
          for (const Numerics numerics : all) {
            const cli::Point point{.shape = batch.shape, .variant = variant, .numerics = numerics};
            const OfRows found = compare_rows(op, dtype, point, batch);
            if (const NotRows* const none = not_rows(op, variant, batch.dim)) {
              if (!found.difference.empty()) met.insert(none);
              continue;
            }
            compared[op.name] += found.compared;
            EXPECT_EQ(found.difference, "")
                << op.name << " " << name_of(dtype) << " " << to_string(point) << ", batch in dimension " << batch.dim;
          }
        }
      }
    }
  }
  for (const OwnRows& own : kOwnRows) compared[own.op] += compare_own_rows(own);
  for (const auto& [name, count] : compared) {
    if (kWithoutRows.contains(name)) {
      EXPECT_EQ(count, 0) << name << " has rows: remove it from kWithoutRows";
    } else {
      EXPECT_GT(count, 0) << name << ": no row was compared; give it one in kOwnRows, or a reason in kWithoutRows";
    }
  }
  for (const auto& [name, why] : kWithoutRows) EXPECT_TRUE(compared.contains(name)) << name << " is no op";
  for (const NotRows& none : kNotRows)
    EXPECT_TRUE(met.contains(&none)) << none.op << " has rows: remove it from kNotRows";
}

}  // namespace
}  // namespace lockstep::test
