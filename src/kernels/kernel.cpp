#include "kernels/kernel.h"

#include <array>

namespace lockstep {
inline namespace v0 {
namespace {

constexpr unsigned F32 = kTypeF32;
constexpr unsigned F64 = kTypeF64;
constexpr unsigned INT = kTypeInt;
constexpr unsigned BOOL = kTypeBool;
constexpr OpKind ARITHMETIC = OpKind::arithmetic;
constexpr OpKind COMPARISON = OpKind::comparison;
constexpr OpKind MOVE = OpKind::move;
constexpr bool CHEAP = true;
constexpr bool COSTLY = false;
constexpr Domain ANY = Domain::any;
constexpr Domain POSITIVE = Domain::positive;
constexpr Domain INSIDE = Domain::inside;
constexpr Domain BEYOND = Domain::beyond;

constexpr OpInfo kOps[] = {
#define ROW(name, arity, kind, types, cost, domain, call, torch, float_value, integer_value, gradient, what) \
  {#name, arity, kind, types, cost, domain, what},
#include "kernels/ops.def"
#undef ROW
};

/// Words hold all bits, and kernels see elements of the same size that compute.
constexpr bool is_consistent(DType dtype) {
  const DType seen = kernel_dtype(dtype);
  return (word_type(dtype) == ComputeType::i64) == (size_of(dtype) == 8) && size_of(seen) == size_of(dtype) &&
         compute_type(seen) == compute_type(dtype) && !is_storage_only(seen) &&
         (seen == dtype) == !is_storage_only(dtype);
}
#define LOCKSTEP_DTYPE(name, ...) static_assert(is_consistent(DType::name));
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE

constexpr std::array<const char*, 7> kReduceNames = {"sum", "prod", "max", "min", "argmax", "argmin", "dot"};
constexpr std::array<const char*, 5> kScatterNames = {"set", "add", "prod", "max", "min"};
constexpr std::array<const char*, 6> kScanNames = {"sum", "prod", "max", "min", "argmax", "argmin"};

/// What a reader wants to see of an instruction; empty for loads, roundings and the like.
std::string describe(const Instruction& step) {
  switch (step.kind) {
    case Instruction::Kind::elementwise: return info_of(step.op).name;
    case Instruction::Kind::reduce: return name_of(step.reduce);
    case Instruction::Kind::iota: return "iota";
    case Instruction::Kind::random: return "random";
    case Instruction::Kind::gather:
    case Instruction::Kind::gather_bits: return "gather";
    case Instruction::Kind::cast: return step.from == step.dtype ? "" : "to_" + std::string(name_of(step.dtype));
    default: return "";
  }
}

std::string describe(const Program& program) {
  std::string text;
  for (const Instruction& step : program.code) {
    const std::string word = describe(step);
    if (!word.empty()) text += " " + word;
  }
  return text;
}

std::string describe(const RowKernel& kernel) {
  const Program& program = kernel.program;
  return "row[" + std::to_string(program.rows.numel()) + "x" + std::to_string(program.inner.numel()) + "]" +
         describe(program);
}

std::string describe(const ContractionKernel& kernel) {
  constexpr std::array<const char*, 4> kTypeNames = {"f32", "f64", "i32", "i64"};
  std::string text = "contract[b" + std::to_string(kernel.b.numel()) + " m" + std::to_string(kernel.m.numel()) + " n" +
                     std::to_string(kernel.n.numel()) + " k" + std::to_string(kernel.k.numel()) + " " +
                     kTypeNames[static_cast<std::size_t>(kernel.type)];
  if (kernel.b_operand.encoding != Encoding::dense) text.append(" ").append(name_of(kernel.b_operand.encoding));
  if (kernel.numerics != Numerics::exact) text.append(" ").append(name_of(kernel.numerics));
  text += "]";
  const std::string epilogue = describe(kernel.epilogue);
  return epilogue.empty() ? text : text + " +" + epilogue;
}

std::string describe(const ScatterKernel& kernel) {
  return std::string("scatter_") + name_of(kernel.op) + "[" + std::to_string(kernel.space.numel()) + " into " +
         std::to_string(kernel.self.view.shape.numel()) + "]";
}

std::string rows_by(const Shape& rows, std::int64_t n) {
  return "[" + std::to_string(rows.numel()) + "x" + std::to_string(n) + "]";
}

std::string describe(const ScanKernel& kernel) {
  return std::string("scan") + rows_by(kernel.rows, kernel.n) + " " + name_of(kernel.op);
}

std::string describe(const SortKernel& kernel) {
  return "sort" + rows_by(kernel.rows, kernel.n);
}

std::string describe(const FourierKernel& kernel) {
  constexpr std::array<const char*, 4> kNames = {"", " inverse", " real", " real inverse"};
  return "fourier" + rows_by(kernel.lines, kernel.n) + kNames[static_cast<std::size_t>(kernel.kind)];
}

std::string describe(const AttentionKernel& kernel) {
  const AttentionSizes& sizes = kernel.sizes;
  return "attention" + rows_by({sizes.batches, sizes.heads, sizes.rows}, sizes.keys) + "x" +
         std::to_string(sizes.width) + (kernel.causal ? " causal" : "") + (kernel.masked ? " masked" : "") +
         (kernel.finite_padding ? " padded" : "") + (kernel.gradients ? " gradients" : "") +
         (kernel.numerics == Numerics::blocked ? " blocked" : "");
}

std::string describe(const RecurrenceKernel& kernel) {
  constexpr std::array<const char*, 5> kNames = {"rnn_tanh", "rnn_relu", "gru", "lstm", "int8_lstm"};
  const Shape& shares = kernel.directions[0].shares.view.shape;
  return std::string(kNames[static_cast<std::size_t>(kernel.cell)]) + rows_by({shares[0], shares[1]}, shares[2]) +
         (kernel.directions.size() > 1        ? " bidirectional"
          : kernel.directions.front().reverse ? " reverse"
                                              : "");
}

std::string describe(const UpdateKernel& kernel) {
  return "update[" + std::to_string(kernel.region.shape.numel()) + " of " + std::to_string(kernel.elements) + "]";
}

bool walks_along_blocks(Encoding encoding, const View& view, int b, int k) {
  if (!view.bounds.empty()) return false;
  const std::int64_t elements = info_of(encoding).elements;
  std::int64_t length = 1;  // of the dims of k that are within
  for (int d = b + k - 1; d >= b; --d) {
    if (view.shape[d] != 1 && view.strides[d] != length) return false;
    length *= view.shape[d];
  }
  if (length == 0 || length % elements != 0 || view.offset % elements != 0) return false;
  for (int d = 0; d < view.rank(); ++d) {
    const bool is_k = b <= d && d < b + k;
    if (!is_k && view.shape[d] != 1 && view.strides[d] % elements != 0) return false;
  }
  return true;
}

}  // namespace

bool has_q8_form(Encoding encoding, const View& view, int b, int k) {
  return is_blocks(encoding) && !is_floats(encoding) && walks_along_blocks(encoding, view, b, k);
}

bool has_fast_form(Encoding encoding, const View& view, int b, int k) {
  return holds_e4m3(encoding) && view.shape.slice(0, b).numel() == 1 && walks_along_blocks(encoding, view, b, k);
}

const OpInfo& info_of(Op op) {
  return kOps[static_cast<std::size_t>(op)];
}

const char* name_of(ReduceOp op) {
  return kReduceNames[static_cast<std::size_t>(op)];
}

const char* name_of(ScatterOp op) {
  return kScatterNames[static_cast<std::size_t>(op)];
}

const char* name_of(ScanOp op) {
  return kScanNames[static_cast<std::size_t>(op)];
}

bool is_fast(const Kernel& kernel) {
  if (const auto* contraction = std::get_if<ContractionKernel>(&kernel)) return contraction->numerics == Numerics::fast;
  const auto* attention = std::get_if<AttentionKernel>(&kernel);
  return attention != nullptr && attention->numerics == Numerics::fast;
}

bool is_whole(const Kernel& kernel) {
  return std::holds_alternative<AttentionKernel>(kernel) || std::holds_alternative<RecurrenceKernel>(kernel);
}

std::size_t faults_of(const Kernel& kernel) {
  if (const auto* row = std::get_if<RowKernel>(&kernel)) return row->program.tables.size();
  if (const auto* contraction = std::get_if<ContractionKernel>(&kernel)) return contraction->epilogue.tables.size();
  return std::holds_alternative<ScatterKernel>(kernel) ? 1 : 0;
}

std::string to_string(const Kernel& kernel) {
  return std::visit([](const auto& k) { return describe(k); }, kernel);
}

}  // namespace v0
}  // namespace lockstep
