// Differences as files. The point says it all, as operands are made from it; the elements are there for people.
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/random.h>

#include "cli/check/check.h"
#include "core/checked.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

constexpr const char* kFormat = "lockstep-check-1";

void add_results(io::TensorMap& tensors, const std::string& prefix, const CheckOp& op, Numerics numerics,
                 Probe& probe) {
  try {
    manual_seed(42);
    const NumericsScope scope(numerics);
    const Tensors results = op.run(probe);
    for (std::size_t i = 0; i < results.size(); ++i) tensors[fmt::format("{}.{}", prefix, i)] = results[i];
  } catch (const Error&) {  // a device that refuses has no results to keep
  }
}

std::string digits_of(const Shape& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
  return text;
}

}  // namespace

std::string save_check_case(const std::string& folder, const CheckOp& op, DType dtype, const Point& point,
                            Device reference, Device device) {
  std::filesystem::create_directories(folder);
  const std::string path = folder + fmt::format("/{}_{}.safetensors", op.name, name_of(dtype));
  save_check_case_as(path, op, dtype, point, reference, device);
  return path;
}

void save_check_case_as(const std::string& path, const CheckOp& op, DType dtype, const Point& point, Device reference,
                        Device device) {
  io::TensorMap tensors;
  Probe expected(dtype, point, reference);
  Probe actual(dtype, point, device);
  add_results(tensors, "expected", op, point.numerics, expected);
  add_results(tensors, "actual", op, point.numerics, actual);
  for (std::size_t i = 0; i < expected.operands().size(); ++i) {
    tensors[fmt::format("operand.{}", i)] = expected.operands()[i];
  }
  io::save_safetensors(path, tensors,
                       {{"format", kFormat},
                        {"op", op.name},
                        {"dtype", std::string(name_of(dtype))},
                        {"shape", digits_of(point.shape)},
                        {"layout", name_of(point.layout)},
                        {"values", name_of(point.values)},
                        {"variant", std::to_string(point.variant)},
                        {"numerics", name_of(point.numerics)},
                        {"reference", reference.to_string()},
                        {"device", device.to_string()}});
}

CheckCase read_check_case(const std::string& path) {
  const std::map<std::string, std::string> texts = io::SafetensorsReader(path).metadata();
  const auto refuse = [&](const std::string& what) { throw FormatError(fmt::format("{}: {}", path, what)); };
  const auto text = [&](const char* key) {
    const auto found = texts.find(key);
    if (found == texts.end()) refuse(fmt::format("is no case of lockstep check: its metadata lack \"{}\"", key));
    return found->second;
  };
  const auto number = [&](const std::string& digits) {
    std::int64_t value = 0;
    const bool valid =
        !digits.empty() && digits.size() < 10 && digits.find_first_not_of("0123456789") == std::string::npos;
    if (!valid) refuse(fmt::format("{} is no number", in_quotes(digits)));
    for (const char c : digits) value = value * 10 + (c - '0');
    return value;
  };
  if (text("format") != kFormat) refuse("is no case of lockstep check");
  CheckCase result{};
  bool found = false;
  for (const CheckOp& op : all_check_ops()) {
    if (text("op") != op.name) continue;
    result.op = op;
    found = true;
  }
  if (!found) refuse(fmt::format("op {} is not checked by this version", in_quotes(text("op"))));
  result.dtype = parse_dtype(text("dtype"));
  const std::string shape = text("shape");
  for (std::size_t start = 0; start < shape.size();) {
    const std::size_t comma = std::min(shape.find(',', start), shape.size());
    if (result.point.shape.rank() == kMaxRank) refuse("its shape has too many dimensions");
    result.point.shape.push_back(number(shape.substr(start, comma - start)));
    start = comma + 1;
  }
  for (int layout = 0; layout < kLayouts; ++layout) {
    if (text("layout") == name_of(static_cast<Layout>(layout))) result.point.layout = static_cast<Layout>(layout);
  }
  if (text("values") == name_of(Values::special)) result.point.values = Values::special;
  if (texts.contains("numerics")) {
    try {
      result.point.numerics = numerics_from_name(text("numerics"));
    } catch (const ValueError& error) {
      refuse(error.what());
    }
  }
  result.point.variant = static_cast<int>(number(text("variant")));
  return result;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
