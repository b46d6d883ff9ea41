// A primitive's traits state every fact.
// fails with: Stated
#include "graph/primitive.h"

namespace lockstep::graph {

struct WithoutAFact {
  static constexpr Traits traits{.form = Form::elementwise,
                                 .reads_anywhere = 0,
                                 .reads_packed = 0,
#ifndef LOCKSTEP_MUST_FAIL
                                 .is_trivial = false,
#endif
                                 .checks_index = false};
  static constexpr std::tuple<> fields{};
};

static_assert(TraitsTable<std::variant<Data, WithoutAFact>>::rows.size() == 2);

}  // namespace lockstep::graph
