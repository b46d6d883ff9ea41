// Scans: a team of 64 threads per row; in each chunk of 4096 a thread takes 64 consecutive elements twice: for their
// total, and once what stands before them is known. Positions and extrema use the same steps with "the later wins only
// if larger".
#include "backends/gpu/renderer/irregular.h"
#include "backends/gpu/renderer/kinds.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

// The texts write the numbers of the order out.
static_assert(order::kChunk == 4096 && order::kLanes == 64 && order::kScanLane == 64);

class ScanWriter {
 public:
  ScanWriter(const ScanKernel& kernel, const RenderLimits& limits)
      : kernel_(kernel),
        limits_(limits),
        element_(compute_type(kernel.input.dtype)),
        type_(type_name(element_)),
        reader_({kernel.input}, words_) {}

  Launch render() {
    const std::int64_t rows = kernel_.rows.numel();
    reader_.declare(lines_);
    open_rows(rows);
    // Of chunk totals: the same scan, one level up, in step with the chunks.
    declare("block");   // the running total of 64 chunks
    declare("blocks");  // of finished blocks of 64 chunks
    lines_.open("for (int chunk = 0; chunk * 4096 < length; chunk++) {{");
    lines_.add("int begin = chunk * 4096 + lane * 64;");
    lines_.add("int end = SELECT(begin + 64 < length, begin + 64, length);");
    write_totals();
    write_before();
    write_prefix();
    write_results();
    // The chunk's total joins its block; a finished block joins those before it when the next one begins.
    lines_.open("if ((chunk & 63) == 0 && chunk > 0) {{");
    extend("blocks", "chunk > 64", "block");
    lines_.close();
    extend("block", "(chunk & 63) != 0", "upto");
    lines_.close();
    lines_.close();
    Launch result = launch_of(lines_, words_, rows * 64, limits_);
    result.text.shared = {{element_, "totals_value", limits_.threads},
                          {ComputeType::i32, "totals_at", limits_.threads}};
    return result;
  }

 private:
  bool is_ordered() const { return kernel_.op == ScanOp::sum || kernel_.op == ScanOp::prod; }
  bool is_position() const { return kernel_.op == ScanOp::argmax || kernel_.op == ScanOp::argmin; }
  bool is_largest() const { return kernel_.op == ScanOp::max || kernel_.op == ScanOp::argmax; }

  // A running result is a pair (value, position); sums ignore the position. op(a, b) with a before b.
  void join(const std::string& target, const std::string& a, const std::string& b) {
    if (is_ordered()) {
      const bool product = kernel_.op == ScanOp::prod;
      return lines_.add("{}_value = {};", target, combined(product, element_, a + "_value", b + "_value"));
    }
    lines_.open("{{");
    lines_.add("bool later = {0}_key({2}_value) {1} {0}_key({3}_value);", is_largest() ? "max" : "min",
               is_largest() ? ">" : "<", b, a);
    lines_.add("{0} value = SELECT(later, {1}_value, {2}_value);", type_, b, a);
    lines_.add("int at = SELECT(later, {}_at, {}_at);", b, a);
    lines_.add("{}_value = value;", target);
    lines_.add("{}_at = at;", target);
    lines_.close();
  }
  void declare(const std::string& name) {
    lines_.add("{} {}_value = {}(0);", type_, name, type_);
    lines_.add("int {}_at = 0;", name);
  }
  void set(const std::string& target, const std::string& from) {
    lines_.add("{}_value = {}_value;", target, from);
    lines_.add("{}_at = {}_at;", target, from);
  }
  // target = has ? op(target, value) : value
  void extend(const std::string& target, const std::string& has, const std::string& value) {
    lines_.open("if ({}) {{", has);
    join(target, target, value);
    lines_.close();
    lines_.open("else {{");
    set(target, value);
    lines_.close();
  }

  void open_rows(std::int64_t rows) {
    const int teams = limits_.threads / 64;
    lines_.add("MEMORY out_at = {};", words_.memory(Patch::Kind::address, kernel_.out));
    lines_.add("int length = {};", words_.int32(kernel_.n));
    lines_.add("int rows = {};", words_.int32(rows));
    lines_.add("int lane = int(THREAD) & 63;");
    lines_.add("int team = int(THREAD) / 64;");
    lines_.open("for (int first_row = int(GROUP) * {0}; first_row < rows; first_row += int(GROUPS) * {0}) {{", teams);
    lines_.add("bool live = first_row + team < rows;");
    lines_.add("int row = SELECT(live, first_row + team, rows - 1);");
  }

  // What this thread's elements of the chunk come to.
  void write_totals() {
    declare("total");
    lines_.open("for (int element = begin; element < end; element++) {{");
    lines_.add("int from = row * length + element;");
    reader_.read(lines_, 0, "from");
    lines_.add("{} now_value = v0;", type_);
    lines_.add("int now_at = element;");
    extend("total", "element > begin", "now");
    lines_.close();
    lines_.add("BARRIER();");
    lines_.add("totals_value[THREAD] = total_value;");
    lines_.add("totals_at[THREAD] = total_at;");
    lines_.add("BARRIER();");
  }

  // What the lanes before this one come to, and all of the chunk.
  void write_before() {
    declare("before");  // lanes of this chunk before this one
    declare("upto");    // all lanes of this chunk
    lines_.open("for (int l = 0; l < 64 && chunk * 4096 + l * 64 < length; l++) {{");
    lines_.add("{} now_value = totals_value[team * 64 + l];", type_);
    lines_.add("int now_at = totals_at[team * 64 + l];");
    extend("upto", "l > 0", "now");
    lines_.open("if (l + 1 == lane) {{");
    set("before", "upto");
    lines_.close();
    lines_.close();
  }

  // What stands before this thread's elements: the chunks before, and the lanes.
  void write_prefix() {
    declare("prefix");
    set("prefix", "block");
    lines_.open("if (chunk > 64 && (chunk & 63) != 0) {{");
    join("prefix", "blocks", "block");
    lines_.close();
    lines_.open("if (chunk > 64 && (chunk & 63) == 0) {{");
    // The last chunk's own position in its block was 63: the block's total is still in `block`, those before in
    // `blocks`.
    join("prefix", "blocks", "block");
    lines_.close();
    lines_.open("if (chunk > 0 && lane > 0) {{");
    join("prefix", "prefix", "before");
    lines_.close();
    lines_.open("if (chunk == 0 && lane > 0) {{");
    set("prefix", "before");
    lines_.close();
  }

  // This thread's elements once more, with what stands before them.
  void write_results() {
    declare("local");
    lines_.open("for (int element = begin; element < end; element++) {{");
    lines_.add("int from = row * length + element;");
    reader_.read(lines_, 0, "from");
    lines_.add("{} now_value = v0;", type_);
    lines_.add("int now_at = element;");
    extend("local", "element > begin", "now");
    declare("result");
    set("result", "local");
    lines_.open("if (chunk > 0 || lane > 0) {{");
    join("result", "prefix", "local");
    lines_.close();
    const Shape shape = joined(kernel_.rows, kernel_.n);
    decompose(lines_, words_, shape, 0, shape.rank(), "from", "o", false);
    std::string address = "LONG(0)";
    for (int d = 0; d < shape.rank(); ++d)
      address += fmt::format(" + {} * LONG(o{})", words_.int64(kernel_.out_strides[d]), d);
    lines_.add("LONG place = {};", address);
    if (is_position()) {
      lines_.add("if (live) STORE_U64(out_at, place, ULONG(LONG(result_at)));");
    } else {
      lines_.add("if (live) {}(out_at, place, {});", store_of(kernel_.input.dtype),
                 encoded(kernel_.input.dtype, "canonical(result_value)", element_));
    }
    lines_.close();
  }

  const ScanKernel& kernel_;
  const RenderLimits& limits_;
  ComputeType element_;
  const char* type_;
  Words words_;
  Lines lines_;
  Reader reader_;
};

}  // namespace

Rendered render_kernel(const ScanKernel& kernel, const RenderLimits& limits) {
  const std::int64_t rows = kernel.rows.numel();
  if (rows == 0 || kernel.n == 0) return {};
  check_size(kernel, rows * kernel.n);
  if (kernel.n > (std::int64_t{1} << 24)) check_size(kernel, kMostElements + 1);
  Rendered rendered;
  rendered.launches.push_back(ScanWriter(kernel, limits).render());
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
