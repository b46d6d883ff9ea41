// Recorder: hashes of what kernels make, and the file that they are kept in.
#include "graph/kernel_record.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/check.h>
#include <lockstep/version.h>

#include "core/hash.h"
#include "core/os.h"
#include "graph/hash_worker.h"
#include "graph/kernel_case.h"
#include "graph/kernel_watch.h"
#include "graph/module_watch.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace {

constexpr const char* kRecordFormat = "lockstep-record-1";
constexpr std::size_t kRecordedWindow = std::size_t{256} << 20;

std::atomic<bool> has_record{false};

std::string dumped_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// JSON has no NaN and no infinities.
nlohmann::ordered_json json_of_sample(const std::vector<double>& sample) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const double value : sample) {
    std::isfinite(value) ? json.push_back(value)
                         : json.push_back(std::isnan(value) ? "nan"
                                          : value > 0       ? "inf"
                                                            : "-inf");
  }
  return json;
}

std::string line_of(const RecordedKernel& kernel) {
  nlohmann::ordered_json json;  // member by member: a list in braces is three times the code
  json["ops"] = kernel.ops;
  json["module"] = kernel.module;
  json["dtype"] = name_of(kernel.dtype);
  json["shape"] = std::vector<std::int64_t>(kernel.shape.begin(), kernel.shape.end());
  json["hash"] = fmt::format("{:016x}", kernel.hash);
  json["device"] = kernel.device;
  json["file"] = kernel.file;
  json["line"] = kernel.line;
  if (!kernel.sample.empty()) json["sample"] = json_of_sample(kernel.sample);
  return dumped_line(json);
}

}  // namespace

struct Recorder::Impl : graph::KernelWatch {
  std::string file;
  RecorderOptions options;
  graph::WindowLimits limits;
  mutable std::mutex mutex;
  std::vector<RecordedKernel> kernels;
  bool is_finished = false;
  graph::HashWorker worker;

  std::unique_ptr<graph::FlushWatch> begin(Backend& backend, const graph::Window& window,
                                           const graph::Plan& plan) override;
  std::size_t add(RecordedKernel kernel) {
    const std::lock_guard lock(mutex);
    kernels.push_back(std::move(kernel));
    return kernels.size() - 1;
  }
  void set_hash(std::size_t place, std::uint64_t hash) {
    const std::lock_guard lock(mutex);
    kernels[place].hash = hash;
  }
  /// Whether a step that makes so many values from now on makes the one whose case is wanted.
  bool wants_case(std::size_t values) const {
    const std::lock_guard lock(mutex);
    const auto wanted = static_cast<std::size_t>(options.case_of);
    return wanted > kernels.size() && wanted <= kernels.size() + values;
  }
  void stop() {
    if (std::exchange(is_finished, true)) return;
    graph::remove_watch(this);
    graph::set_module_watch(nullptr);
    graph::set_window_limits(limits);
    has_record = false;
  }
};

namespace graph {
namespace {

template <typename Impl> class RecordFlush final : public FlushWatch {
 public:
  RecordFlush(Impl& record, const Window& window, const Plan& plan) : record_(record), names_(window, plan) {}
  ~RecordFlush() override { record_.worker.wait(); }  // what is made next may be made in the same memory

  void before(const KernelRun& run) override {
    work_.reset();
    if (run.in_place) record_.worker.wait();  // what it writes over may still be hashed
    if (record_.options.case_of == 0 || !record_.wants_case(run.step.writes.size())) return;
    const auto given = [&](int entry) -> std::optional<Bytes> {
      const auto is_in = [entry](const std::vector<int>& list) { return std::ranges::find(list, entry) != list.end(); };
      const bool is_replaced = run.in_place && entry == run.step.replaces;
      if (!is_replaced && (!is_in(run.step.slots) || is_in(run.step.writes))) return std::nullopt;
      const int buffer = is_replaced ? run.step.writes[0] : entry;
      return bytes_of(run.backend, *run.window.nodes[static_cast<std::size_t>(entry)],
                      run.buffers[static_cast<std::size_t>(buffer)]);
    };
    work_ = case_of(run.window, run.step.writes, given);
  }

  void after(const KernelRun& run) override {
    for (const int entry : run.step.writes) {
      const auto e = static_cast<std::size_t>(entry);
      const Node& node = *run.window.nodes[e];
      const std::size_t place = record_.add({.device = node.device.to_string(),
                                             .ops = names_.ops_of(run.step),
                                             .module = names_.module_of(run.step),
                                             .file = node.where.file,
                                             .line = static_cast<std::int64_t>(node.where.line),
                                             .dtype = node.dtype,
                                             .shape = node.shape});
      hash(run, node, run.buffers[e], place);
    }
    if (work_) save(run);
  }

 private:
  // Large values are hashed beside the next kernels. Not where another watch may write them meanwhile: a shadow that is
  // followed.
  void hash(const KernelRun& run, const Node& node, const BufferRef& buffer, std::size_t place) {
    constexpr std::size_t kSmall = std::size_t{32} << 10;
    const auto done = [&record = record_, place](std::uint64_t hash) { record.set_hash(place, hash); };
    if (!is_host(node.device)) return done(hash_elements(node.dtype, bytes_of(run.backend, node, buffer)));
    if (node.bytes() < kSmall || is_shadowed()) return done(hash_elements(node.dtype, {buffer->data(), node.bytes()}));
    record_.worker.add(node.dtype, buffer, node.bytes(), done);
  }

  void save(const KernelRun& run) {
    for (std::size_t i = 0; i < run.step.writes.size(); ++i) {
      const auto e = static_cast<std::size_t>(run.step.writes[i]);
      work_->results[i].expected = bytes_of(run.backend, *run.window.nodes[e], run.buffers[e]);
    }
    const Node& first = *run.window.nodes[static_cast<std::size_t>(run.step.writes[0])];
    work_->story = {{"ops", names_.ops_of(run.step)},
                    {"module", names_.module_of(run.step)},
                    {"called_at", fmt::format("{}:{}", first.where.file, first.where.line)},
                    {"device", first.device.to_string()}};
    write_case(case_file_of(record_.file, record_.options.case_of), *work_);
    work_.reset();
  }

  Impl& record_;
  KernelNames names_;
  std::optional<KernelCase> work_;  ///< of this kernel, if it is wanted
};

// A field of a line, with an error that names it.
class RecordLine {
 public:
  RecordLine(std::string_view text, std::string place) : place_(std::move(place)) {
    json_ = nlohmann::json::parse(text, nullptr, false);
    if (!json_.is_object()) refuse("is no JSON object");
  }
  [[noreturn]] void refuse(const std::string& what) const { throw FormatError(fmt::format("{}: {}", place_, what)); }

  std::string text(const char* name) const {
    const nlohmann::json& value = field(name);
    if (!value.is_string()) refuse(fmt::format("\"{}\" is no text", name));
    return value.get<std::string>();
  }
  std::int64_t number(const char* name) const {
    const nlohmann::json& value = field(name);
    if (!value.is_number_integer()) refuse(fmt::format("\"{}\" is no whole number", name));
    return value.get<std::int64_t>();
  }
  Shape shape(const char* name) const {
    const nlohmann::json& value = field(name);
    const auto is_size = [](const nlohmann::json& size) {
      return size.is_number_integer() && size.get<std::int64_t>() >= 0;
    };
    if (!value.is_array() || value.size() > static_cast<std::size_t>(kMaxRank) ||
        !std::ranges::all_of(value, is_size)) {
      refuse(fmt::format("\"{}\" is no shape", name));
    }
    Shape shape;
    for (const nlohmann::json& size : value) shape.push_back(size.get<std::int64_t>());
    return shape;
  }
  DType dtype(const char* name) const {
    try {
      return parse_dtype(text(name));
    } catch (const DTypeError&) {
      refuse(fmt::format("\"{}\" is no dtype of this version", name));
    }
  }
  std::vector<double> sample(const char* name) const {
    std::vector<double> values;
    const auto found = json_.find(name);
    if (found == json_.end()) return values;
    if (!found->is_array() || found->size() > static_cast<std::size_t>(kRecordedSample))
      refuse(fmt::format("\"{}\" is no sample", name));
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    for (const nlohmann::json& value : *found) {
      if (value.is_number()) {
        values.push_back(value.get<double>());
      } else if (value == "nan") {
        values.push_back(std::numeric_limits<double>::quiet_NaN());
      } else if (value == "inf" || value == "-inf") {
        values.push_back(value == "inf" ? kInfinite : -kInfinite);
      } else {
        refuse(fmt::format("\"{}\" is no sample", name));
      }
    }
    return values;
  }
  std::uint64_t hash(const char* name) const {
    const std::string digits = text(name);
    if (digits.size() != 16 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
      refuse(fmt::format("\"{}\" is no hash of 16 hexadecimal digits", name));
    }
    return std::stoull(digits, nullptr, 16);
  }

 private:
  const nlohmann::json& field(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) refuse(fmt::format("\"{}\" is missing", name));
    return *found;
  }
  nlohmann::json json_;
  std::string place_;
};

}  // namespace

std::string case_file_of(const std::string& file, std::int64_t kernel) {
  return fmt::format("{}.case-{}.safetensors", file, kernel);
}

std::string file_of_rank(const std::string& file) {
  const char* const rank = std::getenv("LOCKSTEP_RANK");
  return rank == nullptr || std::string_view(rank) == "0" ? file : fmt::format("{}.rank{}", file, rank);
}

std::vector<RecordedKernel> parse_record(std::string_view text, const std::string& name) {
  std::vector<RecordedKernel> kernels;
  std::size_t number = 0;
  std::int64_t promised = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const RecordLine line(text.substr(begin, end - begin), fmt::format("{}, line {}", name, ++number));
    begin = end + 1;
    if (number == 1) {
      if (line.text("format") != kRecordFormat) {
        line.refuse(fmt::format("\"format\" is not {}: another version, or no recording", kRecordFormat));
      }
      promised = line.number("kernels");
      continue;
    }
    kernels.push_back({.device = line.text("device"),
                       .ops = line.text("ops"),
                       .module = line.text("module"),
                       .file = line.text("file"),
                       .line = line.number("line"),
                       .dtype = line.dtype("dtype"),
                       .shape = line.shape("shape"),
                       .hash = line.hash("hash"),
                       .sample = line.sample("sample")});
  }
  if (number == 0) throw FormatError(name + ": is empty, and no recording");
  if (promised < 0 || static_cast<std::uint64_t>(promised) != kernels.size()) {
    throw FormatError(fmt::format("{}, line 1: \"kernels\" is {}, and {} follow: a part of a recording", name, promised,
                                  kernels.size()));
  }
  return kernels;
}

}  // namespace graph

std::unique_ptr<graph::FlushWatch> Recorder::Impl::begin(Backend& /*backend*/, const graph::Window& window,
                                                         const graph::Plan& plan) {
  return std::make_unique<graph::RecordFlush<Impl>>(*this, window, plan);
}

Recorder::Recorder(std::string file, RecorderOptions options, CallSite site) : impl_(std::make_shared<Impl>()) {
  const CallScope call("Recorder", site);
  check<ValueError>(options.case_of >= 0, fmt::format("case_of is {}", options.case_of), {},
                    "use the number of a kernel, from 1");
  os::AtomicFile probe(file);  // What cannot be written is better known before the work than after.
  check<ValueError>(!has_record.exchange(true), "something else is being recorded", {}, "finish that first");
  impl_->file = std::move(file);
  impl_->options = options;
  impl_->limits = graph::window_limits();
  if (options.modules) {
    graph::set_module_watch(
        [impl = impl_](const std::string& module, const std::string& kind, const Tensor& output,
                       const CallSite& called) { impl->add(graph::recorded_output(module, kind, output, called)); });
    return;
  }
  graph::WindowLimits limits = impl_->limits;
  limits.bytes = kRecordedWindow;
  graph::set_window_limits(limits);
  graph::add_watch(impl_);
}

Recorder::~Recorder() {
  try {
    finish();
  } catch (const std::exception&) {
  }
}

void Recorder::finish() {
  if (impl_->is_finished) return;
  impl_->stop();
  const std::lock_guard lock(impl_->mutex);
  if (impl_->kernels.empty()) return;
  os::AtomicFile out(impl_->file);
  out.write(dumped_line({{"format", kRecordFormat}, {"version", kVersion}, {"kernels", impl_->kernels.size()}}));
  for (const RecordedKernel& kernel : impl_->kernels) out.write(line_of(kernel));
  out.commit();
}

std::size_t Recorder::size() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->kernels.size();
}

std::vector<RecordedKernel> read_record(const std::string& file) {
  const os::FileBytes bytes = os::read_file(file);
  return graph::parse_record({reinterpret_cast<const char*>(bytes.bytes.data()), bytes.bytes.size()}, file);
}

}  // namespace v0
}  // namespace lockstep
