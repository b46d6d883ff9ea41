// Smaller kernel cases that still differ: each step tries a change, and keeps it if what is left can be run and
// differs.
#include <algorithm>
#include <set>

#include "core/elements.h"
#include "graph/kernel_case.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

class Minimizer {
 public:
  Minimizer(const KernelCase& work, const std::function<bool(const KernelCase&)>& differs, int tries)
      : best(work), differs_(differs), tries_(tries) {
    for (KernelCase::Result& result : best.results) result.expected.clear(), result.actual.clear();
  }

  bool keep(KernelCase smaller) {
    if (tries_ <= 0) return false;
    drop_unread(smaller);
    if (!mistake_in(smaller).empty()) return false;
    --tries_;
    if (!differs_(smaller)) return false;
    best = std::move(smaller);
    return true;
  }

  KernelCase best;

 private:
  // What no result needs any more.
  static void drop_unread(KernelCase& work) {
    std::vector<bool> needed(work.values.size(), false);
    for (const KernelCase::Result& result : work.results) needed[result.value] = true;
    for (std::size_t i = work.values.size(); i-- > 0;) {
      if (!needed[i]) continue;
      for (const KernelCase::Operand& operand : work.values[i].operands) {
        if (operand.value >= 0) needed[static_cast<std::size_t>(operand.value)] = true;
      }
    }
    std::vector<int> places(work.values.size(), -1);
    std::vector<KernelCase::Value> kept;
    for (std::size_t i = 0; i < work.values.size(); ++i) {
      if (!needed[i]) continue;
      places[i] = static_cast<int>(kept.size());
      kept.push_back(std::move(work.values[i]));
      for (KernelCase::Operand& operand : kept.back().operands) {
        if (operand.value >= 0) operand.value = places[static_cast<std::size_t>(operand.value)];
      }
    }
    work.values = std::move(kept);
    for (KernelCase::Result& result : work.results) result.value = static_cast<std::size_t>(places[result.value]);
  }

  const std::function<bool(const KernelCase&)>& differs_;
  int tries_;
};

// One result; an earlier value in its place if that differs already.
void fewer_results(Minimizer& minimizer) {
  for (std::size_t i = 0; i < minimizer.best.values.size(); ++i) {
    if (minimizer.best.is_given(i)) continue;
    KernelCase one = minimizer.best;
    one.results = {{i, {}, {}}};
    if (minimizer.keep(std::move(one))) return;
  }
}

// Values of the beginning become given ones, as the reference computes them.
void fewer_ops(Minimizer& minimizer) {
  for (std::size_t i = minimizer.best.values.size(); i-- > 0;) {
    if (i >= minimizer.best.values.size() || minimizer.best.is_given(i)) continue;
    const auto is_result = [&](const KernelCase::Result& result) { return result.value == i; };
    if (std::ranges::any_of(minimizer.best.results, is_result)) continue;
    KernelCase smaller = minimizer.best;
    KernelCase until = minimizer.best;
    until.results = {{i, {}, {}}};
    try {
      smaller.values[i].data = compute_case(until, {DeviceKind::ref, 0}).front();
    } catch (const Error&) {
      continue;
    }
    smaller.values[i].op = Data{};
    smaller.values[i].operands.clear();
    minimizer.keep(std::move(smaller));
  }
}

// The bytes of a dense value in the corner of that shape: the first elements of each dimension, or the last ones.
Bytes corner(const KernelCase::Value& value, const Shape& shape, bool is_last) {
  const std::size_t size = size_of(value.dtype);
  Bytes bytes(static_cast<std::size_t>(shape.numel()) * size);
  for (std::int64_t n = 0; n < shape.numel(); ++n) {
    const Shape index = index_of(n, shape);
    std::int64_t from = 0;
    for (int d = 0; d < shape.rank(); ++d) {
      from = from * value.shape[d] + index[d] + (is_last ? value.shape[d] - shape[d] : 0);
    }
    std::copy_n(value.data.begin() + from * static_cast<std::int64_t>(size), size,
                bytes.begin() + n * static_cast<std::int64_t>(size));
  }
  return bytes;
}

void replace_size(Shape& shape, std::int64_t from, std::int64_t to) {
  for (std::int64_t& size : shape) size = size == from ? to : size;
}

// Strides of a view over a dense value of shape `before`, over one of shape `after`. False: they follow no dimension.
bool restride(View& view, const Shape& before, const Shape& after) {
  const Shape old_strides = View::contiguous(before).strides;
  const Shape new_strides = View::contiguous(after).strides;
  const auto map = [&](std::int64_t& stride) {
    for (int d = 0; d < before.rank(); ++d) {
      if (before[d] <= 1 || old_strides[d] == 0) continue;
      if (stride == old_strides[d] || stride == -old_strides[d]) {
        stride = stride < 0 ? -new_strides[d] : new_strides[d];
        return true;
      }
    }
    for (int d = 0; d < before.rank(); ++d) {  // every second element, and the like
      if (before[d] <= 1 || stride % old_strides[d] != 0 || std::abs(stride / old_strides[d]) >= before[d]) continue;
      stride = stride / old_strides[d] * new_strides[d];
      return true;
    }
    return stride == 0;
  };
  for (std::int64_t& stride : view.strides) {
    if (!map(stride)) return false;
  }
  for (Bound& bound : view.bounds) {
    if (!map(bound.stride)) return false;
  }
  std::int64_t rest = view.offset;  // where it begins, as an index
  std::int64_t moved = 0;
  if (rest < 0) return !view.bounds.empty() && before == after;
  for (int d = 0; d < before.rank(); ++d) {
    moved += rest / old_strides[d] * new_strides[d];
    rest %= old_strides[d];
  }
  view.offset = moved;
  return true;
}

// Every dimension of one size gets another. Nothing where views do not follow.
std::optional<KernelCase> with_size(const KernelCase& work, std::int64_t from, std::int64_t to, bool is_last) {
  KernelCase smaller = work;
  for (std::size_t i = 0; i < work.values.size(); ++i) {
    KernelCase::Value& value = smaller.values[i];
    const Shape before = value.shape;
    replace_size(value.shape, from, to);
    if (work.is_given(i) && before != value.shape) {
      if (value.encoding != Encoding::dense) return std::nullopt;
      value.data = corner(work.values[i], value.shape, is_last);
    }
    const auto resize = [&](View& view, int operand) {
      const Shape& base = work.values[static_cast<std::size_t>(operand)].shape;
      Shape resized = base;
      replace_size(resized, from, to);
      replace_size(view.shape, from, to);
      for (Bound& bound : view.bounds) bound.hi = bound.hi == from ? to : bound.hi;
      return restride(view, base, resized);
    };
    for (KernelCase::Operand& operand : value.operands) {
      if (operand.view && !resize(*operand.view, operand.value)) return std::nullopt;
    }
    if (auto* contract = primitive_if<Contract>(value.op)) {
      for (Shape* group : {&contract->b, &contract->m, &contract->n, &contract->k}) replace_size(*group, from, to);
      if (!resize(contract->a_view, value.operands[0].value) || !resize(contract->b_view, value.operands[1].value))
        return std::nullopt;
    } else if (auto* gather = primitive_if<Gather>(value.op)) {
      const Shape& base = work.values[static_cast<std::size_t>(value.operands[0].value)].shape;
      Shape resized = base;
      replace_size(resized, from, to);
      View axis{.shape = {gather->size}, .strides = {gather->stride}, .offset = 0, .bounds = {}, .fill = 0};
      if (!restride(axis, base, resized) || !resize(gather->source, value.operands[0].value)) return std::nullopt;
      gather->stride = axis.strides[0];
      gather->size = gather->size == from ? to : gather->size;
    } else if (auto* update = primitive_if<Update>(value.op)) {
      if (!resize(update->region, value.operands[0].value)) return std::nullopt;
    }
  }
  return smaller;
}

void smaller_sizes(Minimizer& minimizer) {
  for (bool changed = true; changed;) {
    changed = false;
    std::set<std::int64_t, std::greater<>> sizes;
    for (const KernelCase::Value& value : minimizer.best.values) sizes.insert(value.shape.begin(), value.shape.end());
    for (const std::int64_t size : sizes) {
      if (size <= 1) continue;
      // Between what agrees and what differs.
      std::int64_t agrees = 0;
      std::int64_t differs = size;
      while (differs - agrees > 1) {
        const std::int64_t middle = agrees == 0 && differs == size ? 1 : agrees + (differs - agrees) / 2;
        bool smaller = false;
        for (const bool is_last : {false, true}) {
          std::optional<KernelCase> tried = with_size(minimizer.best, differs, middle, is_last);
          smaller = smaller || (tried && minimizer.keep(std::move(*tried)));
          if (smaller) break;
        }
        (smaller ? differs : agrees) = middle;
        changed = changed || smaller;
      }
    }
  }
}

// Elements become zero, all at once, then halves, quarters, ... of them.
void simpler_values(Minimizer& minimizer) {
  for (std::size_t i = 0; i < minimizer.best.values.size(); ++i) {
    if (i >= minimizer.best.values.size() || !minimizer.best.is_given(i)) continue;
    const std::size_t size =
        minimizer.best.values[i].encoding == Encoding::dense ? size_of(minimizer.best.values[i].dtype) : 1;
    const std::size_t count = minimizer.best.values[i].data.size() / size;
    for (std::size_t length = count; length > 0; length = length == 1 ? 0 : (length + 1) / 2) {
      constexpr std::size_t kMostParts = 64;
      if (count / length > kMostParts) break;
      for (std::size_t begin = 0; begin < count; begin += length) {
        KernelCase simpler = minimizer.best;
        Bytes& data = simpler.values[i].data;
        const auto first = data.begin() + static_cast<std::ptrdiff_t>(begin * size);
        const auto last = data.begin() + static_cast<std::ptrdiff_t>(std::min(begin + length, count) * size);
        if (std::all_of(first, last, [](std::byte b) { return b == std::byte{0}; })) continue;
        std::fill(first, last, std::byte{0});
        minimizer.keep(std::move(simpler));
      }
    }
  }
}

}  // namespace

KernelCase minimized(const KernelCase& work, const std::function<bool(const KernelCase&)>& differs, int tries) {
  Minimizer minimizer(work, differs, tries);
  fewer_results(minimizer);
  fewer_ops(minimizer);
  smaller_sizes(minimizer);
  fewer_ops(minimizer);
  simpler_values(minimizer);
  return minimizer.best;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
