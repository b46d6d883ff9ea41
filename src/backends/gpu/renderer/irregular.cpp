// Updates, sorts, scans and scatters. Their results are defined by an order of the elements, so that any algorithm that
// keeps it gives the same bits: sorts are bitonic networks over (key, position) pairs, no two of which are equal;
// scatters sort their places and combine each one's values in the canonical order of reductions.
#include <algorithm>
#include <bit>

#include <lockstep/error.h>

#include "backends/gpu/renderer/kinds.h"
#include "backends/gpu/renderer/program.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 30;

// The texts of scans and scatters write the numbers of the order out.
static_assert(order::kChunk == 4096 && order::kLanes == 64 && order::kScanLane == 64);

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

/// A program that moves words from an input to an output.
RowKernel move_kernel(const Input& input, int out, const Shape& strides, std::int64_t offset = 0) {
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

/// Statements that read elements of inputs at an index of their common shape; all kernels of this file use it.
class Reader {
 public:
  /// `bits`: as words.
  Reader(const std::vector<Input>& inputs, Words& words, bool bits = false) : words_(words) {
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
  void declare(Lines& lines) { ProgramWriter(program_, space_, words_).declare_buffers(lines); }
  /// Declares v<number> of an input, read at the linear position `at`. In a scope of its own.
  void read(Lines& lines, int number, const std::string& at) {
    ProgramWriter writer(program_, space_, words_);
    decompose(lines, words_, space_.shape, 0, space_.shape.rank(), at, "i", space_.wide);
    writer.declare_places(lines, "e", "", 0, space_.shape.rank(), {number}, {}, true);
    writer.emit(lines, number, "e");
  }

 private:
  Words& words_;
  Program program_;
  Space space_;
};

Launch launch(Lines& lines, const Words& words, std::int64_t items, const RenderLimits& limits) {
  Launch result;
  result.text.body = lines.take();
  result.text.threads = limits.threads;
  result.groups = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>((items + limits.threads - 1) / limits.threads, 1, limits.groups));
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

// --- sorted pairs
// -----------------------------------------------------------------------------------------------------

/// Rows of `padded` pairs in scratch memory: all keys (LONG), then all positions (UINT).
struct Pairs {
  std::int64_t rows = 1;
  std::int64_t padded = 1;  ///< a power of two

  std::int64_t count() const { return rows * padded; }
  std::string keys(Words& words) const { return words.memory(Patch::Kind::scratch, 0); }
  std::string positions(Words& words) const { return words.memory(Patch::Kind::scratch, 0, 8 * count()); }
  std::size_t bytes() const { return static_cast<std::size_t>(12 * count()); }
};

/// One exchange of the network: pairs whose numbers differ in the bit `distance`, in blocks of `block` of one
/// direction.
Launch exchange(const Pairs& pairs, std::int64_t block, std::int64_t distance, const RenderLimits& limits) {
  Words words;
  Lines lines;
  lines.add("MEMORY keys = {};", pairs.keys(words));
  lines.add("MEMORY positions = {};", pairs.positions(words));
  lines.add("int distance = {};", words.int32(distance));
  lines.add("int block = {};", words.int32(block));
  lines.add("int last = {};", words.int32(pairs.padded - 1));
  open_loop(lines, words, pairs.count() / 2, limits);
  lines.add("int low = e & (distance - 1);");
  lines.add("int a = (e - low) * 2 + low;");
  lines.add("int b = a + distance;");
  lines.add("LONG key_a = LONG(LOAD_U64_AGAIN(keys, a));");
  lines.add("LONG key_b = LONG(LOAD_U64_AGAIN(keys, b));");
  lines.add("UINT at_a = LOAD_U32_AGAIN(positions, a);");
  lines.add("UINT at_b = LOAD_U32_AGAIN(positions, b);");
  lines.add("bool ordered = key_a < key_b || (key_a == key_b && at_a < at_b);");
  lines.add("bool ascending = ((a & last) & block) == 0;");
  lines.open("if (ordered != ascending) {{");
  lines.add("STORE_U64(keys, a, ULONG(key_b));");
  lines.add("STORE_U64(keys, b, ULONG(key_a));");
  lines.add("STORE_U32(positions, a, at_b);");
  lines.add("STORE_U32(positions, b, at_a);");
  lines.close();
  lines.close();
  return launch(lines, words, pairs.count() / 2, limits);
}

void add_sort(Rendered& rendered, const Pairs& pairs, const RenderLimits& limits) {
  for (std::int64_t block = 2; block <= pairs.padded; block *= 2) {
    for (std::int64_t distance = block / 2; distance > 0; distance /= 2) {
      rendered.launches.push_back(exchange(pairs, block, distance, limits));
    }
  }
}

// --- reductions of one thread
// -------------------------------------------------------------------------------------------

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

}  // namespace

// --- update
// -------------------------------------------------------------------------------------------------------------

Rendered render_kernel(const UpdateKernel& kernel, const RenderLimits& limits) {
  Rendered rendered;
  Input whole;
  whole.slot = kernel.self;
  whole.dtype = kernel.dtype;
  whole.view = View::contiguous({kernel.elements});
  rendered = render_kernel(move_kernel(whole, kernel.out, {1}), limits);
  for (Launch& copy : rendered.launches) {
    copy.copies_from = kernel.self;
    copy.copies_to = kernel.out;
  }
  const View& region = kernel.region;
  Rendered writes = render_kernel(move_kernel(kernel.values, kernel.out, region.strides, region.offset), limits);
  for (Launch& write : writes.launches) rendered.launches.push_back(std::move(write));
  return rendered;
}

// --- sort
// ---------------------------------------------------------------------------------------------------------------

Rendered render_kernel(const SortKernel& kernel, const RenderLimits& limits) {
  const std::int64_t rows = kernel.rows.numel();
  if (rows == 0 || kernel.n == 0) return {};
  Pairs pairs;
  pairs.rows = rows;
  pairs.padded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(kernel.n)));
  check_size(kernel, pairs.count());
  Rendered rendered;
  rendered.scratch_bytes = pairs.bytes();
  {
    Words words;
    Lines lines;
    Reader reader({kernel.input}, words);
    reader.declare(lines);
    lines.add("MEMORY keys = {};", pairs.keys(words));
    lines.add("MEMORY positions = {};", pairs.positions(words));
    lines.add("int length = {};", words.int32(kernel.n));
    open_loop(lines, words, pairs.count(), limits);
    lines.add("int row = {};", quotient(words, "e", pairs.padded, false));
    lines.add("int at = e - row * {};", words.int32(pairs.padded));
    lines.add("LONG key = LONG(~(ULONG(1) << 63));");
    lines.open("if (at < length) {{");
    lines.add("int from = row * length + at;");
    reader.read(lines, 0, "from");
    lines.add("key = LONG(max_key(v0));");
    if (kernel.descending) lines.add("key = ~key;");
    lines.close();
    lines.add("STORE_U64(keys, e, ULONG(key));");
    lines.add("STORE_U32(positions, e, UINT(at));");
    lines.close();
    rendered.launches.push_back(launch(lines, words, pairs.count(), limits));
  }
  add_sort(rendered, pairs, limits);
  {
    Words words;
    Lines lines;
    lines.add("MEMORY positions = {};", pairs.positions(words));
    lines.add("MEMORY out_at = {};", words.memory(Patch::Kind::address, kernel.out));
    const Shape shape = joined(kernel.rows, kernel.n);
    lines.add("int length = {};", words.int32(kernel.n));
    open_loop(lines, words, rows * kernel.n, limits);
    lines.add("int row = {};", quotient(words, "e", kernel.n, false));
    lines.add("int at = e - row * length;");
    decompose(lines, words, shape, 0, shape.rank(), "e", "i", false);
    std::string address = "LONG(0)";
    for (int d = 0; d < shape.rank(); ++d)
      address += fmt::format(" + {} * LONG(i{})", words.int64(kernel.out_strides[d]), d);
    lines.add("LONG place = {};", address);
    lines.add("STORE_U64(out_at, place, ULONG(LOAD_U32_AGAIN(positions, row * {} + at)));", words.int32(pairs.padded));
    lines.close();
    rendered.launches.push_back(launch(lines, words, rows * kernel.n, limits));
  }
  return rendered;
}

// --- scan
// ---------------------------------------------------------------------------------------------------------------

// A team of 64 threads per row; in each chunk of 4096 a thread takes 64 consecutive elements twice: for their total,
// and once what stands before them is known. Positions and extrema use the same steps with "the later wins only if
// larger".
Rendered render_kernel(const ScanKernel& kernel, const RenderLimits& limits) {
  const std::int64_t rows = kernel.rows.numel();
  if (rows == 0 || kernel.n == 0) return {};
  check_size(kernel, rows * kernel.n);
  if (kernel.n > (std::int64_t{1} << 24)) check_size(kernel, kMostElements + 1);
  const ComputeType type = compute_type(kernel.input.dtype);
  const bool ordered = kernel.op == ScanOp::sum || kernel.op == ScanOp::prod;
  const bool product = kernel.op == ScanOp::prod;
  const bool positions = kernel.op == ScanOp::argmax || kernel.op == ScanOp::argmin;
  const bool largest = kernel.op == ScanOp::max || kernel.op == ScanOp::argmax;
  const char* t = type_name(type);
  const int teams = limits.threads / 64;
  Words words;
  Lines lines;
  Reader reader({kernel.input}, words);
  reader.declare(lines);
  // A running result is a pair (value, position); sums ignore the position. op(a, b) with a before b.
  const auto join = [&](const std::string& target, const std::string& a, const std::string& b) {
    if (ordered) return lines.add("{}_value = {};", target, combined(product, type, a + "_value", b + "_value"));
    lines.open("{{");
    lines.add("bool later = {0}_key({2}_value) {1} {0}_key({3}_value);", largest ? "max" : "min", largest ? ">" : "<",
              b, a);
    lines.add("{0} value = SELECT(later, {1}_value, {2}_value);", t, b, a);
    lines.add("int at = SELECT(later, {}_at, {}_at);", b, a);
    lines.add("{}_value = value;", target);
    lines.add("{}_at = at;", target);
    lines.close();
  };
  const auto declare = [&](const std::string& name) {
    lines.add("{} {}_value = {}(0);", t, name, t);
    lines.add("int {}_at = 0;", name);
  };
  const auto set = [&](const std::string& target, const std::string& from) {
    lines.add("{}_value = {}_value;", target, from);
    lines.add("{}_at = {}_at;", target, from);
  };
  // target = has ? op(target, value) : value
  const auto extend = [&](const std::string& target, const std::string& has, const std::string& value) {
    lines.open("if ({}) {{", has);
    join(target, target, value);
    lines.close();
    lines.open("else {{");
    set(target, value);
    lines.close();
  };
  lines.add("MEMORY out_at = {};", words.memory(Patch::Kind::address, kernel.out));
  lines.add("int length = {};", words.int32(kernel.n));
  lines.add("int rows = {};", words.int32(rows));
  lines.add("int lane = int(THREAD) & 63;");
  lines.add("int team = int(THREAD) / 64;");
  lines.open("for (int first_row = int(GROUP) * {0}; first_row < rows; first_row += int(GROUPS) * {0}) {{", teams);
  lines.add("bool live = first_row + team < rows;");
  lines.add("int row = SELECT(live, first_row + team, rows - 1);");
  // Of chunk totals: the same scan, one level up, in step with the chunks.
  declare("block");   // the running total of 64 chunks
  declare("blocks");  // of finished blocks of 64 chunks
  lines.open("for (int chunk = 0; chunk * 4096 < length; chunk++) {{");
  lines.add("int begin = chunk * 4096 + lane * 64;");
  lines.add("int end = SELECT(begin + 64 < length, begin + 64, length);");
  declare("total");
  lines.open("for (int element = begin; element < end; element++) {{");
  lines.add("int from = row * length + element;");
  reader.read(lines, 0, "from");
  lines.add("{} now_value = v0;", t);
  lines.add("int now_at = element;");
  extend("total", "element > begin", "now");
  lines.close();
  lines.add("BARRIER();");
  lines.add("totals_value[THREAD] = total_value;");
  lines.add("totals_at[THREAD] = total_at;");
  lines.add("BARRIER();");
  declare("before");  // lanes of this chunk before this one
  declare("upto");    // all lanes of this chunk
  lines.open("for (int l = 0; l < 64 && chunk * 4096 + l * 64 < length; l++) {{");
  lines.add("{} now_value = totals_value[team * 64 + l];", t);
  lines.add("int now_at = totals_at[team * 64 + l];");
  extend("upto", "l > 0", "now");
  lines.open("if (l + 1 == lane) {{");
  set("before", "upto");
  lines.close();
  lines.close();
  // What stands before the chunk.
  declare("prefix");
  set("prefix", "block");
  lines.open("if (chunk > 64 && (chunk & 63) != 0) {{");
  join("prefix", "blocks", "block");
  lines.close();
  lines.open("if (chunk > 64 && (chunk & 63) == 0) {{");
  // The last chunk's own position in its block was 63: the block's total is still in `block`, those before in `blocks`.
  join("prefix", "blocks", "block");
  lines.close();
  lines.open("if (chunk > 0 && lane > 0) {{");
  join("prefix", "prefix", "before");
  lines.close();
  lines.open("if (chunk == 0 && lane > 0) {{");
  set("prefix", "before");
  lines.close();
  declare("local");
  lines.open("for (int element = begin; element < end; element++) {{");
  lines.add("int from = row * length + element;");
  reader.read(lines, 0, "from");
  lines.add("{} now_value = v0;", t);
  lines.add("int now_at = element;");
  extend("local", "element > begin", "now");
  declare("result");
  set("result", "local");
  lines.open("if (chunk > 0 || lane > 0) {{");
  join("result", "prefix", "local");
  lines.close();
  const Shape shape = joined(kernel.rows, kernel.n);
  decompose(lines, words, shape, 0, shape.rank(), "from", "o", false);
  std::string address = "LONG(0)";
  for (int d = 0; d < shape.rank(); ++d)
    address += fmt::format(" + {} * LONG(o{})", words.int64(kernel.out_strides[d]), d);
  lines.add("LONG place = {};", address);
  if (positions) {
    lines.add("if (live) STORE_U64(out_at, place, ULONG(LONG(result_at)));");
  } else {
    lines.add("if (live) {}(out_at, place, {});", store_of(kernel.input.dtype),
              encoded(kernel.input.dtype, "canonical(result_value)", type));
  }
  lines.close();
  // The chunk's total joins its block; a finished block joins those before it when the next one begins.
  lines.open("if ((chunk & 63) == 0 && chunk > 0) {{");
  extend("blocks", "chunk > 64", "block");
  lines.close();
  extend("block", "(chunk & 63) != 0", "upto");
  lines.close();
  lines.close();
  Rendered rendered;
  Launch result = launch(lines, words, rows * 64, limits);
  result.text.shared = {{type, "totals_value", limits.threads}, {ComputeType::i32, "totals_at", limits.threads}};
  rendered.launches.push_back(std::move(result));
  return rendered;
}

// --- scatter
// ------------------------------------------------------------------------------------------------------------

Rendered render_kernel(const ScatterKernel& kernel, const RenderLimits& limits) {
  Rendered rendered =
      render_kernel(move_kernel(kernel.self, kernel.out, dense_strides(kernel.self.view.shape)), limits);
  const std::int64_t count = kernel.space.numel();
  if (count == 0) return rendered;
  Pairs pairs;
  pairs.padded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
  check_size(kernel, pairs.count());
  rendered.scratch_bytes = pairs.bytes();
  {
    // Where each value goes; those with a bad index, and the padding, to the end.
    Words words;
    Lines lines;
    Reader reader({kernel.index}, words);
    reader.declare(lines);
    lines.add("MEMORY keys = {};", pairs.keys(words));
    lines.add("MEMORY positions = {};", pairs.positions(words));
    lines.add("MEMORY faults = {};", words.memory(Patch::Kind::faults, 0));
    lines.add("int count = {};", words.int32(count));
    open_loop(lines, words, pairs.count(), limits);
    lines.add("LONG key = LONG(~(ULONG(1) << 63));");
    lines.open("if (e < count) {{");
    reader.read(lines, 0, "e");
    lines.add("LONG at = LONG(v0);");
    lines.open("if (ULONG(at) < {}) {{", words.uint64(static_cast<std::uint64_t>(kernel.size)));
    decompose(lines, words, kernel.space, 0, kernel.space.rank(), "e", "s", false);
    std::string place = fmt::format("{} * at", words.int64(kernel.stride));
    for (int d = 0; d < kernel.space.rank(); ++d)
      place += fmt::format(" + {} * LONG(s{})", words.int64(kernel.strides[d]), d);
    lines.add("key = {};", place);
    lines.close();
    lines.open("else {{");
    lines.add("STORE_U32(faults, 0, 1u);");
    lines.close();
    lines.close();
    lines.add("STORE_U64(keys, e, ULONG(key));");
    lines.add("STORE_U32(positions, e, UINT(e));");
    lines.close();
    rendered.launches.push_back(launch(lines, words, pairs.count(), limits));
  }
  add_sort(rendered, pairs, limits);
  // A thread per place: it combines the values in ascending order of their positions.
  const ComputeType type = compute_type(kernel.dtype);
  const char* t = type_name(type);
  Words words;
  Lines lines;
  Reader reader({kernel.values}, words, kernel.op == ScatterOp::set);  // set moves words
  reader.declare(lines);
  lines.add("MEMORY out_at = {};", words.memory(Patch::Kind::address, kernel.out));
  lines.add("MEMORY keys = {};", pairs.keys(words));
  lines.add("MEMORY positions = {};", pairs.positions(words));
  lines.add("LONG none = LONG(~(ULONG(1) << 63));");
  open_loop(lines, words, count, limits);
  lines.add("LONG place = LONG(LOAD_U64_AGAIN(keys, e));");
  lines.add("bool first = place != none;");
  lines.add("if (e > 0) first = first && LONG(LOAD_U64_AGAIN(keys, e - 1)) != place;");
  lines.open("if (first) {{");
  lines.add("int end = e + 1;");
  lines.open("while (end < total && LONG(LOAD_U64_AGAIN(keys, end)) == place) {{");
  lines.add("end = end + 1;");
  lines.close();
  const std::string load = fmt::format("{}(out_at, place)", load_of(kernel.dtype));
  // `out` was written by an earlier launch, and its element by no other thread.
  const auto read_value = [&](const std::string& number) {
    lines.add("int from = int(LOAD_U32_AGAIN(positions, {}));", number);
    reader.read(lines, 0, "from");
  };
  if (kernel.op == ScatterOp::set) {
    lines.add("int last = int(LOAD_U32_AGAIN(positions, end - 1));");
    reader.read(lines, 0, "last");
    lines.add("{}(out_at, place, {}(v0));", store_of(kernel.dtype), word_type_of(kernel.dtype));
  } else if (kernel.op == ScatterOp::max || kernel.op == ScatterOp::min) {
    const bool largest = kernel.op == ScatterOp::max;
    const char* key = largest ? "max_key" : "min_key";
    const char* wins = largest ? ">" : "<";
    lines.add("{0} result = {0}(0);", t);
    lines.open("for (int i = e; i < end; i++) {{");
    read_value("i");
    lines.add("if (i == e || {0}(v0) {1} {0}(result)) result = v0;", key, wins);
    lines.close();
    if (kernel.include_self) {
      lines.add("{} self = {};", t, decoded(kernel.dtype, load, false));
      lines.add("if (!({0}(result) {1} {0}(self))) result = self;", key, wins);
    }
    lines.add("{}(out_at, place, {});", store_of(kernel.dtype), encoded(kernel.dtype, "canonical(result)", type));
  } else {
    const bool product = kernel.op == ScatterOp::prod;
    const std::string none = identity(product, type);
    lines.add("{} lanes[64];", t);
    lines.add("{} chunk_lanes[64];", t);
    lines.add("int chunks = (end - e + 4095) / 4096;");
    lines.add("for (int l = 0; l < 64; l++) chunk_lanes[l] = {};", none);
    lines.open("for (int chunk = 0; chunk < chunks; chunk++) {{");
    lines.add("for (int l = 0; l < 64; l++) lanes[l] = {};", none);
    lines.add("int begin = e + chunk * 4096;");
    lines.add("int chunk_end = SELECT(begin + 4096 < end, begin + 4096, end);");
    lines.open("for (int i = begin; i < chunk_end; i++) {{");
    read_value("i");
    lines.add("lanes[(i - begin) & 63] = {};", combined(product, type, "lanes[(i - begin) & 63]", "v0"));
    lines.close();
    const auto halve = [&](const char* array) {
      lines.open("for (int h = 32; h > 0; h >>= 1) {{");
      lines.add("for (int l = 0; l < h; l++) {0}[l] = {1};", array,
                combined(product, type, fmt::format("{}[l]", array), fmt::format("{}[l + h]", array)));
      lines.close();
    };
    halve("lanes");
    lines.add("chunk_lanes[chunk & 63] = {};", combined(product, type, "chunk_lanes[chunk & 63]", "lanes[0]"));
    lines.close();
    halve("chunk_lanes");
    lines.add("{} result = chunk_lanes[0];", t);
    if (kernel.include_self) {
      lines.add("{} self = {};", t, decoded(kernel.dtype, load, false));
      lines.add("result = {};", combined(product, type, "self", "result"));
    }
    lines.add("{}(out_at, place, {});", store_of(kernel.dtype), encoded(kernel.dtype, "canonical(result)", type));
  }
  lines.close();
  lines.close();
  rendered.launches.push_back(launch(lines, words, count, limits));
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
