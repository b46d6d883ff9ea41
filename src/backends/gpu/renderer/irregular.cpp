#include "backends/gpu/renderer/irregular.h"

#include <algorithm>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace gpu {

Shape dense_strides(const Shape& shape) {
  Shape strides = Shape::filled(shape.rank(), 1);
  for (int d = shape.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * std::max<std::int64_t>(shape[d + 1], 1);
  return strides;
}

Shape joined(const Shape& rows, std::int64_t n) {
  Shape shape = rows;
  shape.push_back(n);
  return shape;
}

RowKernel move_kernel(const Input& input, int out, const Shape& strides, std::int64_t offset) {
  RowKernel kernel;
  kernel.program.inner = input.view.shape;
  kernel.program.inputs = {input};
  Instruction load;
  load.kind = Instruction::Kind::load_bits;
  load.type = word_type(input.dtype);
  load.dtype = input.dtype;
  load.index = 0;
  kernel.program.code = {load};
  kernel.program.outputs = {{out, input.dtype, 0, true, strides, offset}};
  return kernel;
}

Reader::Reader(const std::vector<Input>& inputs, Words& words, bool bits) : words_(words) {
  for (const Input& input : inputs) {
    Instruction load;
    load.kind = bits ? Instruction::Kind::load_bits : Instruction::Kind::load;
    load.type = bits ? word_type(input.dtype) : compute_type(input.dtype);
    load.dtype = input.dtype;
    load.index = static_cast<int>(program_.inputs.size());
    program_.inputs.push_back(input);
    program_.code.push_back(load);
  }
  program_.inner = inputs[0].view.shape;
  space_ = Space::of(program_, false);
}

void Reader::declare(Lines& lines) {
  ProgramWriter(program_, space_, words_).declare_buffers(lines);
}

void Reader::read(Lines& lines, int number, const std::string& at) {
  ProgramWriter writer(program_, space_, words_);
  decompose(lines, words_, space_.shape, 0, space_.shape.rank(), at, "i", space_.wide);
  writer.declare_places(lines, "e", "", 0, space_.shape.rank(), {number}, {}, true);
  writer.emit(lines, number, "e");
}

Launch launch_of(Lines& lines, const Words& words, std::int64_t items, const RenderLimits& limits) {
  Launch result;
  result.text.body = lines.take();
  result.text.threads = limits.threads;
  result.groups = limits.groups_for((items + limits.threads - 1) / limits.threads);
  words.move_to(result);
  return result;
}

void open_loop(Lines& lines, Words& words, std::int64_t items, const RenderLimits& limits) {
  lines.add("int total = {};", words.int32(items));
  lines.add("int stride = int(GROUPS) * {};", limits.threads);
  lines.open("for (int e = int(GROUP) * {0} + int(THREAD); e < total; e += stride) {{", limits.threads);
}

void check_size(const Kernel& kernel, std::int64_t elements) {
  if (elements <= kMostElements) return;
  throw BackendError("not supported on GPUs yet: " + to_string(kernel) +
                     ", more than 2^30 elements\n"
                     "  fix: compute it on the CPU, x.to(Device::parse(\"cpu\"))");
}

std::string identity(bool product, ComputeType type) {
  if (type == ComputeType::f32) return product ? "1.0f" : "FROM_BITS(0x80000000u)";
  if (type == ComputeType::f64) return product ? "double(1)" : "FROM_BITS64(ULONG(1) << 63)";
  return fmt::format("{}({})", type_name(type), product ? 1 : 0);
}

std::string combined(bool product, ComputeType type, const std::string& a, const std::string& b) {
  if (type == ComputeType::f32) return fmt::format("{}_EXACT({}, {})", product ? "MUL" : "ADD", a, b);
  if (type == ComputeType::f64) return fmt::format("{} {} {}", a, product ? "*" : "+", b);
  return fmt::format("{}({}, {})", product ? "wrap_mul" : "wrap_add", a, b);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
