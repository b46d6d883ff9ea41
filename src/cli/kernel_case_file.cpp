#include "cli/kernel_case_file.h"

#include <typeinfo>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct DeviceResults {
  std::vector<graph::Bytes> bytes;
  std::string error;
  const char* type = "";  ///< of the error
};

DeviceResults results_on(const graph::KernelCase& work, Device device) {
  DeviceResults results;
  try {
    results.bytes = graph::compute_case(work, device);
  } catch (const Error& error) {
    results.error = error.what();
    results.type = typeid(error).name();
  }
  return results;
}

}  // namespace

std::string case_format(const std::string& path) {
  const io::SafetensorsReader reader(path);
  const auto found = reader.metadata().find("format");
  return found == reader.metadata().end() ? "" : found->second;
}

graph::KernelCase load_kernel_case(const std::string& path) {
  const io::SafetensorsReader reader(path);
  const auto bytes = [&](const std::string& name) -> std::optional<graph::Bytes> {
    for (const io::TensorEntry& entry : reader.entries()) {
      if (entry.name != name) continue;
      const Tensor tensor = reader.load(entry);
      graph::Bytes result(static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()));
      if (!result.empty()) tensor.read_bytes(result.data());
      return result;
    }
    return std::nullopt;
  };
  return graph::parse_case(reader.metadata(), bytes, path);
}

std::optional<graph::CaseDifference> compare_devices(const graph::KernelCase& work, Device reference, Device device) {
  const DeviceResults expected = results_on(work, reference);
  const DeviceResults actual = results_on(work, device);
  if (expected.error.empty() && actual.error.empty()) return graph::compare_results(work, expected.bytes, actual.bytes);
  if (std::string_view(expected.type) == actual.type) return std::nullopt;
  return graph::CaseDifference{
      .result = 0, .element = {}, .refusal = expected.error.empty() ? actual.error : expected.error};
}

std::string difference_text(const graph::KernelCase& work, const graph::CaseDifference& found,
                            const std::string& expected_by, const std::string& actual_by) {
  if (!found.refusal.empty()) return "one refuses: " + found.refusal;
  const graph::KernelCase::Value& value = work.values[work.results[found.result].value];
  const graph::ElementDifference& element = found.element;
  const std::string ulps = element.ulps ? fmt::format(", {} ulp apart", *element.ulps) : "";
  return fmt::format("result {}, {} {}: {} of {} elements differ, the first at {}: {} {}, {} {}{}", found.result,
                     name_of(value.dtype), value.shape.to_string(), element.count, value.shape.numel(),
                     graph::index_of(element.position, value.shape).to_string(), expected_by, element.a, actual_by,
                     element.b, ulps);
}

std::string summary_of(const graph::KernelCase& work) {
  const auto text = [&](const char* key) {
    const auto found = work.story.find(key);
    return found == work.story.end() ? std::string() : found->second;
  };
  std::size_t ops = 0;
  std::int64_t elements = 0;
  std::string names;
  for (std::size_t i = 0; i < work.values.size(); ++i) {
    if (work.is_given(i)) {
      elements += work.values[i].shape.numel();
    } else {
      names += (ops++ == 0 ? "" : " + ") + std::string(graph::name_of(work.values[i].op));
    }
  }
  if (!text("ops").empty()) names = text("ops");
  return fmt::format("{}{}{}: {} ops of {} given elements", names, text("module").empty() ? "" : " in ", text("module"),
                     ops, elements);
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
