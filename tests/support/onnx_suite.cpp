#include "support/onnx_suite.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/io/onnx.h>
#include <lockstep/random.h>
#include <lockstep/tensor.h>

#include "core/hash.h"
#include "core/os.h"
#include "io/onnx/loaded.h"
#include "io/onnx/value_file.h"
#include "io/raw_tensor.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using io::onnx::Value;

constexpr double kRelative = 1e-3;
constexpr double kAbsolute = 1e-7;

std::string first_lines(std::string text, std::size_t most = 160) {
  for (char& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text.size() > most ? text.substr(0, most) : text;
}

bool close(double actual, double expected, double allowed) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (actual == expected) return true;
  return std::abs(actual - expected) <= std::max(allowed, kAbsolute + kRelative * std::abs(expected));
}

// What is wrong with a tensor; empty if nothing is.
std::string difference(const Tensor& actual, const Tensor& expected, double range) {
  if (actual.dtype() != expected.dtype()) {
    return fmt::format("{} instead of {}", lockstep::name_of(actual.dtype()), lockstep::name_of(expected.dtype()));
  }
  if (actual.shape() != expected.shape()) {
    return fmt::format("shape {} instead of {}", actual.shape().to_string(), expected.shape().to_string());
  }
  if (!is_float(actual.dtype())) {
    return io::elements_of(actual) == io::elements_of(expected) ? "" : "other elements";
  }
  const Device host;
  const std::vector<double> a = actual.to(host).to(DType::f64).to_vector<double>();
  const std::vector<double> b = expected.to(DType::f64).to_vector<double>();
  double allowed = 0;
  if (range > 0 && !b.empty()) {
    const auto [least, most] = std::minmax_element(b.begin(), b.end());
    allowed = range * std::max(*most - *least, std::max(std::abs(*most), std::abs(*least)));
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!close(a[i], b[i], allowed)) return fmt::format("element {}: {} instead of {}", i, a[i], b[i]);
  }
  return "";
}

std::string difference(const Value& actual, const Value& expected, Device device, double range) {
  if (actual.is_sequence() != expected.is_sequence() || actual.absent() != expected.absent())
    return "another kind of value";
  if (expected.absent()) return "";
  if (actual.narrow() != expected.narrow()) return "another type of less than a byte";
  if (!expected.is_sequence()) return difference(actual.tensor(device), expected.tensor(Device{}), range);
  if (actual.sequence().size() != expected.sequence().size()) return "a sequence of another length";
  for (std::size_t i = 0; i < expected.sequence().size(); ++i) {
    const std::string wrong = difference(actual.sequence()[i], expected.sequence()[i], device, range);
    if (!wrong.empty()) return fmt::format("element {} of the sequence: {}", i, wrong);
  }
  return "";
}

void add_to_hash(std::uint64_t& hash, const Value& value, Device device) {
  if (value.is_sequence()) {
    for (const Value& element : value.sequence()) add_to_hash(hash, element, device);
  } else if (value.is_tensor()) {
    hash = hash * 0x9e3779b97f4a7c15u + value.tensor(device).hash();
  }
}

// The values of a data set, by their numbers: input_0.pb, input_1.pb, ...
std::string value_path(const fs::path& set, const char* what, std::size_t i) {
  return (set / fmt::format("{}_{}.pb", what, i)).string();
}

Value on_device(const Value& value, Device device) {
  if (value.is_tensor()) return Value(value.tensor(device), value.narrow());
  if (!value.is_sequence()) return value;
  std::vector<Value> elements;
  for (const Value& element : value.sequence()) elements.push_back(on_device(element, device));
  return Value(std::move(elements));
}

// What is wrong with a data set; empty if nothing is.
std::string run_set(const io::onnx::LoadedProgram& loaded, const fs::path& set, Device device, double range,
                    std::uint64_t& hash) {
  const io::onnx::Program& program = *loaded.program;
  io::onnx::ValueMap inputs;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const std::string path = value_path(set, "input", i);
    if (!fs::exists(path)) continue;  // one with a default
    const Value value = io::onnx::parse_value(os::read_file(path), program.inputs[i].kind);
    inputs.emplace(std::string(program.inputs[i].name), on_device(value, device));
  }
  const io::onnx::ValueMap outputs = io::onnx::run_program(loaded, std::move(inputs), device, false);
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const std::string path = value_path(set, "output", i);
    if (!fs::exists(path)) return "the case lacks an output";
    const Value expected = io::onnx::parse_value(os::read_file(path), program.outputs[i].kind);
    const auto actual = outputs.find(program.outputs[i].name);
    add_to_hash(hash, actual->second, device);
    const std::string wrong = difference(actual->second, expected, device, range);
    if (!wrong.empty()) return fmt::format("output {}: {}", i, wrong);
  }
  return "";
}

}  // namespace

const char* name_of(CaseStatus status) {
  switch (status) {
    case CaseStatus::pass: return "pass";
    case CaseStatus::unsupported: return "unsupported";
    case CaseStatus::error: return "error";
    case CaseStatus::wrong: return "wrong";
  }
  return "";
}

CaseResult run_onnx_case(const std::string& folder, Device device, double range) {
  CaseResult result{.name = fs::path(folder).filename().string(), .op = "(several)"};
  const auto end = [&](CaseStatus status, std::string reason) {
    result.status = status;
    for (std::size_t at; (at = reason.find(folder + "/")) != std::string::npos;) reason.erase(at, folder.size() + 1);
    result.reason = first_lines(std::move(reason));
    return result;
  };
  try {
    manual_seed(0);  // numbers drawn by chance are the expected ones one time in some hundred
    const NoGrad no_grad;
    const os::FileBytes file = os::read_file((fs::path(folder) / "model.onnx").string());
    const auto model = io::onnx::parse_model(file);
    if (model->graph->nodes.size() == 1) result.op = std::string(model->graph->nodes.front().op);
    auto loaded = std::make_unique<io::onnx::LoadedProgram>();
    loaded->program = io::onnx::open_program(file, true);
    if (!loaded->program->problems.empty()) {
      const io::onnx::Problem& problem = loaded->program->problems.front();
      return end(CaseStatus::unsupported, fmt::format("{} {}", problem.op, problem.reason));
    }
    loaded->loaded_on = device;
    io::onnx::fold_constants(*loaded->program);
    const io::OnnxModel module(std::move(loaded));
    for (int set = 0;; ++set) {
      const fs::path path = fs::path(folder) / fmt::format("test_data_set_{}", set);
      if (!fs::exists(path)) {
        if (set == 0) return end(CaseStatus::error, "the case has no data");
        return result;
      }
      const std::string wrong = run_set(module.program(), path, device, range, result.hash);
      if (!wrong.empty()) return end(CaseStatus::wrong, wrong);
    }
  } catch (const io::UnsupportedError& error) {
    return end(CaseStatus::unsupported, error.what());
  } catch (const Error& error) {
    return end(CaseStatus::error, error.what());
  }
}

std::vector<std::string> onnx_cases(const std::string& root) {
  std::vector<std::string> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::map<std::string, std::string> read_case_list(const std::string& path) {
  std::map<std::string, std::string> list;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t tab = line.find('\t');
    list.emplace(line.substr(0, tab), tab == std::string::npos ? "" : line.substr(tab + 1));
  }
  return list;
}

std::string case_table(const std::vector<CaseResult>& results) {
  std::map<std::string, std::map<CaseStatus, int>> rows;
  std::map<CaseStatus, int> all;
  for (const CaseResult& result : results) {
    ++rows[result.op][result.status];
    ++all[result.status];
  }
  constexpr CaseStatus kColumns[] = {CaseStatus::pass, CaseStatus::unsupported, CaseStatus::error, CaseStatus::wrong};
  std::string text = "| operator | pass | unsupported | error | wrong |\n|---|---|---|---|---|\n";
  const auto add = [&](const std::string& name, std::map<CaseStatus, int>& counts) {
    text += fmt::format("| {} |", name);
    for (const CaseStatus column : kColumns) text += counts[column] == 0 ? " |" : fmt::format(" {} |", counts[column]);
    text += "\n";
  };
  for (auto& [name, counts] : rows) add(name, counts);
  add("all", all);
  return text;
}

}  // namespace lockstep::test
