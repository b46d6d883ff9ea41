// A primitive has traits.
// fails with: traits
#include "graph/primitive.h"

namespace lockstep::graph {

struct WithoutTraits {
#ifndef LOCKSTEP_MUST_FAIL
  static constexpr Traits traits{
      .form = Form::elementwise, .reads_anywhere = 0, .reads_packed = 0, .is_trivial = false, .checks_index = false};
#endif
  static constexpr std::tuple<> fields{};
};

static_assert(TraitsTable<std::variant<Data, WithoutTraits>>::rows.size() == 2);

}  // namespace lockstep::graph
