// einsum: labels name dimensions, operands are multiplied from left to right (docs/numerics.md section 6).
#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "graph/autocast.h"
#include "graph/numerics.h"
#include "graph/ops/contraction.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// Labels are letters; the dimensions of an ellipsis, counted from the last one, are labels '0', '1', ...
using Labels = std::string;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

struct Equation {
  std::vector<Labels> operands;
  Labels output;
};

class Parser {
 public:
  Parser(const std::string& equation, const std::vector<Tensor>& tensors, const std::vector<Shown>& shown)
      : tensors_(tensors), shown_(shown) {
    for (const char c : equation) {
      if (c != ' ') text_ += c;
    }
  }

  Equation parse() {
    const std::size_t arrow = text_.find("->");
    const std::string left = text_.substr(0, arrow);
    Equation result;
    std::size_t start = 0;
    while (true) {
      const std::size_t comma = left.find(',', start);
      result.operands.push_back(left.substr(start, comma == std::string::npos ? comma : comma - start));
      if (comma == std::string::npos) break;
      start = comma + 1;
    }
    if (result.operands.size() != tensors_.size()) {
      wrong(fmt::format("the equation has {} operands, {} were given", result.operands.size(), tensors_.size()));
    }
    int most = 0;
    bool ellipsis = false;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const int rank = tensors_[i].rank();
      const auto [labels, dims] = expand(result.operands[i], rank);
      ellipsis = ellipsis || dims >= 0;
      most = std::max(most, dims);
      if (static_cast<int>(labels.size()) != rank) {
        fail<ShapeError>(fmt::format("operand {} has {} dimensions, its labels \"{}\" name {}", i, rank,
                                     result.operands[i], labels.size()),
                         shown_);
      }
      result.operands[i] = labels;
    }
    if (arrow == std::string::npos) {
      result.output = implicit(result.operands, most);
    } else {
      const std::string right = text_.substr(arrow + 2);
      const std::size_t dots = right.find("...");
      if (dots != std::string::npos && !ellipsis) wrong("the output has an ellipsis that no operand has");
      const std::size_t letters = dots == std::string::npos ? right.size() : right.size() - 3;
      result.output = expand(right, static_cast<int>(letters) + (dots == std::string::npos ? 0 : most)).first;
      for (std::size_t i = 0; i < result.output.size(); ++i) {
        const char label = result.output[i];
        if (result.output.find(label, i + 1) != Labels::npos)
          wrong(fmt::format("label {} is twice in the output", label));
        const bool known = std::any_of(result.operands.begin(), result.operands.end(),
                                       [&](const Labels& labels) { return labels.find(label) != Labels::npos; });
        if (!known) wrong(fmt::format("label {} of the output is in no operand", label));
      }
    }
    return result;
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    fail<ValueError>(fmt::format("{} (equation \"{}\")", what, text_), shown_,
                     "labels are letters, operands are separated by commas, e.g. \"bij,bjk->bik\"");
  }

  // The labels of one term with its ellipsis spelled out for `rank` dimensions, and how many dimensions that took
  // (-1: there is none).
  std::pair<Labels, int> expand(const std::string& term, int rank) const {
    Labels labels;
    int dims = -1;
    for (std::size_t i = 0; i < term.size(); ++i) {
      if (term.compare(i, 3, "...") == 0 && dims < 0) {
        dims = rank - (static_cast<int>(term.size()) - 3);
        if (dims < 0) wrong(fmt::format("\"{}\" has more labels than dimensions ({})", term, rank));
        for (int d = dims; d-- > 0;) labels += static_cast<char>('0' + d);
        i += 2;
      } else if (is_letter(term[i])) {
        labels += term[i];
      } else {
        wrong(fmt::format("\"{}\" is no label", term[i]));
      }
    }
    return {labels, dims};
  }

  // Without an arrow: the ellipsis, then the labels that occur once, in the order of their codes.
  static Labels implicit(const std::vector<Labels>& operands, int ellipsis) {
    Labels output;
    for (int d = ellipsis; d-- > 0;) output += static_cast<char>('0' + d);
    std::array<int, 128> count{};
    for (const Labels& labels : operands) {
      for (const char label : labels) ++count[static_cast<std::size_t>(label)];
    }
    for (char label = 'A'; label <= 'z'; ++label) {
      if (is_letter(label) && count[static_cast<std::size_t>(label)] == 1) output += label;
    }
    return output;
  }

  std::string text_;
  const std::vector<Tensor>& tensors_;
  const std::vector<Shown>& shown_;
};

struct Labeled {
  Tensor tensor;
  Labels labels;
};

// A label that one operand repeats is a diagonal: both dimensions move together.
Labeled diagonals(Labeled operand, const std::vector<Shown>& shown) {
  for (std::size_t i = 0; i < operand.labels.size(); ++i) {
    std::size_t again;
    while ((again = operand.labels.find(operand.labels[i], i + 1)) != Labels::npos) {
      const int keep = static_cast<int>(i);
      const int drop = static_cast<int>(again);
      if (operand.tensor.shape()[keep] != operand.tensor.shape()[drop]) {
        fail<ShapeError>(fmt::format("label {} has sizes {} and {} in one operand", operand.labels[i],
                                     operand.tensor.shape()[keep], operand.tensor.shape()[drop]),
                         shown);
      }
      operand.tensor = change_view(operand.tensor, [&](const View& view) -> std::optional<View> {
        View result = view;
        result.strides[keep] += result.strides[drop];
        result.strides.erase(drop);
        result.shape.erase(drop);
        for (Bound& bound : result.bounds) {
          bound.m[keep] += bound.m[drop];
          bound.m.erase(drop);
        }
        return result;
      });
      operand.labels.erase(again, 1);
    }
  }
  return operand;
}

bool has(const Labels& labels, char label) {
  return labels.find(label) != Labels::npos;
}

// R over the labels that nothing else needs, in one sum.
Labeled without_lone_labels(Labeled operand, const Labels& needed) {
  std::uint32_t dims = 0;
  Labels rest;
  for (std::size_t i = 0; i < operand.labels.size(); ++i) {
    if (has(needed, operand.labels[i])) {
      rest += operand.labels[i];
    } else {
      dims |= 1u << i;
    }
  }
  if (dims == 0) return operand;
  const DType dtype = operand.tensor.dtype();
  const Tensor terms = cast(operand.tensor, is_float(dtype) ? wide(dtype) : DType::i64);
  const Tensor total = drop_dims(reduce(ReduceOp::sum, terms, dims), dims, false);
  return {cast(total, accumulated(dtype)), rest};
}

// Shared labels that `needed` names are batch, the other shared ones are summed, in the order of the left operand.
Labeled multiply(const Labeled& a, const Labeled& b, const Labels& needed) {
  ContractionDims dims;
  Labels batch;
  Labels m;
  Labels n;
  for (std::size_t i = 0; i < a.labels.size(); ++i) {
    const char label = a.labels[i];
    const std::size_t other = b.labels.find(label);
    const auto at_a = static_cast<std::int64_t>(i);
    const auto at_b = static_cast<std::int64_t>(other);
    if (other == Labels::npos) {
      m += label;
      dims.m.push_back(at_a);
    } else if (has(needed, label)) {
      batch += label;
      dims.batch_a.push_back(at_a);
      dims.batch_b.push_back(at_b);
    } else {
      dims.k_a.push_back(at_a);
      dims.k_b.push_back(at_b);
    }
  }
  for (std::size_t i = 0; i < b.labels.size(); ++i) {
    if (has(a.labels, b.labels[i])) continue;
    n += b.labels[i];
    dims.n.push_back(static_cast<std::int64_t>(i));
  }
  // What was summed or multiplied before is wider than what was given.
  const bool same = a.tensor.dtype() == b.tensor.dtype();
  const DType working = accumulated(a.tensor.dtype());
  const Tensor product =
      contract_dims(same ? a.tensor : cast(a.tensor, working), same ? b.tensor : cast(b.tensor, working), dims);
  return {product, batch + m + n};
}

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& tensors, CallSite site) {
  const CallScope call("einsum", site);
  if (is_autocasting()) return with_autocast(autocast_dtype(), einsum, equation, tensors, site);
  if (tensors.empty()) fail<ValueError>("needs at least one operand");
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < tensors.size(); ++i) shown.emplace_back(fmt::format("operands[{}]", i), tensors[i]);
  check_operands(shown);
  const InnerNumerics inner(tensors[0].dtype());  // later products are of wider values
  const Equation parsed = Parser(equation, tensors, shown).parse();

  std::array<std::int64_t, 128> size;
  size.fill(1);
  std::vector<Labeled> operands;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    operands.push_back(diagonals({tensors[i], parsed.operands[i]}, shown));
    for (std::size_t d = 0; d < operands[i].labels.size(); ++d) {
      const char label = operands[i].labels[d];
      std::int64_t& known = size[static_cast<std::size_t>(label)];
      const std::int64_t here = operands[i].tensor.shape()[static_cast<int>(d)];
      if (here != known && here != 1 && known != 1) {
        fail<ShapeError>(fmt::format("label {} has sizes {} and {}", label, known, here), shown,
                         "dimensions of one label must be equal (or 1)");
      }
      if (known == 1) known = here;
    }
  }
  for (Labeled& operand : operands) {
    Shape full;
    for (const char label : operand.labels) full.push_back(size[static_cast<std::size_t>(label)]);
    if (full != operand.tensor.shape()) operand.tensor = operand.tensor.expand(full);
  }

  const auto needed_beside = [&](std::size_t from, std::size_t without) {
    Labels needed = parsed.output;
    for (std::size_t i = from; i < operands.size(); ++i) {
      if (i != without) needed += operands[i].labels;
    }
    return needed;
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    operands[i] = without_lone_labels(operands[i], needed_beside(0, i));
  }
  Labeled result = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i) {
    result = multiply(result, operands[i], needed_beside(i + 1, operands.size()));
  }
  Dims order;
  for (const char label : parsed.output) order.push_back(static_cast<std::int64_t>(result.labels.find(label)));
  return cast(result.tensor.permute(order), returned(tensors[0].dtype()));
}

}  // namespace v0
}  // namespace lockstep
