// lockstep_onnx_suite FOLDER [--device D] [--list FILE] [--write-list FILE] [--filter TEXT] [--table] [--hashes]
// [--range R] Runs the conformance cases below FOLDER (tools/onnx_suite.py writes them) and says which pass. With
// --list, a file of those that are known not to pass, it fails on each difference: also on a case that passes and is
// listed.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "support/onnx_suite.h"

namespace {

struct Arguments {
  std::string folder;
  std::string device = "cpu";
  std::string list;
  std::string write_list;
  std::string filter;
  std::string range = "0";  // differences that are allowed, as a part of the expected values' range: for real models
  bool table = false;
  bool hashes = false;
};

bool parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto value = [&](std::string& target) {
      if (i + 1 == argc) return false;
      target = argv[++i];
      return true;
    };
    if (word == "--device"       ? !value(arguments.device)
        : word == "--list"       ? !value(arguments.list)
        : word == "--write-list" ? !value(arguments.write_list)
        : word == "--filter"     ? !value(arguments.filter)
        : word == "--range"      ? !value(arguments.range)
                                 : false) {
      return false;
    }
    if (word == "--table") arguments.table = true;
    if (word == "--hashes") arguments.hashes = true;
    if (!word.starts_with("--") && std::string_view(argv[i]) == word) arguments.folder = word;
  }
  return !arguments.folder.empty();
}

int run(const Arguments& arguments) {
  using namespace lockstep;
  const Device device = Device::parse(arguments.device);
  std::map<std::string, std::string> known;
  if (!arguments.list.empty()) known = test::read_case_list(arguments.list);
  std::vector<test::CaseResult> results;
  const double range = std::strtod(arguments.range.c_str(), nullptr);
  int surprises = 0;
  for (const std::string& folder : test::onnx_cases(arguments.folder)) {
    if (folder.find(arguments.filter) == std::string::npos) continue;
    const test::CaseResult& result = results.emplace_back(test::run_onnx_case(folder, device, range));
    const bool pass = result.status == test::CaseStatus::pass;
    if (arguments.hashes) fmt::print("{} {:016x}\n", result.name, result.hash);
    if (!arguments.list.empty() && pass == known.contains(result.name)) {
      ++surprises;
      fmt::print("{}: {}\n", result.name, pass ? "passes, and is listed as one that does not" : result.reason);
    } else if (arguments.list.empty() && !arguments.hashes && !arguments.table && !pass) {
      fmt::print("{}\t{}\t{}\n", result.name, test::name_of(result.status), result.reason);
    }
    std::fflush(stdout);
  }
  if (!arguments.write_list.empty()) {
    std::ofstream file(arguments.write_list);
    file << "# Cases that do not pass, written by lockstep_onnx_suite --write-list.\n";
    for (const test::CaseResult& result : results) {
      if (result.status != test::CaseStatus::pass) {
        file << result.name << '\t' << test::name_of(result.status) << '\t' << result.reason << '\n';
      }
    }
  }
  if (arguments.table) fmt::print("{}", test::case_table(results));
  std::size_t passed = 0;
  for (const test::CaseResult& result : results) passed += result.status == test::CaseStatus::pass ? 1 : 0;
  fmt::print("{} of {} cases pass\n", passed, results.size());
  return surprises == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    fmt::print(stderr,
               "lockstep_onnx_suite FOLDER [--device D] [--list FILE] [--write-list FILE] [--filter TEXT] [--table] "
               "[--hashes] [--range R]\n");
    return 2;
  }
  try {
    return run(arguments);
  } catch (const lockstep::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
