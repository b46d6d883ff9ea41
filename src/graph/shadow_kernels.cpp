#include "graph/shadow_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "kernels/storage.h"

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

BufferRef uploaded(Backend& backend, const void* bytes, std::size_t count) {
  BufferRef result = backend.allocate(count);
  backend.upload(*result, bytes, count);
  return result;
}

/// Elements without their signs, in a buffer of their own.
BufferRef magnitudes_of(Backend& backend, const Buffer& elements, const Input& input) {
  Bytes bytes(elements.bytes());
  backend.download(bytes.data(), elements, bytes.size());
  const std::size_t each = is_floats(input.encoding) ? 1 : size_of(input.dtype);
  const std::size_t block = is_floats(input.encoding) ? info_of(input.encoding).bytes : bytes.size();
  for (std::size_t last = each; last <= bytes.size(); last += each) {
    if (each == 1 && (last - 1) % block < sizeof(float) - 1) continue;  // the lower bytes of a scale
    bytes[last - 1] &= std::byte{0x7f};
  }
  return uploaded(backend, bytes.data(), bytes.size());
}

/// The same operand in another slot, where magnitudes are.
Input magnitude_in(int slot, Input input) {
  input.slot = slot;
  input.view.fill &= (std::uint64_t{1} << (8 * size_of(input.dtype) - 1)) - 1;
  return input;
}

/// What activations err by that are rounded to e4m3: a 16th of an element, or 2^-18 of the largest one of those that it
/// shares a scale with; and `other` parts of it.
std::vector<float> errors_of_floats(Backend& backend, const Buffer& elements, const Input& a, std::int64_t shared,
                                    double other) {
  Bytes bytes(elements.bytes());
  backend.download(bytes.data(), elements, bytes.size());
  const Shape& shape = a.view.shape;
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  std::array<std::int64_t, Shape::kCapacity> index{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    for (int d = shape.rank() - 1; d >= 0; --d) {
      index[static_cast<std::size_t>(d)] = rest % shape[d];
      rest /= shape[d];
    }
    const std::int64_t address = a.view.address(index.data());
    const std::uint64_t word = address < 0 ? a.view.fill : load_word(a.dtype, bytes.data(), address);
    values[i] = std::abs(decode<float>(a.dtype, word));
  }
  const auto each = static_cast<std::size_t>(shared);
  for (std::size_t begin = 0; begin < values.size(); begin += each) {
    const std::span part(values.data() + begin, each);
    const float largest = *std::max_element(part.begin(), part.end());
    for (float& value : part) value = static_cast<float>(value * (0x1p-4 + other) + largest * 0x1p-18);
  }
  return values;
}

double bound_of_sums(const ContractionKernel& kernel) {
  const bool floats = is_floats(kernel.b_operand.encoding);  // sums of 128 products in few bits, rounded to bf16
  const double of_rounding = floats                          ? 0x1p-6 + 0x1p-8
                             : kernel.a.dtype == DType::bf16 ? 0x1p-8
                             : kernel.a.dtype == DType::f16  ? 0x1p-11
                                                             : 0x1p-9;
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
    slots_.push_back(magnitudes_of(backend, *slots_[static_cast<std::size_t>(input.slot)], input));
    return magnitude_in(slot, input);
  };
  const Input b = magnitude(kernel.b_operand);
  if (is_floats(kernel.b_operand.encoding)) {
    const std::int64_t shared = kernel.b_operand.encoding == Encoding::e4m3_rows ? kernel.k.numel() : 128;
    const std::vector<float> errors = errors_of_floats(backend, *slots_[static_cast<std::size_t>(kernel.a.slot)],
                                                       kernel.a, shared, bound_of_sums(kernel));
    const Input a{.slot = static_cast<int>(slots_.size()), .view = View::contiguous(kernel.a.view.shape)};
    slots_.push_back(uploaded(backend, errors.data(), errors.size() * sizeof(float)));
    bound_ = sums_of(a, b);
    return;
  }
  const Input a = magnitude(kernel.a);
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
