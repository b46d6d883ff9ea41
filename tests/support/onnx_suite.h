// ONNX's own conformance cases: folders of a model, inputs and expected outputs (tools/onnx_suite.py writes them). Used
// by the test of the committed cases and by the program lockstep_onnx_suite.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <lockstep/device.h>

namespace lockstep::test {

enum class CaseStatus { pass, unsupported, error, wrong };
const char* name_of(CaseStatus status);

struct CaseResult {
  std::string name;
  std::string op;  ///< Of a model with one node; "(several)" otherwise.
  CaseStatus status = CaseStatus::pass;
  std::string reason;      ///< One line; empty for a pass.
  std::uint64_t hash = 0;  ///< Of all outputs' bits, which are equal on every device.
};

/// Runs the model of a folder on all its data sets and compares: dtype and shape exactly, floats within 1e-3 of the
/// expected value and 1e-7 (or within `range` times the spread of the expected values), NaN equal to NaN, all else
/// exactly.
CaseResult run_onnx_case(const std::string& folder, Device device, double range = 0);

/// The folders below `root` that hold a model.onnx, by name.
std::vector<std::string> onnx_cases(const std::string& root);

/// The list of cases that do not pass: "name<tab>status<tab>reason" on each line.
std::map<std::string, std::string> read_case_list(const std::string& path);

/// What a table says of an operator's cases, and all together below.
std::string case_table(const std::vector<CaseResult>& results);

}  // namespace lockstep::test
