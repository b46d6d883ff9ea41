// The public ops that kernels/ops.def makes: every one is documented, and is one call of its row.
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include <lockstep/ops.h>

#include "graph/make.h"
#include "support/data.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

struct PublicRow {
  Op op;
  Tensor (*unary)(const Operand&);
  Tensor (*binary)(const Operand&, const Operand&);
};
const PublicRow kPublicRows[] = {
#define MADE_1(name) {Op::name, &name, nullptr},
#define MADE_2(name) {Op::name, nullptr, &name},
#define MADE_COMPUTES(name, arity) MADE_##arity(name)
#define MADE_SELECTS(name, arity) MADE_##arity(name)
#define MADE_OWN(name, arity)
#define ROW(name, arity, kind, types, cost, domain, call, ...) MADE_##call(name, arity)
#include "kernels/ops.def"
#undef ROW
#undef MADE_OWN
#undef MADE_SELECTS
#undef MADE_COMPUTES
#undef MADE_2
#undef MADE_1
};

TEST(Elementwise, EveryPublicRowIsInTheListOfOps) {
  std::ifstream file(test::repository_data("../../docs/ops.md"));
  ASSERT_TRUE(file.is_open());
  std::stringstream list;
  list << file.rdbuf();
  for (const PublicRow& row : kPublicRows) {
    const std::string call = std::string("\n| `") + info_of(row.op).name + (row.unary != nullptr ? "(a)`" : "(a, b)`");
    EXPECT_NE(list.str().find(call), std::string::npos) << info_of(row.op).name << ": run tools/list_ops.py";
  }
}

// Where the floats of a row's domain lie: f64 in (0.05, 1), or beyond.
Tensor operand_of(const OpInfo& info, std::uint64_t seed) {
  if ((info.types & kTypeF64) == 0) return random_tensor({20}, DType::i32, seed);
  const Tensor x = abs(random_tensor({20}, DType::f64, seed)) * 0.9 + 0.05;
  return info.domain == Domain::beyond ? x + 1.1 : x;
}

TEST(Elementwise, APublicRowIsOneCallOfTheRow) {
  for (const PublicRow& row : kPublicRows) {
    SCOPED_TRACE(info_of(row.op).name);
    const Tensor a = operand_of(info_of(row.op), 1);
    const Tensor b = operand_of(info_of(row.op), 2);
    if (row.unary != nullptr) {
      EXPECT_BITS_EQ(row.unary(a), graph::elementwise(row.op, a));
    } else {
      EXPECT_BITS_EQ(row.binary(a, b), graph::elementwise(row.op, a, b));
    }
  }
}

}  // namespace
}  // namespace lockstep
