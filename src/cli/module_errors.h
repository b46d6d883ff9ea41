// How far the outputs of modules are apart in two recordings of one model: lines with bars, JSON, a page.
#pragma once

#include <string>
#include <vector>

#include <lockstep/recorder.h>

#include "cli/command.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

struct ModuleErrorOptions {
  std::string a;
  std::string b;
  double tolerance = 0;
  std::string html;  ///< the page; empty: none
  bool as_json = false;
};

/// Exit code 1 if a module's error is above the tolerance, or its shapes differ.
ExitCode show_module_errors(const std::vector<ModuleError>& errors, const ModuleErrorOptions& options);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
