#include "cli/check/check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <typeinfo>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "backends/backend.h"
#include "graph/numerics.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct Result {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;
};

// What a device answered: results, or an error.
struct Answer {
  std::vector<Result> results;
  std::string error;      ///< its first line
  const char* type = "";  ///< of the error
  bool failed = false;
  bool documented = true;  ///< an error that arguments may cause
  bool is_dtype_error = false;
  double seconds = 0;
};

Answer ask(const CheckOp& op, DType dtype, const Point& point, Device device, const Probe::Choice& choice = {}) {
  Answer answer;
  const auto start = std::chrono::steady_clock::now();
  try {
    manual_seed(42);
    const NumericsScope numerics(point.numerics);
    Probe probe(dtype, point, device);
    if (choice) probe.choose(choice);
    for (const Tensor& tensor : op.run(probe)) {
      Result result{tensor.dtype(), tensor.shape(), {}};
      result.bytes.resize(static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()));
      tensor.read_bytes(result.bytes.data());
      answer.results.push_back(std::move(result));
    }
  } catch (const std::exception& error) {
    answer.results.clear();
    answer.failed = true;
    answer.error = first_line(error.what());
    answer.type = typeid(error).name();
    answer.is_dtype_error = dynamic_cast<const DTypeError*>(&error) != nullptr;
    answer.documented = answer.is_dtype_error || dynamic_cast<const ShapeError*>(&error) != nullptr ||
                        dynamic_cast<const ValueError*>(&error) != nullptr ||
                        dynamic_cast<const IndexError*>(&error) != nullptr;
  }
  answer.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return answer;
}

std::string hex_of(const Result& result, std::size_t element) {
  const std::size_t size = size_of(result.dtype);
  std::uint64_t word = 0;
  std::memcpy(&word, result.bytes.data() + element * size, size);
  return fmt::format("0x{:0{}x}", word, 2 * size);
}

std::string position_of(const Shape& shape, std::size_t element) {
  Shape index = shape;
  auto rest = static_cast<std::int64_t>(element);
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[d] = rest % shape[d];
    rest /= shape[d];
  }
  return index.to_string();
}

std::string difference_of(const Answer& expected, const Answer& actual) {
  if (expected.failed || actual.failed) {
    if (!expected.documented) return "the reference failed: " + expected.error;
    if (!actual.documented) return "the device failed: " + actual.error;
    if (!expected.failed) return "refused: " + actual.error;
    if (!actual.failed) return "not refused: " + expected.error;
    return std::strcmp(expected.type, actual.type) == 0
               ? ""
               : fmt::format("\"{}\" instead of \"{}\"", actual.error, expected.error);
  }
  if (expected.results.size() != actual.results.size()) return "another number of results";
  for (std::size_t r = 0; r < expected.results.size(); ++r) {
    const Result& want = expected.results[r];
    const Result& have = actual.results[r];
    if (want.dtype != have.dtype)
      return fmt::format("result {} is {} instead of {}", r, name_of(have.dtype), name_of(want.dtype));
    if (want.shape != have.shape) {
      return fmt::format("result {} has shape {} instead of {}", r, have.shape.to_string(), want.shape.to_string());
    }
    if (want.bytes == have.bytes) continue;
    const std::size_t size = size_of(want.dtype);
    const std::size_t count = want.bytes.size() / size;
    std::size_t different = 0;
    std::size_t first = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (std::memcmp(want.bytes.data() + i * size, have.bytes.data() + i * size, size) == 0) continue;
      if (different++ == 0) first = i;
    }
    return fmt::format("result {}: {} of {} elements differ, first {}: {} instead of {}", r, different, count,
                       position_of(want.shape, first), hex_of(have, first), hex_of(want, first));
  }
  return "";
}

/// What fast numerics are held to (docs/numerics.md section 13): so many times what the op makes of magnitudes.
struct FastBound {
  Answer magnitudes;
  double share = 0;
};

double unit_of(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
}

bool is_attention(const CheckOp& op) {
  return std::string_view(op.name) == "scaled_dot_product_attention";
}

// Products of more than two operands have TF32 inside, and sums of convolutions are rounded before a bias is added.
FastBound bound_of_products(const CheckOp& op, DType dtype, const Point& point, Device reference) {
  return {ask(op, dtype, point, reference, [](std::size_t, const Tensor& operand) { return abs(operand); }),
          3 * unit_of(dtype) + 0x1p-9 + 0x1p-14};
}

// The weights of the operands' own query and key, with the magnitudes of the values. Scores are bounded by the largest
// elements.
FastBound bound_of_attention(const CheckOp& op, DType dtype, const Point& point, Device reference) {
  double largest = 1;
  double features = 1;
  double keys = 1;
  FastBound bound;
  bound.magnitudes = ask(op, dtype, point, reference, [&](std::size_t number, const Tensor& operand) {
    if (number < 2 && operand.numel() > 0) largest *= amax(abs(operand.to(DType::f32))).item<float>();
    if (number == 1) {
      features = static_cast<double>(operand.shape().back());
      keys = static_cast<double>(operand.shape()[operand.rank() - 2]);
    }
    return number == 2 ? abs(operand) : operand;
  });
  const double of_scores = 0x1p-23 * (features + 16) * std::sqrt(features) * largest;
  bound.share = 3 * unit_of(dtype) + 4 * of_scores + 0x1p-23 * (keys + 16);
  return bound;
}

// In the operands' dtype.
std::string beyond_bound(const Answer& exact, const FastBound& bound, const Answer& fast, DType dtype) {
  for (std::size_t r = 0; r < exact.results.size(); ++r) {
    const auto value = [&](const Answer& of, std::size_t i) {
      std::uint16_t word = 0;
      std::memcpy(&word, of.results[r].bytes.data() + 2 * i, 2);
      return static_cast<double>(dtype == DType::bf16 ? to_f32(BFloat16{word}) : to_f32(Float16{word}));
    };
    for (std::size_t i = 0; i < exact.results[r].bytes.size() / 2; ++i) {
      const double error = std::fabs(value(fast, i) - value(exact, i));
      if (error <= bound.share * value(bound.magnitudes, i) + 0x1p-24) continue;
      if (std::isnan(value(fast, i)) && std::isnan(value(exact, i))) continue;
      return fmt::format("result {} at {} is {} instead of {}, beyond the bound", r,
                         position_of(exact.results[r].shape, i), value(fast, i), value(exact, i));
    }
  }
  return "";
}

CallComparison compare_fast_call(const CheckOp& op, DType dtype, Point point, const CheckOptions& options) {
  point.numerics = Numerics::exact;
  const Answer exact = ask(op, dtype, point, options.reference);
  const FastBound bound = is_attention(op) ? bound_of_attention(op, dtype, point, options.reference)
                                           : bound_of_products(op, dtype, point, options.reference);
  point.numerics = Numerics::fast;
  const Answer fast = ask(op, dtype, point, options.device);
  CallComparison call{.compared = !exact.failed && !fast.failed,
                      .refusal = exact.error,
                      .difference = difference_of(fast, ask(op, dtype, point, options.device)),
                      .seconds = fast.seconds,
                      .reference_seconds = exact.seconds};
  if (!call.difference.empty()) {
    call.difference = "not what it was before: " + call.difference;
  } else if (call.compared) {
    call.difference = beyond_bound(exact, bound, fast, dtype);
  } else {
    call.difference = difference_of(exact, fast);
  }
  return call;
}

/// Whether the op is also tried in fast numerics: contractions, convolutions and attention.
bool is_tried_fast(const CheckOp& op, DType dtype, Device device) {
  const std::vector<Numerics> others = numerics_beside_exact(op, dtype);
  const auto products = check_contraction_ops();
  return std::find(others.begin(), others.end(), Numerics::blocked) != others.end() &&
         (is_attention(op) ||
          std::any_of(products.begin(), products.end(),
                      [&](const CheckOp& other) { return std::string_view(op.name) == other.name; })) &&
         graph::missing_for(Numerics::fast, device).empty();
}

Cell check_cell(const CheckOp& op, DType dtype, const CheckOptions& options) {
  Cell cell{.op = op.name, .dtype = dtype};
  if (!backend_of(options.device).holds(dtype)) {
    cell.status = CellStatus::unsupported;
    cell.detail = fmt::format("{} cannot hold {}", options.device.to_string(), name_of(dtype));
    return cell;
  }
  std::string refusal;
  bool every_refusal_is_of_the_dtype = true;
  std::vector<Point> points = points_of(op, options.extent);
  for (const Numerics numerics : numerics_beside_exact(op, dtype)) {
    for (Point point : points_of(op, options.extent)) {
      point.numerics = numerics;
      points.push_back(point);
    }
  }
  if (is_tried_fast(op, dtype, options.device)) {
    for (Point point : points_of(op, options.extent)) {
      if (point.values != Values::ordinary) continue;
      point.numerics = Numerics::fast;
      points.push_back(point);
    }
  }
  for (const Point& point : points) {
    if (point.shape.numel() > options.most_elements) continue;
    const bool fast = point.numerics == Numerics::fast;
    const CallComparison call = fast ? compare_fast_call(op, dtype, point, options)
                                     : compare_call(op, dtype, point, options.reference, options.device);
    cell.seconds += call.seconds;
    cell.reference_seconds += call.reference_seconds;
    if (!call.difference.empty()) {
      if (cell.different++ == 0) {
        cell.detail = to_string(point) + ": " + call.difference;
        if (!options.folder.empty() && !fast) {
          cell.file = save_check_case(options.folder, op, dtype, point, options.reference, options.device);
        }
      }
    } else if (call.compared) {
      ++cell.probes;
    } else {
      ++cell.refused;
      every_refusal_is_of_the_dtype = every_refusal_is_of_the_dtype && call.wrong_dtype;
      if (refusal.empty() || call.wrong_dtype) refusal = call.refusal;
      // What the first calls refuse for its dtype, the others will too.
      constexpr int kEnough = 12;
      if (call.wrong_dtype && every_refusal_is_of_the_dtype && cell.probes == 0 && cell.refused >= kEnough) break;
    }
  }
  if (cell.different > 0) {
    cell.status = CellStatus::different;
  } else if (cell.probes == 0) {
    cell.status = CellStatus::unsupported;
    cell.detail = refusal;
  }
  return cell;
}

}  // namespace

const char* name_of(CellStatus status) {
  constexpr const char* kNames[] = {"equal", "different", "unsupported"};
  return kNames[static_cast<std::size_t>(status)];
}

std::vector<DType> all_dtypes() {
  std::vector<DType> dtypes;
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) dtypes.push_back(static_cast<DType>(dtype));
  return dtypes;
}

CallComparison compare_call(const CheckOp& op, DType dtype, const Point& point, Device reference, Device device) {
  const Answer expected = ask(op, dtype, point, reference);
  const Answer actual = ask(op, dtype, point, device);
  CallComparison call;
  call.compared = !expected.failed && !actual.failed;
  call.wrong_dtype = expected.is_dtype_error && actual.is_dtype_error;
  call.refusal = expected.error;
  call.seconds = actual.seconds;
  call.reference_seconds = expected.seconds;
  // An op whose result is f64 whatever it is given, on a device that has none.
  const bool held = std::all_of(expected.results.begin(), expected.results.end(),
                                [&](const Result& result) { return backend_of(device).holds(result.dtype); });
  if (actual.is_dtype_error && !held) {
    call.wrong_dtype = true;
    call.refusal = actual.error;
    return call;
  }
  call.difference = difference_of(expected, actual);
  return call;
}

std::vector<Cell> check_device(const CheckOptions& options, const std::vector<CheckOp>& ops) {
  std::vector<CheckOp> chosen;
  std::size_t number = 0;
  for (const CheckOp& op : ops) {
    const auto& only = options.only;
    if (number++ % options.parts != options.part - 1) continue;
    if (only.empty() || std::find(only.begin(), only.end(), op.name) != only.end()) chosen.push_back(op);
  }
  const std::size_t total = chosen.size() * options.dtypes.size();
  std::vector<Cell> cells;
  for (const CheckOp& op : chosen) {
    for (const DType dtype : options.dtypes) {
      cells.push_back(check_cell(op, dtype, options));
      if (options.progress) options.progress(cells.size(), total);
    }
  }
  return cells;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
