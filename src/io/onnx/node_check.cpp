#include "io/onnx/node_check.h"

#include <cstring>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "io/onnx/execution.h"
#include "io/raw_tensor.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// "[1, 3]" of an element's place in row-major order.
std::string index_text(const Shape& shape, std::int64_t place) {
  std::string text;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    text = std::to_string(place % shape[d]) + (text.empty() ? "" : ", ") + text;
    place /= shape[d];
  }
  return "[" + text + "]";
}

// Its value and its bits, the highest first.
std::string element_text(DType dtype, std::span<const std::byte> element) {
  std::string bits;
  for (std::size_t i = element.size(); i > 0; --i) bits += fmt::format("{:02x}", std::to_integer<int>(element[i - 1]));
  if (is_storage_only(dtype)) return "0x" + bits;
  const RawTensor raw{.type = stored_type(dtype), .shape = {1}, .bytes = element, .owner = {}};
  const HostArray value = read_to_host(io::to_tensor(raw, "", "").clone());
  return is_float(dtype) ? fmt::format("{} (0x{})", value.numbers[0], bits) : std::to_string(value.integers[0]);
}

bool is_nan(DType dtype, std::span<const std::byte> element) {
  std::uint64_t bits = 0;
  for (std::size_t i = element.size(); i > 0; --i) bits = bits << 8 | std::to_integer<std::uint64_t>(element[i - 1]);
  const std::uint64_t magnitude = bits & ~(std::uint64_t{1} << (8 * element.size() - 1));
  switch (dtype) {
    case DType::f16: return magnitude > 0x7c00;
    case DType::bf16: return magnitude > 0x7f80;
    case DType::f32: return magnitude > 0x7f800000;
    case DType::f64: return magnitude > 0x7ff0000000000000;
    default: return false;  // no floats, or none that nodes compute
  }
}

std::string difference_of(const Tensor& actual, const Tensor& expected) {
  const DType dtype = expected.dtype();
  if (actual.dtype() != dtype) return fmt::format("is {} instead of {}", name_of(actual.dtype()), name_of(dtype));
  if (actual.shape() != expected.shape()) {
    return fmt::format("has shape {} instead of {}", actual.shape().to_string(), expected.shape().to_string());
  }
  const std::vector<std::byte> have = io::elements_of(actual);
  const std::vector<std::byte> want = io::elements_of(expected);
  if (have == want) return "";
  const std::size_t size = size_of(dtype);
  std::string first;
  std::size_t different = 0;
  for (std::size_t at = 0; at < want.size(); at += size) {
    const std::span<const std::byte> a = std::span(have).subspan(at, size);
    const std::span<const std::byte> b = std::span(want).subspan(at, size);
    if (std::memcmp(a.data(), b.data(), size) == 0 || (is_nan(dtype, a) && is_nan(dtype, b))) continue;
    if (different++ > 0) continue;
    first = fmt::format("{}: {} instead of {}", index_text(expected.shape(), static_cast<std::int64_t>(at / size)),
                        element_text(dtype, a), element_text(dtype, b));
  }
  return different < 2 ? first : fmt::format("{}; {} of {} elements differ", first, different, want.size() / size);
}

std::string difference_of_values(const Value& actual, const Value& expected) {
  if (actual.absent() != expected.absent() || actual.is_sequence() != expected.is_sequence()) {
    return "is another kind of value";
  }
  if (expected.absent()) return "";
  // What is known on the host becomes a tensor on cpu; another device's is read from where it is.
  const auto tensor_of = [](const Value& value) {
    return value.host() != nullptr ? to_tensor(*value.host(), {}) : value.tensor({});
  };
  if (expected.is_tensor()) return difference_of(tensor_of(actual), tensor_of(expected));
  if (actual.sequence().size() != expected.sequence().size()) {
    return fmt::format("has {} elements instead of {}", actual.sequence().size(), expected.sequence().size());
  }
  for (std::size_t i = 0; i < expected.sequence().size(); ++i) {
    const std::string difference = difference_of_values(actual.sequence()[i], expected.sequence()[i]);
    if (!difference.empty()) return fmt::format("element {} {}", i, difference);
  }
  return "";
}

class NodeChecker final : public NodeObserver {
 public:
  NodeChecker(std::span<const Device> devices, const std::function<void(const NodeFinding&)>& report)
      : devices_(devices), report_(report) {}

  void ran(const NodeRun& run, const Execution& execution) override {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      NodeFinding finding{.node = &run.node, .device = d, .outcome = NodeOutcome::equal, .detail = {}};
      try {
        const std::vector<Value> outputs = execution.run_again(run, devices_[d]);
        finding.detail = difference(run, outputs);
        if (!finding.detail.empty()) finding.outcome = NodeOutcome::different;
      } catch (const Error& error) {
        finding.outcome = NodeOutcome::refused;
        finding.detail = error.what();
      }
      report_(finding);
    }
  }

 private:
  static std::string difference(const NodeRun& run, const std::vector<Value>& outputs) {
    for (std::size_t i = 0; i < run.node.outputs.size(); ++i) {
      if (run.node.outputs[i] == kNoSlot) continue;  // nobody reads it
      const auto at = [&](std::span<const Value> values) { return i < values.size() ? values[i] : Value(); };
      std::string found = onnx::difference_of(i, at(outputs), at(run.outputs));
      if (!found.empty()) return found;
    }
    return "";
  }

  std::span<const Device> devices_;
  const std::function<void(const NodeFinding&)>& report_;
};

}  // namespace

std::string difference_of(std::size_t output, const Value& actual, const Value& expected) {
  const std::string difference = difference_of_values(actual, expected);
  return difference.empty() ? "" : fmt::format("output {} {}", output, difference);
}

ValueMap check_nodes(const LoadedProgram& loaded, ValueMap inputs, std::span<const Device> devices,
                     const std::function<void(const NodeFinding&)>& report) {
  NodeChecker checker(devices, report);
  return run_program(loaded, std::move(inputs), Device{}, false, &checker);
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
