// Products of one left operand with several right ones (graph/siblings.h). What launches make of the left operand, such
// as codes of its rows, is made once, and products that do not need each other are one launch, in which each has
// workgroups by the bytes of its weights: alone, small ones leave most of the device without work, and each launch
// begins and ends by waiting.
#include <algorithm>

#include "backends/gpu/renderer/contraction.h"
#include "backends/gpu/renderer/joined.h"
#include "backends/gpu/renderer/kinds.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Products = std::span<const Kernel* const>;

const ContractionKernel& product(const Kernel* kernel) {
  return std::get<ContractionKernel>(*kernel);
}

// Forms that are few launches, of which only those that make something of the left operand alone write nothing else.
bool has_siblings(const ContractionKernel& kernel) {
  const Input& b = kernel.b_operand;
  if (kernel.numerics == Numerics::q8) return true;
  return kernel.numerics == Numerics::exact && b.encoding == Encoding::dense && is_float(b.dtype) &&
         size_of(b.dtype) == 2;
}

double weight_bytes(const ContractionKernel& kernel) {
  const Input& b = kernel.b_operand;
  double of_element = static_cast<double>(size_of(b.dtype));
  if (b.encoding != Encoding::dense) {
    const EncodingInfo& info = info_of(b.encoding);
    of_element = static_cast<double>(info.bytes) / static_cast<double>(info.elements);
  }
  return of_element * static_cast<double>(kernel.n.numel()) * static_cast<double>(kernel.k.numel());
}

// Many rows fill the device with each product, whose workgroups stay: a fixed share of it for each is slower (Q4_K,
// 2,048 rows: by a tenth).
bool leave_units_idle(Products products, const RenderLimits& limits) {
  constexpr std::int64_t kSide = 64;
  std::int64_t tiles = 0;
  for (const Kernel* const kernel : products) {
    const ContractionKernel& one = product(kernel);
    tiles += one.b.numel() * over(one.m.numel(), kSide) * over(one.n.numel(), kSide);
  }
  return product(products.front()).m.numel() < kSide / 4 || tiles <= limits.units;
}

bool reads_results(const ContractionKernel& kernel, const ContractionKernel& other) {
  const auto& outputs = other.epilogue.outputs;
  const auto is_read = [&](int slot) {
    return std::any_of(outputs.begin(), outputs.end(), [&](const Output& output) { return output.slot == slot; });
  };
  const auto& inputs = kernel.epilogue.inputs;
  return is_read(kernel.b_operand.slot) ||
         std::any_of(inputs.begin(), inputs.end(), [&](const Input& input) { return is_read(input.slot); });
}

bool are_independent(Products products) {
  for (const Kernel* const one : products) {
    for (const Kernel* const other : products) {
      if (one != other && reads_results(product(one), product(other))) return false;
    }
  }
  return true;
}

bool makes_results(const Launch& launch, const ContractionKernel& kernel) {
  const auto& outputs = kernel.epilogue.outputs;
  return std::any_of(launch.patches.begin(), launch.patches.end(), [&](const Patch& patch) {
    return patch.kind == Patch::Kind::address &&
           std::any_of(outputs.begin(), outputs.end(), [&](const Output& o) { return o.slot == patch.index; });
  });
}

bool is_same(const Patch& a, const Patch& b) {
  return a.kind == b.kind && a.word == b.word && a.index == b.index && a.offset == b.offset && a.start == b.start &&
         a.stride == b.stride;
}

bool is_same(const Launch& a, const Launch& b) {
  return a.text.body == b.text.body && a.text.functions == b.text.functions && a.text.threads == b.text.threads &&
         a.groups == b.groups && a.words == b.words &&
         std::equal(a.patches.begin(), a.patches.end(), b.patches.begin(), b.patches.end(),
                    [](const Patch& x, const Patch& y) { return is_same(x, y); });
}

// Their launches side by side: none where what they make of the left operand differs, or there is nothing to gain.
std::optional<Rendered> side_by_side(Products products, const std::vector<Rendered>& apart, bool join,
                                     const RenderLimits& limits) {
  Rendered result;
  result.scratch_bytes = apart.front().scratch_bytes;
  result.rounded = apart.front().rounded;
  const std::size_t count = apart.front().launches.size();
  bool shares = false;
  for (const Rendered& one : apart) {
    if (one.launches.size() != count || one.scratch_bytes != result.scratch_bytes || !one.forms.empty()) {
      return std::nullopt;
    }
  }
  for (std::size_t l = 0; l < count; ++l) {
    const bool last = makes_results(apart.front().launches[l], product(products.front()));
    std::vector<Launch> all;
    for (std::size_t i = 0; i < apart.size(); ++i) {
      const Launch& launch = apart[i].launches[l];
      if (makes_results(launch, product(products[i])) != last) return std::nullopt;
      if (last) {
        all.push_back(launch);
      } else if (!is_same(launch, apart.front().launches[l])) {
        return std::nullopt;
      }
    }
    if (!last) {
      shares = true;
      result.launches.push_back(apart.front().launches[l]);
    } else if (join) {
      std::optional<Launch> one = joined(all, limits);
      if (!one) return std::nullopt;
      result.launches.push_back(std::move(*one));
    } else {
      result.launches.insert(result.launches.end(), all.begin(), all.end());
    }
  }
  if (!shares && !join) return std::nullopt;
  return result;
}

std::optional<Rendered> together(Products products, const RenderLimits& limits) {
  std::vector<Rendered> apart;
  if (are_independent(products) && leave_units_idle(products, limits)) {
    double bytes = 0;
    for (const Kernel* const kernel : products) bytes += weight_bytes(product(kernel));
    for (const Kernel* const kernel : products) {
      RenderLimits own = limits;
      const double share = weight_bytes(product(kernel)) / bytes;
      own.units = std::max(1, static_cast<int>(share * limits.units + 0.5));
      apart.push_back(render_kernel(product(kernel), own));
    }
    if (std::optional<Rendered> one = side_by_side(products, apart, true, limits)) return one;
    apart.clear();
  }
  for (const Kernel* const kernel : products) apart.push_back(render_kernel(product(kernel), limits));
  return side_by_side(products, apart, false, limits);
}

}  // namespace

bool are_siblings(std::span<const Kernel* const> products, const RenderLimits& limits) {
  for (const Kernel* const kernel : products) {
    const ContractionKernel& one = product(kernel);
    const bool is_empty = one.b.numel() == 0 || one.m.numel() == 0 || one.n.numel() == 0 || one.k.numel() == 0;
    if (is_empty || !has_siblings(one)) return false;
  }
  return together(products, limits).has_value();
}

Rendered render_siblings(std::span<const Kernel* const> products, const RenderLimits& limits) {
  std::optional<Rendered> result = together(products, limits);
  if (result) return std::move(*result);
  // With fewer threads than where it was decided.
  Rendered all;
  for (const Kernel* const kernel : products) {
    Rendered one = render_kernel(product(kernel), limits);
    LOCKSTEP_ASSERT(one.forms.empty());
    all.scratch_bytes = std::max(all.scratch_bytes, one.scratch_bytes);
    for (Launch& launch : one.launches) all.launches.push_back(std::move(launch));
  }
  return all;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
