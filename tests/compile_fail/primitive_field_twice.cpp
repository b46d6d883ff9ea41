// A field that is listed twice does not stand for a member that is not listed.
// fails with: the fields of a primitive are its members, each once
#include "graph/primitive.h"

namespace lockstep::graph {

struct WithFieldTwice {
  int dim = 0;
  int other = 0;

  static constexpr Traits traits{.form = Form::irregular,
                                 .reads_anywhere = kAllOperands,
                                 .reads_packed = 0,
                                 .is_trivial = false,
                                 .checks_index = false};
#ifdef LOCKSTEP_MUST_FAIL
  static constexpr std::tuple fields{key(&WithFieldTwice::dim), key(&WithFieldTwice::dim)};
#else
  static constexpr std::tuple fields{key(&WithFieldTwice::dim), key(&WithFieldTwice::other)};
#endif
};

static_assert(TraitsTable<std::variant<Data, WithFieldTwice>>::rows.size() == 2);

}  // namespace lockstep::graph
