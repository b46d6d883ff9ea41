// The points at which gradients are checked, and what is printed of them.
#include <algorithm>

#include <fmt/format.h>

#include "cli/check/gradients.h"
#include "cli/json.h"
#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// The first shape of a form is tried in every layout, and with operands that are one leaf; the others dense.
std::vector<Shape> shapes_of(Form form) {
  switch (form) {
    case Form::elementwise: return {{3, 4}, {}, {2, 1, 3}};
    case Form::rows: return {{4, 5}, {}, {7}, {2, 3, 4}};
    case Form::small: return {{3, 4}, {5}};
    case Form::matrix: return {{4, 5, 3}, {3, 4, 7}};
    case Form::signal: return {{2, 4, 7}};
    case Form::image: return {{2, 4, 7, 6}};
    case Form::volume: return {{1, 4, 5, 4, 6}};
    case Form::sequence: return {{3, 2, 4}, {1, 2, 2}};
  }
  return {};
}

}  // namespace

GradientRow check_gradients(const CheckOp& op, Device device) {
  GradientRow row{.op = op.name};
  const auto add = [&](const Point& point, bool shared) {
    const GradientResult found = check_gradient(op, point, shared, device);
    switch (found.status) {
      case GradientStatus::wrong:
        row.wrong.push_back(fmt::format("{} {} #{}{}: {}", point.shape.to_string(), name_of(point.layout),
                                        point.variant, shared ? " of one leaf" : "", found.detail));
        [[fallthrough]];
      case GradientStatus::right:
        ++row.cases;
        row.largest_error = std::max(row.largest_error, found.error);
        row.magnitude = std::max(row.magnitude, found.magnitude);
        break;
      case GradientStatus::refused:
        ++row.refused;
        row.why = found.detail;
        break;
      case GradientStatus::undefined:
        ++row.undefined;
        row.why = found.detail;
        break;
      case GradientStatus::none: row.why = found.detail; break;
    }
  };
  const std::vector<Shape> shapes = shapes_of(op.form);
  for (int variant = 0; variant < op.variants; ++variant) {
    for (int layout = 0; layout < kLayouts; ++layout) {
      add({.shape = shapes[0], .layout = static_cast<Layout>(layout), .variant = variant}, false);
    }
    add({.shape = shapes[0], .variant = variant}, true);
    for (std::size_t s = 1; s < shapes.size(); ++s) add({.shape = shapes[s], .variant = variant}, false);
  }
  return row;
}

void print_gradients(const std::vector<GradientRow>& rows) {
  const Style style;
  Table table;
  table.add({{"op", &Style::dim}, {"cases", &Style::dim, true}, {"error", &Style::dim, true}, {"", nullptr}});
  int cases = 0;
  int wrong = 0;
  for (const GradientRow& row : rows) {
    cases += row.cases;
    wrong += static_cast<int>(row.wrong.size());
    const bool compared = row.cases > 0;
    table.add({{row.op},
               {std::to_string(row.cases), nullptr, true},
               {compared ? fmt::format("{:.1e}", row.largest_error * kGradientBound) : "-", nullptr, true},
               {!row.wrong.empty() ? fmt::format("{} wrong", row.wrong.size())
                : compared         ? ""
                                   : printable(row.why),
                row.wrong.empty() ? &Style::dim : &Style::bad}});
  }
  table.print(style, "");
  for (const GradientRow& row : rows) {
    for (const std::string& line : row.wrong) print_line(fmt::format("{} {} {}", style.bad("wrong"), row.op, line));
  }
  print_line(fmt::format("{} gradients of {} ops compared with differences, {} wrong", cases, rows.size(), wrong));
}

void print_gradients_json(const std::vector<GradientRow>& rows) {
  for (const GradientRow& row : rows) {
    JsonObject line;
    line.add("op", json(row.op))
        .add("cases", json(row.cases))
        .add("wrong", json(row.wrong.size()))
        .add("refused", json(row.refused))
        .add("undefined", json(row.undefined))
        .add("largest_error", json(row.largest_error * kGradientBound));
    if (!row.wrong.empty()) {
      line.add("detail", json(row.wrong.front()));
    } else if (row.cases == 0) {
      line.add("detail", json(row.why));
    }
    print_line(line.text());
  }
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
