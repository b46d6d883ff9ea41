// Where two recordings part: of kernels by their bits, of modules by their errors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <lockstep/check.h>
#include <lockstep/recorder.h>

namespace lockstep {
inline namespace v0 {
namespace {

// A NaN or an infinity in one alone is an infinite error; the same in both is none.
double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      size += std::isfinite(a[i]) ? a[i] * a[i] : 0;
      continue;
    }
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return std::numeric_limits<double>::infinity();
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += a[i] * a[i];
  }
  if (difference == 0) return 0;
  return size == 0 ? std::numeric_limits<double>::infinity() : std::sqrt(difference / size);
}

}  // namespace

std::optional<RecordDifference> compare_records(const std::vector<RecordedKernel>& a,
                                                const std::vector<RecordedKernel>& b) {
  const auto is_same_work = [](const RecordedKernel& one, const RecordedKernel& other) {
    return one.ops == other.ops && one.dtype == other.dtype && one.shape == other.shape;
  };
  RecordDifference found;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const bool in_both = i < a.size() && i < b.size();
    const RecordedKernel& any = i < a.size() ? a[i] : b[i];
    if (!any.module.empty()) found.module = any.module;
    if (in_both && is_same_work(a[i], b[i]) && a[i].hash == b[i].hash) continue;
    found.position = i;
    if (i < a.size()) found.a = a[i];
    if (i < b.size()) found.b = b[i];
    found.same_work = in_both && is_same_work(a[i], b[i]);
    return found;
  }
  return std::nullopt;
}

std::vector<ModuleError> compare_modules(const std::vector<RecordedKernel>& a, const std::vector<RecordedKernel>& b) {
  std::map<std::string, std::vector<const RecordedKernel*>> others;
  for (const RecordedKernel& one : b) {
    if (!one.module.empty() && !one.sample.empty()) others[one.module].push_back(&one);
  }
  std::map<std::string, std::size_t> calls;
  std::vector<ModuleError> errors;
  for (const RecordedKernel& one : a) {
    if (one.module.empty() || one.sample.empty()) continue;
    const std::size_t call = calls[one.module]++;
    const auto found = others.find(one.module);
    if (found == others.end() || call >= found->second.size()) continue;
    const RecordedKernel& other = *found->second[call];
    ModuleError error{.module = one.module, .ops = one.ops, .a = one.shape, .b = other.shape};
    error.is_equal = one.shape == other.shape && one.dtype == other.dtype && one.hash == other.hash;
    if (one.shape == other.shape && !error.is_equal) error.error = relative_error(one.sample, other.sample);
    errors.push_back(std::move(error));
  }
  if (errors.empty()) {
    fail<ValueError>(
        "the recordings have no module in common", {},
        "record both with --record-modules, or tools/record_torch.py, from models whose modules have the same names",
        CallSite("", 0));
  }
  return errors;
}

}  // namespace v0
}  // namespace lockstep
