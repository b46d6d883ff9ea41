// The modules of an ONNX model: names of initialisers split at "." and "/", as the exporter's modules were.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "io/onnx/loaded.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// Exporters lose names of what they transposed or folded: "onnx::MatMul_123", "123", "Constant_7_output_0".
bool is_lost(std::string_view name) {
  return name.starts_with("onnx::") ||
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string> parts_of(const Constant& constant, std::size_t number) {
  std::string name = constant.name;
  if (is_lost(name)) {
    const char* leaf = constant.consumer_input == 1 ? "weight" : constant.consumer_input == 2 ? "bias" : "value";
    name = constant.consumer.empty() ? fmt::format("constant_{}", number) : constant.consumer + "/" + leaf;
  }
  std::vector<std::string> parts;
  std::string part;
  for (const char c : name + "/") {
    if (c != '/' && c != '.') {
      part += c;
    } else if (!part.empty()) {
      parts.push_back(std::move(part));
      part.clear();
    }
  }
  if (parts.empty()) parts.push_back(fmt::format("constant_{}", number));
  // Deep names cost a module each; what hostile names add is cut.
  constexpr std::size_t kDeepestModule = 32;
  while (parts.size() > kDeepestModule) {
    parts[parts.size() - 2] += "_" + parts.back();
    parts.pop_back();
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts, std::size_t count) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += (i == 0 ? "" : ".") + parts[i];
  return result;
}

}  // namespace

void register_cells(nn::Module& root, LoadedProgram& loaded) {
  const Program& program = *loaded.program;
  loaded.cells.assign(program.constants.size(), {});
  std::vector<std::pair<std::size_t, std::vector<std::string>>> named;
  std::set<std::string> prefixes;
  for (std::size_t i = 0; i < program.constants.size(); ++i) {
    if (program.constants[i].role == Role::constant) continue;
    named.emplace_back(i, parts_of(program.constants[i], i));
    const auto& parts = named.back().second;
    for (std::size_t count = 1; count < parts.size(); ++count) prefixes.insert(joined(parts, count));
  }
  std::map<std::string, nn::Module*> modules = {{"", &root}};
  std::set<std::string> taken;
  for (auto& [index, parts] : named) {
    while (prefixes.contains(joined(parts, parts.size())) || !taken.insert(joined(parts, parts.size())).second) {
      parts.back() += "_";
    }
    nn::Module* module = &root;
    for (std::size_t count = 1; count < parts.size(); ++count) {
      nn::Module*& child = modules[joined(parts, count)];
      if (child == nullptr) {
        loaded.modules.push_back(std::make_unique<nn::Module>(*module, parts[count - 1]));
        child = loaded.modules.back().get();
      }
      module = child;
    }
    const Constant& constant = program.constants[index];
    const Tensor& value = constant.value.tensor(Device{});
    if (constant.role == Role::parameter) {
      loaded.cells[index] = nn::Parameter(*module, parts.back(), value);
    } else {
      loaded.cells[index] = nn::Buffer(*module, parts.back(), value);
    }
  }
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
