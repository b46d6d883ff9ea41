#include "graph/shadow_kernels.h"

#include <utility>

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

/// Of the results' places: rows, and then inner dimensions.
Shape space_of(const Program& program) {
  Shape space = program.rows;
  for (const std::int64_t size : program.inner) space.push_back(size);
  return space;
}

/// Elements without their signs, in a buffer of their own.
BufferRef magnitudes_of(Backend& backend, const Buffer& elements, DType dtype) {
  Bytes bytes(elements.bytes());
  backend.download(bytes.data(), elements, bytes.size());
  for (std::size_t last = size_of(dtype); last <= bytes.size(); last += size_of(dtype)) {
    bytes[last - 1] &= std::byte{0x7f};
  }
  BufferRef result = backend.allocate(bytes.size());
  backend.upload(*result, bytes.data(), bytes.size());
  return result;
}

/// The same operand in another slot, where magnitudes are.
Input magnitude_in(int slot, Input input) {
  input.slot = slot;
  input.view.fill &= (std::uint64_t{1} << (8 * size_of(input.dtype) - 1)) - 1;
  return input;
}

double bound_of_sums(const ContractionKernel& kernel) {
  const double of_rounding = kernel.a.dtype == DType::bf16 ? 0x1p-8 : kernel.a.dtype == DType::f16 ? 0x1p-11 : 0x1p-9;
  return 0x1p-23 * (static_cast<double>(kernel.k.numel()) + 16) + of_rounding;
}

}  // namespace

FastProduct::FastProduct(Backend& backend, const ContractionKernel& kernel, std::vector<BufferRef> slots, Run run)
    : backend_(backend),
      kernel_(kernel),
      slots_(std::move(slots)),
      run_(std::move(run)),
      sums_slot_(static_cast<int>(slots_.size())) {
  const std::size_t count = static_cast<std::size_t>(space_of(kernel.epilogue).numel());
  slots_.push_back(backend.allocate(count * sizeof(float)));
  exact_ = sums_of(kernel.a, kernel.b_operand);
  const auto magnitude = [&](const Input& input) {
    const int slot = static_cast<int>(slots_.size());
    slots_.push_back(magnitudes_of(backend, *slots_[static_cast<std::size_t>(input.slot)], input.dtype));
    return magnitude_in(slot, input);
  };
  const Input a = magnitude(kernel.a);
  const Input b = magnitude(kernel.b_operand);
  bound_ = sums_of(a, b);
  for (float& sum : bound_) sum = static_cast<float>(sum * bound_of_sums(kernel));
}

std::vector<float> FastProduct::sums_of(const Input& a, const Input& b) {
  ContractionKernel product = kernel_;
  product.numerics = Numerics::exact;
  product.a = a;
  product.b_operand = b;
  const Instruction sum{.kind = Instruction::Kind::accumulator, .type = product.type};
  const Output made{.slot = sums_slot_, .strides = View::contiguous(space_of(kernel_.epilogue)).strides};
  product.epilogue =
      Program{.rows = kernel_.epilogue.rows, .inner = kernel_.epilogue.inner, .code = {sum}, .outputs = {made}};
  run_(product, slots_);
  std::vector<float> sums(static_cast<std::size_t>(space_of(kernel_.epilogue).numel()));
  backend_.download(sums.data(), *slots_[static_cast<std::size_t>(sums_slot_)], sums.size() * sizeof(float));
  return sums;
}

void FastProduct::make(double bounds) {
  std::vector<float> sums = exact_;
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<float>(sums[i] + bounds * bound_[i]);
  backend_.upload(*slots_[static_cast<std::size_t>(sums_slot_)], sums.data(), sums.size() * sizeof(float));
  RowKernel epilogue{kernel_.epilogue};
  const int input = static_cast<int>(epilogue.program.inputs.size());
  epilogue.program.inputs.push_back(
      {.slot = sums_slot_, .view = View::contiguous(space_of(kernel_.epilogue)), .canonical = true});
  for (Instruction& instruction : epilogue.program.code) {
    if (instruction.kind != Instruction::Kind::accumulator) continue;
    instruction.kind = Instruction::Kind::load;
    instruction.dtype = DType::f32;
    instruction.index = input;
  }
  run_(epilogue, slots_);
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
