// The check finds one wrong bit, says where, and covers every op that is declared.
#include <atomic>
#include <fstream>
#include <set>
#include <sstream>

#include "backends/backend.h"
#include "cli/check/check.h"
#include "cli/check/report.h"
#include "cli/kernel_case_file.h"
#include "cli/run_command.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

using cli::Cell;
using cli::CellStatus;
using cli::CheckOp;
using cli::CheckOptions;

// The CPU, but the last bit of the first result of each kernel that computes `exp` is flipped where a row is longer
// than 1000 elements: an error that shows only at some sizes. It says that it has fast numerics, which are exact ones
// but that products of two batches are wrong, and that those with one result are others in every second run.
class FaultyBackend : public Backend {
 public:
  Device device() const override { return {DeviceKind::cpu, 7}; }
  BufferRef allocate(std::size_t bytes) override { return inner().allocate(bytes); }
  void upload(Buffer& to, const void* from, std::size_t bytes) override { inner().upload(to, from, bytes); }
  void download(void* to, const Buffer& from, std::size_t bytes, std::size_t offset) override {
    inner().download(to, from, bytes, offset);
  }
  std::string description() const override { return "faulty"; }
  std::string missing_for_fast() const override { return ""; }
  std::unique_ptr<Executable> compile(const Kernel& kernel) override {
    const auto* product = std::get_if<ContractionKernel>(&kernel);
    if (product != nullptr && product->numerics == Numerics::fast) {
      ContractionKernel exact = *product;
      exact.numerics = Numerics::exact;
      const int slot = exact.epilogue.outputs.front().slot;
      if (exact.b.numel() == 2)
        return std::make_unique<Wrapped>(inner().compile(exact), slot, 1, std::byte{0x40}, false);
      const bool varies = exact.b.numel() * exact.m.numel() * exact.n.numel() == 1;
      return std::make_unique<Wrapped>(inner().compile(exact), varies ? slot : -1, 0, std::byte{1}, true);
    }
    const auto* row = std::get_if<RowKernel>(&kernel);
    const bool faulty = row != nullptr && to_string(kernel).find(" exp") != std::string::npos &&
                        row->program.rows.numel() * row->program.inner.numel() > 1000;
    return std::make_unique<Wrapped>(inner().compile(kernel), faulty ? row->program.outputs.front().slot : -1);
  }

 private:
  static Backend& inner() { return backend_of({DeviceKind::cpu, 0}); }

  struct Wrapped : Executable {
    Wrapped(std::unique_ptr<Executable> real, int slot, std::size_t place = 0, std::byte flips = std::byte{1},
            bool at_times = false)
        : executable(std::move(real)), faulty_slot(slot), byte(place), bits(flips), sometimes(at_times) {}
    void run(const Binding& binding) const override {
      executable->run(binding);
      static std::atomic<int> runs = 0;
      if (faulty_slot < 0 || (sometimes && ++runs % 2 == 0)) return;
      binding.slots[static_cast<std::size_t>(faulty_slot)][byte] ^= bits;
    }
    std::unique_ptr<Executable> executable;
    int faulty_slot;
    std::size_t byte;
    std::byte bits;
    bool sometimes;
  };
};

Device faulty_device() {
  static const bool registered = [] {
    register_backend(std::make_unique<FaultyBackend>());
    return true;
  }();
  static_cast<void>(registered);
  return {DeviceKind::cpu, 7};
}

const Cell& cell_of(const std::vector<Cell>& cells, const std::string& op, DType dtype) {
  for (const Cell& cell : cells) {
    if (cell.op == op && cell.dtype == dtype) return cell;
  }
  throw std::runtime_error("no cell " + op);
}

TEST(Check, FindsOneWrongBitAndKeepsTheCase) {
  const TemporaryFolder folder;
  const CheckOptions options{
      .device = faulty_device(), .only = {"exp", "log"}, .folder = folder.path("cases"), .progress = {}};
  const std::vector<Cell> cells = cli::check_device(options, cli::all_check_ops());
  EXPECT_EQ(cells.size(), 2u * kDTypeCount);
  const Cell& exp_cell = cell_of(cells, "exp", DType::f32);
  EXPECT_EQ(exp_cell.status, CellStatus::different);
  EXPECT_GT(exp_cell.probes, 0);  // short rows are right
  EXPECT_NE(exp_cell.detail.find("1 of "), std::string::npos) << exp_cell.detail;
  EXPECT_EQ(cell_of(cells, "log", DType::f32).status, CellStatus::equal);
  EXPECT_EQ(cell_of(cells, "exp", DType::i32).status, CellStatus::unsupported);

  // The file alone repeats the difference here, and shows that the real CPU is right.
  const cli::CheckCase recorded = cli::read_check_case(exp_cell.file);
  EXPECT_EQ(recorded.op.name, std::string("exp"));
  const Device reference{DeviceKind::ref, 0};
  EXPECT_NE(cli::compare_call(recorded.op, recorded.dtype, recorded.point, reference, faulty_device()).difference, "");
  EXPECT_EQ(cli::compare_call(recorded.op, recorded.dtype, recorded.point, reference, Device{}).difference, "");
  EXPECT_EQ(run_command({"check", "--case", exp_cell.file}).exit_code, 0);
  EXPECT_EQ(run_command({"replay", exp_cell.file, "--device", "cpu"}).exit_code, 0);
  const CommandResult smaller = run_command({"minimize", exp_cell.file, "--device", "cpu"});
  EXPECT_EQ(smaller.exit_code, 1);
  EXPECT_NE(smaller.output.find("ref and cpu agree"), std::string::npos) << smaller.output;
}

TEST(Check, ASavedDifferenceIsMadeSmallerWhileItStays) {
  const TemporaryFolder folder;
  const Device reference{DeviceKind::ref, 0};
  save_case(folder.path("case"), {sum(relu(exp(random_tensor({40, 90}, DType::f32, 1)) * 2.0), {0}, true)});
  const graph::KernelCase work = cli::load_kernel_case(folder.path("case"));
  ASSERT_TRUE(cli::compare_devices(work, reference, faulty_device()));
  EXPECT_FALSE(cli::compare_devices(work, reference, Device{}));
  const auto differs = [&](const graph::KernelCase& tried) {
    return cli::compare_devices(tried, reference, faulty_device()).has_value();
  };
  const graph::KernelCase smaller = graph::minimized(work, differs, 2000);
  ASSERT_TRUE(differs(smaller));
  ASSERT_EQ(smaller.values.size(), 2u) << cli::summary_of(smaller);  // what is given, and its exp
  EXPECT_EQ(std::get<graph::Elementwise>(smaller.values[1].op).op, Op::exp);
  EXPECT_GT(smaller.values[1].shape.numel(), 1000);
  EXPECT_LT(smaller.values[1].shape.numel(), 1100);
  for (const std::byte byte : smaller.values[0].data) EXPECT_EQ(byte, std::byte{0});
  const auto found = cli::compare_devices(smaller, reference, faulty_device());
  EXPECT_NE(cli::difference_text(smaller, *found, "ref", "cpu:7").find("1 ulp apart"), std::string::npos);
}

TEST(Check, WritesTheMatrixInThreeForms) {
  const TemporaryFolder folder;
  const std::string page = folder.path("check.html");
  const CommandResult text = run_command({"check", "--op", "add", "--op", "softmax", "--html", page});
  EXPECT_EQ(text.exit_code, 0) << text.output << text.errors;
  EXPECT_NE(text.output.find("softmax"), std::string::npos);
  const std::string html = read_whole_file(page);
  for (const char* part : {"<!DOCTYPE html>", "data-op=\"softmax\"", "class=\"unsupported\""}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  for (const char* part : {"href=\"#op-softmax\"", "id=\"op-softmax\"", "lockstep check --op softmax", "<polyline",
                           "instruction set", "every bit that was compared is equal", "class=\"bar\""}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  for (const char* part : {"http", "src=", "@import", "url("})
    EXPECT_EQ(html.find(part), std::string::npos) << part;  // it needs nothing else
  const std::vector<nlohmann::json> lines = run_command({"check", "--json", "--op", "add"}).json();
  ASSERT_EQ(lines.size(), kDTypeCount + 1u);
  for (const nlohmann::json& line : lines) {
    if (line.contains("cells")) continue;
    const bool unsupported = line.at("status") == "unsupported";
    EXPECT_EQ(unsupported, line.contains("detail")) << line;  // with the reason
  }
  EXPECT_EQ(lines.back().at("different"), 0);
}

TEST(Check, TakesTheNamedDTypesOnly) {
  const std::vector<nlohmann::json> lines =
      run_command({"check", "--json", "--op", "add", "--op", "neg", "--dtype", "i32", "--dtype", "f16"}).json();
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].at("op"), "neg");
  EXPECT_EQ(lines[0].at("dtype"), "i32");
  EXPECT_EQ(lines[3].at("op"), "add");
  EXPECT_EQ(lines[3].at("dtype"), "f16");
}

TEST(Check, RefusesWhatDoesNotExist) {
  EXPECT_EQ(run_command({"check", "--dtype", "f31"}).exit_code, 2);
  EXPECT_EQ(run_command({"check", "--op", "abacus"}).exit_code, 2);
  EXPECT_EQ(run_command({"check", "--quick", "--full"}).exit_code, 2);
  EXPECT_EQ(run_command({"check", "--brief", "--full"}).exit_code, 2);
  EXPECT_EQ(run_command({"check", "--dtype", "f33"}).exit_code, 2);
  const TemporaryFolder folder;
  EXPECT_EQ(run_command({"check", "--case", folder.write("x", "text")}).exit_code, 1);
}

// Fast numerics have no bits to compare, but a bound, and the bits that they had before.
TEST(Check, HoldsFastProductsToTheirBoundAndToEachOther) {
  const CheckOptions options{.device = faulty_device(),
                             .extent = cli::Extent::brief,
                             .only = {"mm", "bmm", "dot", "conv2d"},
                             .dtypes = {DType::bf16, DType::f16, DType::f32},
                             .folder = "",
                             .progress = {}};
  const std::vector<Cell> cells = cli::check_device(options, cli::all_check_ops());
  for (const DType dtype : {DType::bf16, DType::f16}) {
    EXPECT_EQ(cell_of(cells, "mm", dtype).detail, "");
    EXPECT_EQ(cell_of(cells, "conv2d", dtype).detail, "");
    EXPECT_GT(cell_of(cells, "mm", dtype).probes, cell_of(cells, "mm", DType::f32).probes);
    EXPECT_NE(cell_of(cells, "bmm", dtype).detail.find("beyond the bound"), std::string::npos)
        << cell_of(cells, "bmm", dtype).detail;
    EXPECT_NE(cell_of(cells, "dot", dtype).detail.find("not what it was before"), std::string::npos)
        << cell_of(cells, "dot", dtype).detail;
  }
  EXPECT_EQ(cell_of(cells, "bmm", DType::f32).detail, "");
}

// Attention, too, composed or as one kernel: the device's products of two batches are wrong, which grouped heads have.
TEST(Check, HoldsFastAttentionToItsBound) {
  const CheckOptions options{.device = faulty_device(),
                             .only = {"scaled_dot_product_attention"},
                             .dtypes = {DType::bf16},
                             .most_elements = 5000,
                             .folder = "",
                             .progress = {}};
  const Cell wrong = cli::check_device(options, cli::all_check_ops())[0];
  EXPECT_NE(wrong.detail.find("fast: "), std::string::npos) << wrong.detail;
  EXPECT_NE(wrong.detail.find("beyond the bound"), std::string::npos) << wrong.detail;
  EXPECT_LT(wrong.different, wrong.probes) << "other variants are right";
}

TEST(Check, NoOpRefusesEveryCallForAnotherReasonThanItsDType) {
  const CheckOptions options{.device = {DeviceKind::ref, 0}, .only = {}, .folder = "", .progress = {}};
  for (const CheckOp& op : cli::all_check_ops()) {
    int compared = 0;
    std::string refusal;
    for (const DType dtype : {DType::f32, DType::i64, DType::boolean}) {
      for (const cli::Point& point : cli::points_of(op, cli::Extent::quick)) {
        if (compared > 0) break;
        const cli::CallComparison call = cli::compare_call(op, dtype, point, options.device, options.device);
        compared += call.compared ? 1 : 0;
        if (!call.refusal.empty()) refusal = call.refusal;
      }
    }
    EXPECT_GT(compared, 0) << op.name << ": " << refusal;
  }
}

// What is declared and needs no row of its own, and why.
const std::map<std::string, std::string> kWithoutARow = {
    {"plan", "describes kernels; computes nothing"},
};

std::set<std::string> declared_ops() {
  std::set<std::string> names;
  const std::string folder = std::string(LOCKSTEP_SOURCE_DIR) + "/include/lockstep";
  std::map<std::filesystem::path, std::string> prefixes = {{folder + "/fft.h", "fft."},
                                                           {folder + "/linalg.h", "linalg."}};
  for (const auto& item : std::filesystem::directory_iterator(folder + "/ops")) prefixes.emplace(item.path(), "");
  for (const auto& [path, prefix] : prefixes) {
    std::istringstream text(read_whole_file(path));
    for (std::string line; std::getline(text, line);) {
      // "LOCKSTEP_API <type> name(...": the type may hold commas and spaces, the name stands before the first "(".
      const std::string api = "LOCKSTEP_API ";
      std::size_t start = line.find(api) == 0 ? api.size() : line.find("inline Tensor ") == 0 ? 7 : std::string::npos;
      const std::size_t end = line.find('(');
      if (start == std::string::npos || end == std::string::npos) continue;
      const std::size_t name = line.rfind(' ', end);
      if (name < start || name == std::string::npos) continue;
      const std::string found = line.substr(name + 1, end - name - 1);
      if (found.find("operator") == std::string::npos && !found.empty()) names.insert(prefix + found);
    }
  }
  return names;
}

TEST(Check, HasARowForEveryOpThatIsDeclared) {
  std::set<std::string> rows;
  for (const CheckOp& op : cli::all_check_ops()) EXPECT_TRUE(rows.insert(op.name).second) << op.name << " has two rows";
  const std::set<std::string> declared = declared_ops();
  EXPECT_GT(declared.size(), 100u);
  for (const std::string& name : declared) {
    EXPECT_TRUE(rows.contains(name) || kWithoutARow.contains(name)) << name << " has no row in src/cli/check/ops_*.cpp";
  }
}

}  // namespace
}  // namespace lockstep::test
