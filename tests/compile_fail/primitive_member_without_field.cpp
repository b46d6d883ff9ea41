// Every member of a primitive is one of its fields.
// fails with: the fields of a primitive are its members, each once
#include "graph/primitive.h"

namespace lockstep::graph {

struct WithMemberWithoutField {
  View region;
  int dim = 0;
#ifdef LOCKSTEP_MUST_FAIL
  bool reversed = false;
#endif

  static constexpr Traits traits{.form = Form::irregular,
                                 .reads_anywhere = kAllOperands,
                                 .reads_packed = 0,
                                 .is_trivial = false,
                                 .checks_index = false};
  static constexpr std::tuple fields{key(&WithMemberWithoutField::region), key(&WithMemberWithoutField::dim)};
};

static_assert(TraitsTable<std::variant<Data, WithMemberWithoutField>>::rows.size() == 2);

}  // namespace lockstep::graph
