#include "graph/primitive.h"

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

Scalar element(const Scalar& value, int) {
  return value;
}
Scalar element(std::uint64_t value, int) {
  return {value};
}
Scalar element(const std::array<Scalar, 3>& values, int i) {
  return values[static_cast<std::size_t>(i)];
}
constexpr int count_of(const Scalar&) {
  return 1;
}
constexpr int count_of(std::uint64_t) {
  return 1;
}
constexpr int count_of(const std::array<Scalar, 3>&) {
  return 3;
}

}  // namespace

const char* Scan::op_name() const {
  switch (op) {
    case ScanOp::sum: return "cumulative sum";
    case ScanOp::prod: return "cumulative prod";
    case ScanOp::max: return "cumulative max";
    case ScanOp::min: return "cumulative min";
    case ScanOp::argmax: return "cumulative argmax";
    case ScanOp::argmin: return "cumulative argmin";
  }
  fail_invariant("a scan has one of the scan ops", __FILE__, __LINE__);
}

const char* name_of(const Primitive& op) {
  return visit_primitive([](const auto& primitive) { return primitive.op_name(); }, op);
}

Results results_of(const Primitive& op) {
  return visit_primitive([](const auto& primitive) { return primitive.results(); }, op);
}

bool is_cheap(const Primitive& op) {
  return visit_primitive([](const auto& primitive) { return primitive.is_cheap(); }, op);
}

const View* own_view_of(const Primitive& op, std::size_t position) {
  return visit_primitive(
      [&](const auto& primitive) {
        const View* view = nullptr;
        for_each_field(primitive, [&]<typename F>(const F&, const auto& member) {
          if constexpr (F::operand >= 0) {
            if (F::operand == static_cast<int>(position)) view = &member;
          }
        });
        return view;
      },
      op);
}

Scalar parameter_of(const Primitive& op, int position) {
  return visit_primitive(
      [&](const auto& primitive) {
        int first = 0;
        Scalar found;
        for_each_field(primitive, [&]<typename F>(const F&, const auto& member) {
          if constexpr (F::use == FieldUse::parameter) {
            const int count = count_of(member);
            if (position >= first && position < first + count) found = element(member, position - first);
            first += count;
          }
        });
        LOCKSTEP_ASSERT(position >= 0 && position < first);
        return found;
      },
      op);
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
